internal import Glibc
internal import Jobs
internal import Spool
internal import System
internal import TestKit
internal import Testing

@testable internal import Commands

@Suite struct StatusTests {
  /// The first two words of each row.
  private func rows(_ result: Result) -> [String] {
    result.lines.dropFirst().prefix { !$0.contains(" active,") }.map {
      $0.split(separator: " ").prefix(2).joined(separator: " ")
    }
  }

  @Test func jobsAreShownInTheOrderThatMatters() throws {
    let test = try TestSpool()
    let past = Clock.wall() - 3600 * second
    test.job("second", in: .pending, modified: past + second)
    test.job("b-first", in: .pending, modified: past)
    test.job("a-first", in: .pending, modified: past)
    test.job("later", in: .pending, modified: Clock.wall() + 7200 * second)
    test.job("runs", in: .active)
    test.job("held", in: .paused)
    test.job("gone-wrong", in: .failed)
    test.job("ready", in: .done)
    test.folder.write("spool/pending/.tmp", "x")
    test.folder.write("spool/pending/note.txt", "x")
    let result = test.run(["status"])
    #expect(result.code == 0 && result.err.isEmpty)
    #expect(
      rows(result) == [
        "active runs", "pending a-first", "pending b-first", "pending second", "pending later",
        "paused held", "failed gone-wrong", "done ready",
      ])
    #expect(result.out.contains("1 active, 4 pending, 1 paused, 1 failed, 1 done, 0 workers\n"))
    #expect(result.lines[5].contains("starts at "))
    #expect(result.out.contains("no worker runs here"))
    #expect(!result.out.contains("\u{1b}"))
  }

  @Test func anEmptySpoolIsOneLineOfNoughts() throws {
    let result = try TestSpool().run(["status"])
    #expect(result.code == 0)
    #expect(result.out.hasPrefix("0 active, 0 pending, 0 paused, 0 failed, 0 done, 0 workers\n"))
  }

  @Test func numbersAndReasonsComeFromTheSidecar() throws {
    let test = try TestSpool()
    test.job("runs", in: .active)
    try test.sidecar("runs", of: .active) {
      ($0.percent, $0.bytes, $0.totalBytes) = (41.7, 437_253_120, 1_048_576_000)
      ($0.bytesPerSecond, $0.etaSeconds, $0.attempt) = (52_428_800, 12, 2)
      $0.title = "Site visit"
    }
    test.job("waits", in: .pending)
    let mtime = try #require(test.folder.facts("spool/pending/waits.json")).modified
    try test.sidecar("waits", of: .pending) {
      $0.wait = .init(until: Clock.wall() + 100 * second, mtime: mtime, reason: "back-off")
      $0.error = .init(kind: "x", message: "HTTP 500", advice: "ask the server's people")
    }
    // Touched since: the wait is void.
    test.job("touched", in: .pending)
    try test.sidecar("touched", of: .pending) {
      $0.wait = .init(until: Clock.wall() + 100 * second, mtime: 7, reason: "back-off")
    }
    let result = test.run(["status"])
    let lines = result.lines.map(String.init)
    let runs = try #require(lines.first { $0.contains("runs") })
    for part in ["41%", "0.4/1.0 GB", "52.4 MB/s", "12 s", " 2 ", "Site visit"] {
      #expect(runs.contains(part), "\(runs)")
    }
    let waits = try #require(lines.first { $0.contains("waits") })
    #expect(waits.contains("again in ") && waits.contains("HTTP 500"), "\(waits)")
    #expect(lines.contains { $0.contains("touched") && !$0.contains("again") })
    let named = test.run(["status", "waits"])
    #expect(named.out.contains("→ ask the server's people\n"))
  }

  @Test func theDirectoryWinsOverTheSidecarAndForeignSidecarsDoNotSpeak() throws {
    let test = try TestSpool()
    test.job("moved", in: .paused)
    try test.sidecar("moved", of: .paused, .active) {
      $0.phase = .sending
      ($0.percent, $0.bytes, $0.totalBytes, $0.bytesPerSecond, $0.etaSeconds) = (50, 5, 10, 5, 1)
    }
    test.job("new", in: .pending)
    try test.sidecar("new", of: .pending, .done) {
      $0.id = "1-2"
      $0.percent = 100
    }
    test.job("broken", in: .failed)
    test.folder.write("spool/progress/broken.json", "")
    let result = test.run(["status", "--json"])
    #expect(
      result.out.split(separator: "\n").map { $0.prefix(60) } == [
        #"{"name":"new","state":"pending","percent":0.0,"error":null,"job":"new"}"#.prefix(60),
        #"{"name":"moved","state":"paused","percent":50.0,"error":null,"job":"moved""#.prefix(60),
        #"{"name":"broken","state":"failed","percent":0.0,"error":null,"job":"broken"}"#.prefix(60),
      ])
    let moved = try JSON(parsing: Array(result.lines[1].utf8))
    #expect(moved.member("phase") == nil)
    #expect(moved.member("bytesPerSecond")?.kind == .null)
    #expect(moved.member("etaSeconds")?.kind == .null)
    #expect(moved.member("bytes")?.integer == 5)
  }

  @Test func jsonIsOneObjectALineWhateverTheNamesAre() throws {
    let test = try TestSpool()
    let names = [
      "a b", "\"", "\\", "写真", String(repeating: "n", count: 195), "'$(x)`", "e\u{301}",
      "\u{2028}", "\u{85}",
    ]
    for name in names {
      test.job(name, in: .done)
      try test.sidecar(name, of: .done) {
        $0.extra = [.init(key: "x-k", json: #"{"deep": [1, 2.5, null]}"#)]
        $0.percent = 100
      }
    }
    #expect(
      shell("cp \(test.path)/done/写真.json \"$(printf '\(test.path)/done/a\\377.json')\"").code == 0)
    let result = test.run(["status", "--json"])
    #expect(result.code == 0 && result.lines.count == names.count + 1)
    var seen: [String] = []
    for line in result.lines {
      let json = try JSON(parsing: Array(line.utf8))
      #expect(json.members.prefix(2).map(\.key) == ["name", "state"])
      #expect(json.member("state")?.string == "done")
      seen.append(json.member("name")?.string ?? "")
      if json.member("id") != nil {
        #expect(json.member("x-k")?.compact == #"{"deep":[1,2.5,null]}"#)
      }
    }
    #expect(seen.sorted() == (names + ["a\u{fffd}"]).sorted())
    // The table shows them all on one line each, without control characters.
    let table = test.run(["status"])
    #expect(table.out.split(separator: "\n").count == names.count + 4)
    #expect(!table.out.unicodeScalars.contains { $0.value == 0x85 || $0.value == 0x2028 })
  }

  @Test func columnsStandBelowEachOtherWhateverTheScript() throws {
    let test = try TestSpool()
    for name in ["plain", "写真集", "한글-jobs", "e\u{301}tude", String(repeating: "写", count: 60)] {
      test.job(name, in: .done)
      try test.sidecar(name, of: .done) {
        ($0.percent, $0.bytes, $0.totalBytes, $0.attempt) = (100, 5, 5, 1)
        $0.title = "|title"
      }
    }
    let lines = test.run(["status"]).lines.prefix(6).map(String.init)
    let column = try #require(lines[0].firstBytes("NOTE")).lowerBound
    let width = lines[0][..<column].displayWidth
    for line in lines.dropFirst() {
      let mark = try #require(line.firstIndex(of: "|"))
      #expect(line[..<mark].displayWidth == width, "\(line)")
      #expect(line.displayWidth <= 100)
    }
  }

  @Test func namedJobsMayBePatternsAndMissingOnesAreTold() throws {
    let test = try TestSpool()
    for name in ["night-1", "night-2", "day", "[x]", "a.json"] { test.job(name, in: .pending) }
    test.job("day", in: .done)
    func names(_ words: [String]) -> [String] {
      rows(test.run(["status"] + words)).sorted()
    }
    #expect(names(["night-*"]) == ["pending night-1", "pending night-2"])
    #expect(names(["night-?.json"]) == ["pending night-1", "pending night-2"])
    #expect(names(["day.json"]) == ["done day", "pending day"])
    #expect(names(["day", "d*"]) == ["done day", "pending day"])
    #expect(names(["[x]"]) == ["pending [x]"])
    #expect(names(["a.json"]) == ["pending a.json"])
    let missing = test.run(["status", "none", "day", "no*", "../format", ""])
    #expect(missing.code == 1)
    #expect(rows(missing).sorted() == ["done day", "pending day"])
    #expect(
      missing.err
        == ["none", "no*", "../format", ""].map { "\($0): no such job in \(test.path)\n" }
        .joined())
    #expect(test.run(["status", "--json", "none"]).out.isEmpty)
    // A name that is no UTF-8.
    let odd = shell(
      "f=$(printf 'a\\377'); cp \(test.path)/done/day.json \"\(test.path)/done/$f.json\"; "
        + "\"$0\" status --spool \(test.path) \"$f\"")
    #expect(odd.code == 0 && odd.out.contains("done     a\u{fffd}"))
  }

  @Test func onlyTheNewestOfManyFinishedJobsAreShown() throws {
    let test = try TestSpool()
    for i in 0..<300 {
      test.job("job-\(i)", in: .done)
      // Coming here sets the ctime, by which they are ordered; ticks are up to 10 ms apart.
      if i >= 278 { usleep(12_000) }
    }
    let result = test.run(["status"])
    #expect(rows(result).prefix(20) == (280..<300).reversed().map { "done job-\($0)" }[...])
    #expect(result.out.contains("and 280 more in done/\n"))
    #expect(result.out.contains("300 done"))
    #expect(test.run(["status", "job-*"]).lines.count == 301)
    #expect(test.run(["status", "--json"]).lines.count == 300)
  }

  @Test func workersAndTheirOpenCircuitsAreTold() throws {
    let test = try TestSpool()
    let presence = try Presence(test.spool)
    defer { presence.leave() }
    let until = Times.format(Clock.wall() + 3600 * second)
    presence.publish(
      Array(
        """
        {"worker": "\(test.spool.uuid)", "destinations": [
          {"name": "photos", "state": "open", "reason": "signIn", "since": "2026-01-01T00:00:00Z",
           "until": "\(until)", "failures": 3},
          {"name": "other", "state": "closed"}]}
        """.utf8), suffix: ".json")
    // A dead worker's word is nobody's.
    test.folder.write("spool/workers/\(newUUID()).lock", "")
    let result = test.run(["status"])
    #expect(result.out.contains(", 1 worker\n"))
    let line = try #require(result.lines.last)
    #expect(
      line.hasPrefix("destination photos refuses the sign-in since 2026-01-01 00:00; next try at "))
    #expect(line.hasSuffix("(3 failed)"))
    #expect(!result.out.contains("other") && !result.out.contains("no worker runs"))
    // What isn't a report stops nobody.
    presence.publish(Array("{".utf8), suffix: ".json")
    #expect(test.run(["status"]).code == 0)
  }

  @Test func aReaderThatGoesAwayEndsItQuietly() throws {
    let test = try TestSpool()
    for i in 0..<3000 { test.job("a-rather-long-name-of-a-job-\(i)", in: .pending) }
    let result = shell(
      "{ \"$0\" status --spool \(test.path); echo $? > \(test.folder.at("code")); } | head -n 1")
    #expect(result.out.hasPrefix("STATE") && result.err.isEmpty)
    #expect(test.folder.text("code") == "0\n")
    let full = shell("\"$0\" status --spool \(test.path) > /dev/full")
    #expect(full.code == 1)
    #expect(full.err == "upspool: cannot write the output: No space left on device\n")
  }

  @Test func aLongQueueIsReadQuickly() throws {
    let folder = Folder(in: "/dev/shm")
    let path = folder.at("spool")
    try Spool.create(path)
    for i in 0..<20_000 { folder.write("spool/pending/job-\(i).json", "{}") }
    let before = Clock.monotonic()
    let result = upspool(["status", "--spool", path])
    #expect(result.out.contains("20,000 pending"))
    #expect(result.lines.count > 20_000)
    // An optimised build takes a twentieth of it.
    #expect(Clock.monotonic() - before < 20 * second)
  }

  @Test func aNewerLayoutIsRefused() throws {
    let test = try TestSpool()
    test.folder.write("spool/format", "2\n")
    for words in [["status"], ["submit", "/etc/hostname", "--to", "x:"], ["prune"], ["health"]] {
      let result = test.run(words)
      #expect(
        result.code == 1 && result.err.contains("knows up to 1; run a newer upspool"), "\(words)")
    }
  }
}
