internal import Glibc
internal import Jobs
internal import Spool
internal import System
internal import TestKit
internal import Testing

@testable internal import Commands

@Suite struct WatchTests {
  /// Follows the jobs of a test's spool, look by look.
  private func watcher(_ test: TestSpool, _ names: [String] = [], follows: Bool = false) -> Watcher
  {
    Watcher(test.spool, Selection(names.map { Name($0) }), follows: follows)
  }
  /// A look at so many seconds on the monotonic clock: the news as "name before→state".
  private func look(_ watcher: inout Watcher, _ time: Double) throws -> [String] {
    let found = try watcher.look(now: Clock.wall(), time: Int64(time * 1e9))
    return found.news.filter(\.isTurn).map {
      "\($0.job.name) \($0.before?.rawValue ?? "")→\($0.job.state.rawValue)"
    }.sorted()
  }
  private func move(_ test: TestSpool, _ name: String, _ from: Place, _ to: Place) {
    #expect(
      test.folder.move(
        "spool/\(from.rawValue)/\(name).json", to: "spool/\(to.rawValue)/\(name).json")
    )
  }

  @Test func jobsThatHaveEndedAreToldAtOnce() throws {
    let test = try TestSpool()
    test.job("nightly", in: .done)
    try test.sidecar("nightly", of: .done) {
      ($0.percent, $0.bytes, $0.totalBytes) = (100, 1_234_000_000, 1_234_000_000)
      $0.startedAt = 1_000_000 * second
      $0.finishedAt = 1_000_040 * second
      $0.files = (0..<3).map { .init(path: "/\($0)", remoteName: "\($0)") }
    }
    let done = test.run(["watch", "nightly.json"])
    #expect(done.code == 0 && done.err.isEmpty)
    #expect(done.out == "done nightly: 3 files, 1.2 GB in 40 s\n")
    test.job("same", in: .done)
    try test.sidecar("same", of: .done) { $0.duplicateOf = "nightly" }
    #expect(test.run(["watch", "same"]).out == "done same: the same work as nightly\n")
    test.job("bad", in: .failed)
    try test.sidecar("bad", of: .failed) {
      $0.error = .init(kind: "x", message: "HTTP 403\u{1b}", advice: "ask its people")
    }
    let failed = test.run(["watch", "bad", "nightly"])
    #expect(failed.code == 1)
    #expect(
      failed.out
        == "failed bad: HTTP 403\u{fffd}\n  → ask its people\n"
        + "done nightly: 3 files, 1.2 GB in 40 s\n")
    let missing = test.run(["watch", "nightly", "none", "no*"])
    #expect(missing.code == 1 && missing.out.hasPrefix("done nightly"))
    #expect(
      missing.err == "none: no such job in \(test.path)\nno*: no such job in \(test.path)\n")
    #expect(test.run(["watch", "n*"]).code == 0)
    #expect(test.run(["watch", "*"]).code == 1)
    let json = test.run(["watch", "--json", "nightly"])
    #expect(json.code == 0 && json.lines.count == 1)
    #expect(json.out.hasPrefix(#"{"name":"nightly","state":"done","percent":100.0,"#))
  }

  @Test func withoutNamesNothingLeftMeansTheEnd() throws {
    let test = try TestSpool()
    test.job("old", in: .failed)
    test.job("held", in: .paused)
    test.job("later", in: .pending, modified: Clock.wall() + 3600 * second)
    test.job("scheduled", in: .pending)
    let mtime = try #require(test.folder.facts("spool/pending/scheduled.json")).modified
    try test.sidecar("scheduled", of: .pending) {
      $0.wait = .init(until: Clock.wall() + 900 * second, mtime: mtime, reason: "notBefore")
    }
    test.folder.write(
      "spool/pending/unseen.json",
      #"{"to": "x:", "files": ["/a"], "notBefore": "2200-01-01T00:00:00Z"}"#)
    let result = test.run(["watch"])
    #expect(result.code == 0)
    #expect(result.out.hasSuffix("3 pending, 1 paused\n"), "\(result.out)")
    // One that may run at once is waited for.
    test.job("now", in: .pending)
    var watcher = watcher(test)
    for time in 0..<4 { _ = try look(&watcher, Double(time * 2)) }
    #expect(!watcher.isOver)
    let empty = try TestSpool().run(["watch"])
    #expect(empty.code == 0 && empty.out == "nothing to watch\n")
  }

  @Test func eachChangeOfStateIsSeenOnce() throws {
    let test = try TestSpool()
    test.job("a", in: .pending)
    test.job("b", in: .pending)
    var watcher = watcher(test, ["a", "b"])
    #expect(try look(&watcher, 0) == ["a →pending", "b →pending"])
    #expect(try look(&watcher, 0.2).isEmpty)
    move(test, "a", .pending, .active)
    move(test, "b", .pending, .paused)
    #expect(try look(&watcher, 0.4) == ["a pending→active", "b pending→paused"])
    #expect(watcher.counts[.active] == 1 && watcher.counts[.paused] == 1)
    #expect(watcher.counts[.pending] == 0)
    move(test, "a", .active, .failed)
    #expect(try look(&watcher, 0.6) == ["a active→failed"])
    #expect(watcher.hasFailed && !watcher.isOver)
    // Moved back it is waited for again.
    move(test, "a", .failed, .pending)
    #expect(try look(&watcher, 2) == ["a failed→pending"])
    #expect(!watcher.hasFailed && watcher.counts[.failed] == 0)
    move(test, "a", .pending, .done)
    move(test, "b", .paused, .done)
    #expect(try look(&watcher, 2.2) == ["a pending→done", "b paused→done"])
    #expect(watcher.isOver && !watcher.hasFailed)
  }

  @Test func aRemovedJobIsCancelledAfterTwoLooks() throws {
    let test = try TestSpool()
    test.job("a", in: .active)
    test.job("told", in: .active)
    try test.sidecar("told", of: .active)
    var watcher = watcher(test, ["a", "told"])
    _ = try look(&watcher, 0)
    test.folder.move("spool/active/a.json", to: "spool/away")
    #expect(try look(&watcher, 0.2).isEmpty)
    #expect(try look(&watcher, 0.9).isEmpty)
    // It was only on its way.
    test.folder.move("spool/away", to: "spool/pending/a.json")
    #expect(try look(&watcher, 1.3) == ["a active→pending"])
    test.folder.remove("spool/pending/a.json")
    #expect(try look(&watcher, 1.5).isEmpty)
    #expect(try look(&watcher, 2.6) == ["a pending→cancelled"])
    // With the worker's word for it a single one is enough.
    try test.sidecar("told", of: .active, .cancelled)
    test.folder.remove("spool/active/told.json")
    #expect(try look(&watcher, 2.8) == ["told active→cancelled"])
    #expect(watcher.isOver && !watcher.hasFailed)
  }

  @Test func anotherJobOfTheNameIsNotTakenForIt() throws {
    let test = try TestSpool()
    test.job("a", in: .paused)
    var watcher = watcher(test, ["a"])
    #expect(try look(&watcher, 0) == ["a →paused"])
    // As a worker makes room for a newer one.
    test.folder.move("spool/paused/a.json", to: "spool/paused/a~1.json")
    test.job("a", in: .active)
    #expect(try look(&watcher, 0.2).isEmpty)
    #expect(watcher.known.values.map(\.name) == ["a~1"])
    test.folder.move("spool/active/a.json", to: "spool/done/a.json")
    #expect(try look(&watcher, 2).isEmpty && !watcher.isOver)
  }

  @Test func thePercentageNeverGoesBackWithinARun() throws {
    let test = try TestSpool()
    test.job("a", in: .active)
    func say(_ percent: Double, run: Int = 1) throws {
      try test.sidecar("a", of: .active) {
        ($0.percent, $0.bytes, $0.totalBytes, $0.run) = (percent, Int64(percent), 100, run)
      }
    }
    var watcher = watcher(test, ["a"])
    func shown() -> Double? {
      WatchView(watcher, now: 0).rows.first?.percent
    }
    var time = 0.0
    for (said, run, expected) in [(40.0, 1, 40.0), (30, 1, 40), (50, 1, 50), (10, 2, 10)] {
      try say(said, run: run)
      _ = try look(&watcher, time)
      #expect(shown() == expected)
      time += 0.2
    }
  }

  @Test func everythingIsFoundAlsoWhatComesAndEndsInBetween() throws {
    let test = try TestSpool()
    test.job("old", in: .done)
    test.job("runs", in: .active)
    var watcher = watcher(test, follows: true)
    #expect(try look(&watcher, 0) == ["runs →active"])
    test.job("new", in: .active)
    #expect(try look(&watcher, 0.2) == ["new →active"])
    test.job("quick", in: .done)
    try test.sidecar("quick", of: .done) { $0.finishedAt = Clock.wall() + second }
    // It made room for a newer one of its name: an old story.
    test.folder.move("spool/done/old.json", to: "spool/done/old~1.json")
    try test.sidecar("old~1", of: .done) { $0.finishedAt = 1_000_000 * second }
    move(test, "runs", .active, .done)
    #expect(try look(&watcher, 1.2) == ["quick →done", "runs active→done"])
    // The same name again.
    test.folder.move("spool/done/quick.json", to: "spool/done/quick~1.json")
    test.folder.move("spool/progress/quick.json", to: "spool/progress/quick~1.json")
    test.job("quick", in: .done)
    try test.sidecar("quick", of: .done) { $0.finishedAt = Clock.wall() + second }
    #expect(try look(&watcher, 4).contains("quick →done"))
    #expect(!watcher.isOver)
  }

  @Test func aPausedJobIsToldOnceAndWaitedFor() async throws {
    let test = try TestSpool()
    test.job("a", in: .paused)
    let child = start(["watch", "--spool", test.path, "a"], output: test.folder.at("out"))
    #expect(await eventually { test.folder.text("out")?.contains("paused a\n") == true })
    usleep(700_000)
    #expect(child.isRunning)
    move(test, "a", .paused, .done)
    #expect(child.wait(seconds: 5) == 0)
    let out = test.folder.text("out") ?? ""
    #expect(out.hasSuffix("done a\n"), "\(out)")
    #expect(out.split(separator: "\n").count { $0.hasPrefix("paused") } == 1)
    #expect(!out.contains("\u{1b}"))
  }

  @Test func readingIsEnough() throws {
    if asNobody.isEmpty { return }
    let test = try TestSpool()
    test.job("a", in: .done)
    let result = upspool(["watch", "--spool", test.path, "a"], prefix: asNobody)
    #expect(result.code == 0 && result.out == "done a\n", "\(result.err)")
  }

  @Test func aSpoolThatGoesAwayAndAReaderThatDoesEndIt() async throws {
    let test = try TestSpool()
    test.job("a", in: .paused)
    let child = start(["watch", "--spool", test.path, "-f"], output: test.folder.at("out"))
    #expect(await eventually { test.folder.text("out")?.contains("no worker") == true })
    test.folder.move("spool/done", to: "spool/gone")
    #expect(child.wait(seconds: 5) == 1)
    #expect(test.folder.text("out")?.contains("were removed or replaced") == true)
    test.folder.move("spool/gone", to: "spool/done")
    let begin = Clock.monotonic()
    #expect(shell("\"$0\" watch --spool \(test.path) a | head -n 1").out == "paused a\n")
    #expect(Clock.monotonic() - begin < 5 * second)
  }

  @Test func wrongCallsExitWithTwo() throws {
    let test = try TestSpool()
    #expect(test.run(["watch", "--interval", "x"]).code == 2)
    #expect(test.run(["watch", "--all"]).code == 2)
    #expect(upspool(["watch", "--spool", test.folder.at("none")]).code == 1)
  }

  @Test func aLongQueueCostsLittle() async throws {
    let folder = Folder(in: "/dev/shm")
    let path = folder.at("spool")
    try Spool.create(path)
    for i in 0..<20_000 { folder.write("spool/pending/job-\(i).json", "{}") }
    let child = start(["watch", "--spool", path], output: folder.at("out"))
    #expect(await eventually(20) { folder.text("out")?.contains("no worker") == true })
    let before = child.cpuTime
    usleep(3_000_000)
    #expect(child.isRunning)
    // A tenth of a core, in a build that isn't optimised.
    #expect(child.cpuTime - before < 300 * millisecond)
    child.send(SIGTERM)
    #expect(child.wait(seconds: 5) == 128 + SIGTERM)
  }
}
