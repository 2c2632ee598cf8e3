internal import Glibc
internal import Jobs
internal import Spool
internal import System
internal import TestKit
internal import Testing

@testable internal import Commands

/// What `watch` draws, and what it prints.
@Suite struct WatchTests {
  private let frame = WatchFrame(
    running: [
      .init(
        name: "nightly", percent: 41.7, bytes: 417_000_000, totalBytes: 1_000_000_000,
        rate: 52_400_000, eta: 12),
      .init(name: "fotos-会議-2026", percent: 0, bytes: 0, totalBytes: nil, attempt: 3),
    ],
    counts: [("active", 2), ("pending", 1200), ("failed", 0)], percent: 41.7,
    notices: ["destination nas can't be reached since 20:05; next try in 12 s (3 failed)"])

  @Test func aFrameAt80And40Columns() {
    #expect(
      frame.lines(width: 80, height: 24) == [
        "nightly         [========>            ]  41%      0.4/1.0 GB   52.4 MB/s    12 s",
        "fotos-会議-2026 [                     ]   0%",
        "all             [========>            ]  41%                   52.4 MB/s",
        "2 active, 1,200 pending, 0 failed",
        "destination nas can't be reached since 20:05; next try in 12 s (3 failed)",
      ])
    #expect(
      frame.lines(width: 40, height: 24) == [
        "nightly      [=====>      ]  41%    12 s",
        "fotos-会議-… [            ]   0%",
        "all          [=====>      ]  41%",
        "2 active, 1,200 pending, 0 failed",
        "destination nas can't be reached since …",
      ])
  }

  @Test(arguments: [20, 25, 36, 40, 52, 60, 76, 80, 132, 300], [4, 5, 10, 24])
  func noLineIsWiderOrFrameHigherThanTheTerminal(_ width: Int, _ height: Int) {
    var frame = frame
    for i in 0..<30 {
      frame.running.append(
        .init(
          name: String(repeating: "e\u{301}漢", count: i), percent: Double(i * 100) / 29,
          bytes: .max / 2, totalBytes: .max, rate: .max / 100, eta: 1_000_000_000, attempt: i))
    }
    let lines = frame.lines(width: width, height: height)
    #expect(lines.count <= max(4, height))
    for line in lines { #expect(line.displayWidth <= width, "\(line)") }
    #expect(lines.contains { $0.contains("more") })
    #expect(lines.contains { $0.hasPrefix("all") })
  }

  @Test func whatHasNoTerminalGetsLinesAndTheExitCode() throws {
    let test = try TestSpool()
    test.job("good", in: .done)
    try test.sidecar("good", of: .done) {
      $0.files = [.init(path: "/a", remoteName: "a", state: .done)]
      ($0.bytes, $0.startedAt, $0.finishedAt) = (1_200_000, 1 * second, 41 * second)
    }
    let good = test.run(["watch", "good"])
    #expect(good.code == 0 && good.out == "done good: 1 file, 1.2 MB in 40 s\n")
    test.job("bad", in: .failed)
    try test.sidecar("bad", of: .failed) {
      $0.error = .init(kind: "x", message: "no\u{1b}[2J such file", advice: "look for it")
    }
    let bad = test.run(["watch", "good", "bad"])
    #expect(bad.code == 1)
    #expect(bad.out.contains("failed bad: no\u{fffd}[2J such file; look for it\n"))
    #expect(!bad.out.contains("\u{1b}"))
    #expect(test.run(["watch", "nobody"]).code == 1)
    #expect(
      test.run(["watch", "good", "--json"]).out.hasPrefix("{\"name\":\"good\",\"state\":\"done\""))
    // Nothing waits and nothing runs: it ends at once.
    #expect(test.run(["watch"]).code == 0)
  }

  @Test func whatIsScheduledForLaterHoldsNobodyUpUnlessNamed() async throws {
    let test = try TestSpool()
    // A time that a copy kept: later than its change.
    test.folder.write(
      "spool/later", "{\"to\": \"x:\", \"files\": [\"/a\"]}", modified: Clock.wall() + 3600 * second
    )
    test.folder.move("spool/later", to: "spool/pending/later.json")
    #expect(test.run(["watch"]).code == 0)
    let child = start(["watch", "--spool", test.path, "later"], output: test.folder.at("out"))
    #expect(await eventually { test.folder.text("out") == "pending later\n" })
    try? await Task.sleep(nanoseconds: 500_000_000)
    #expect(child.isRunning)
    test.folder.remove("spool/pending/later.json")
    #expect(await eventually { !child.isRunning })
    #expect(child.wait() == 0)
    #expect(test.folder.text("out") == "pending later\ncancelled later\n")
  }
}
