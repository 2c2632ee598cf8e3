internal import Glibc
internal import Spool
internal import System
internal import TestKit
internal import Testing

/// `pause`, `resume`, `cancel` and `retry`: files are moved and nothing else.
@Suite struct MovesTests {
  @Test func eachGestureMovesWhereItMeansSomething() throws {
    let test = try TestSpool()
    for place in Place.allCases { test.job(place.rawValue, in: place) }
    let all = Place.allCases.map(\.rawValue)
    let pause = test.run(["pause"] + all)
    #expect(pause.code == 1)
    #expect(pause.out == "paused pending\npaused active\n")
    #expect(pause.err.contains("paused: is in paused/; nothing to pause\n"))
    #expect(pause.err.contains("done: is in done/; nothing to pause\n"))
    #expect(test.names(.paused) == ["active.json", "paused.json", "pending.json"])
    #expect(test.run(["resume", "active", "pending.json"]).code == 0)
    #expect(test.names(.pending) == ["active.json", "pending.json"])
    #expect(test.run(["retry", "failed", "-q"]).out == "")
    #expect(test.names(.failed) == [])
    #expect(test.run(["retry", "done"]).code == 1)
    #expect(test.run(["retry", "--done", "done"]).code == 0)
    #expect(test.run(["cancel", "paused", "active", "done"]).code == 0)
    #expect(test.names(.paused) == [])
    #expect(test.names(.pending) == ["failed.json", "pending.json"])
  }

  @Test func patternsAndAllPassOverWhatTheyDoNotMean() throws {
    let test = try TestSpool()
    for i in 0..<5 { test.job("n-\(i)", in: i < 3 ? .pending : .done) }
    test.job("other", in: .active)
    #expect(test.run(["pause", "n-*"]).out.split(separator: "\n").count == 3)
    #expect(test.run(["pause", "n-*"]).code == 1)
    #expect(test.run(["resume", "--all"]).code == 0)
    let cancel = test.run(["cancel", "--all"])
    #expect(cancel.code == 0 && cancel.lines.count == 4)
    #expect(test.names(.done) == ["n-3.json", "n-4.json"])
    test.job("n-9", in: .pending)
    #expect(test.run(["pause", "n-9*", "n-9"]).code == 0)
    #expect(test.run(["cancel", "n-9"]).code == 0)
    let none = test.run(["cancel", "--all"])
    #expect(none.code == 1 && none.err == "upspool cancel: there is no job to cancel\n")
    #expect(test.run(["pause", "x*"]).err.contains("x*: no such job"))
  }

  @Test func groupsAndDestinationsAreReadFromTheJobs() throws {
    let test = try TestSpool()
    func job(_ name: String, _ to: String, _ more: String = "") {
      test.folder.write(
        "spool/pending/\(name).json", "{\"to\": \"\(to)\", \"files\": [\"/a\"]\(more)}")
    }
    job("a", "photos:x/", ", \"group\": \"visit\"")
    job("b", "photos:", ", \"group\": \"other\"")
    job("c", "https://h.example/in/", ", \"group\": \"visit\"")
    job("d", "https://h.example.net/in/")
    test.folder.write("spool/pending/broken.json", "{")
    func paused(_ words: String...) -> [String] {
      _ = test.run(["pause"] + words)
      let names = test.names(.paused)
      _ = test.run(["resume", "--all"])
      return names
    }
    #expect(paused("--group", "visit") == ["a.json", "c.json"])
    #expect(paused("--destination", "photos") == ["a.json", "b.json"])
    #expect(paused("--destination", "https://h.example") == ["c.json"])
    #expect(paused("-g", "visit", "-D", "photos") == ["a.json"])
    #expect(paused("--group", "visit", "b", "c") == ["c.json"])
    #expect(paused("--group", "nobody") == [])
  }

  @Test func namesComeFromStandardInput() throws {
    let test = try TestSpool()
    for name in ["a", "b b", "c\u{e9}", "d"] { test.job(name, in: .pending) }
    let lines = shell("printf 'a\\nb b.json\\n\\n' | $0 pause --spool \(test.path) -")
    #expect(lines.code == 0 && test.names(.paused) == ["a.json", "b b.json"])
    let nul = shell("printf 'a\\0d\\0' | $0 cancel --spool \(test.path) -")
    #expect(nul.code == 0 && test.names(.paused) == ["b b.json"])
    #expect(test.names(.pending) == ["c\u{e9}.json"])
    // A name from a list is a name, whatever it looks like.
    #expect(shell("echo 'c*' | $0 cancel --spool \(test.path) -").code == 1)
    #expect(shell("$0 cancel --spool \(test.path) - < /dev/null").code == 0)
    #expect(test.names(.pending) == ["c\u{e9}.json"])
    #expect(test.run(["cancel"]).code == 2)
    #expect(test.run(["cancel", "--all", "x"]).code == 2)
  }

  @Test func aNamesakeAtTheTargetIsNeverOverwritten() throws {
    let test = try TestSpool()
    test.job("a", in: .pending)
    test.folder.write("spool/paused/a.json", "older")
    let result = test.run(["pause", "a"])
    #expect(result.code == 1)
    #expect(
      result.err
        == "a: \(test.path)/paused has another job of that name; move or remove that one first\n")
    #expect(test.folder.text("spool/paused/a.json") == "older")
    #expect(test.names(.pending) == ["a.json"])
  }

  @Test(.enabled(if: !asNobody.isEmpty)) func whoMayNotIsToldSo() throws {
    let test = try TestSpool()
    test.job("a", in: .pending)
    let result = upspool(["pause", "--spool", test.path, "a"], prefix: asNobody)
    #expect(result.code == 1)
    #expect(result.err.contains("a: this user may not take it out of \(test.path)/pending"))
    #expect(test.names(.pending) == ["a.json"])
  }
}
