internal import Glibc
internal import Jobs
internal import System
internal import TestKit
internal import Testing

/// People move, remove and touch files at random, while workers run and die: every job ends where the
/// last gesture on it says.
@Suite(.serialized, .timeLimit(.minutes(4))) struct RandomGestureTests {
  /// Requests that were under way, in monotonic nanoseconds.
  private struct Span: Sendable {
    var begin: Int64
    var end: Int64
  }

  private enum Wish { case runs, paused, gone }

  @Test func everyJobEndsWhereTheLastGestureSays() async {
    var random = Seeded(for: "random gestures")
    let spans = Locked<[Span]>([])
    let server = FaultServer { connection in
      while let head = connection.readHead() {
        let begin = Clock.monotonic()
        let isWhole = connection.read(head.length).count == head.length
        let isGone = !isWhole || connection.waitForEnd(seconds: 0.012) != nil
        spans.with { $0.append(Span(begin: begin, end: Clock.monotonic())) }
        if isGone { return }
        connection.send("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
      }
    }
    let yard = Yard()
    yard.configure(
      """
      {"slots": 1, "destinations": {
        "d": {"type": "file", "path": "\(yard.out)", "bandwidth": "300M"}}}
      """)
    let small = yard.source("small", [1, 2, 3])
    let large = yard.source("large", noise(6_000_000))
    var wishes: [Wish] = []
    for i in 0..<50 {
      let to = i % 2 == 0 ? "\(server.url)/\(i)" : "d:\(i)"
      yard.drop("j\(i)", to: to, [i % 2 == 0 ? small : large])
      wishes.append(.runs)
    }
    var workers = [yard.start("--durability", "process"), yard.start("--concurrency", "3")]
    var done = 0
    while done < 200 {
      await pause(Double.random(in: 0...0.02, using: &random))
      if Int.random(in: 0..<40, using: &random) == 0 {
        await yard.kill(workers[0])
        workers[0] = yard.start("--durability", "process")
      }
      let i = Int.random(in: 0..<50, using: &random)
      guard wishes[i] != .gone, let place = yard.place("j\(i)") else { continue }
      let isDone: Bool
      var wish = Wish.runs
      switch (place, Int.random(in: 0..<4, using: &random)) {
      case ("active", 0...2), ("pending", 0...2):
        isDone = yard.move("j\(i)", place, "paused")
        wish = .paused
      case ("paused", 0...2): isDone = yard.move("j\(i)", place, "pending")
      case ("done", _), ("failed", _): isDone = yard.move("j\(i)", place, "pending")
      case (_, _) where Int.random(in: 0..<4, using: &random) == 0:
        isDone = yard.remove("j\(i)", place)
        wish = .gone
      default: isDone = false
      }
      if isDone {
        done += 1
        wishes[i] = wish
      }
    }
    let trouble: Comment = "UPSPOOL_SEED=\(random.seed)\n\(yard.log.suffix(3000))"
    #expect(
      await eventually(60) { yard.count("pending") == 0 && yard.count("active") == 0 }, trouble)
    for (i, wish) in wishes.enumerated() {
      switch wish {
      case .runs: #expect(yard.places("j\(i)") == ["done"], "j\(i), \(trouble)")
      case .paused: #expect(yard.places("j\(i)") == ["paused"], "j\(i), \(trouble)")
      case .gone: #expect(yard.places("j\(i)") == [], "j\(i), \(trouble)")
      }
    }
    #expect(yard.count("failed") == 0)
    // Nothing leaks: only what is paused has something half-sent.
    let owed = Set(
      wishes.indices.filter { wishes[$0] == .paused }.flatMap { i in
        (yard.sidecar("j\(i)")?.resume ?? []).flatMap { $0.data.map(\.value) }
      })
    #expect(
      await eventually(40) {
        yard.folder.names("out").allSatisfy { !$0.hasPrefix(".") || owed.contains($0) }
      }, "\(yard.folder.names("out")) \(trouble)")
    for i in wishes.indices where wishes[i] == .runs && i % 2 == 1 {
      #expect(yard.folder.facts("out/\(i)")?.size == 6_000_000)
    }
    // One at a time, as the server sees it; it learns of an end a moment late.
    let all = spans.with { $0 }.sorted { $0.begin < $1.begin }
    for (a, b) in zip(all, all.dropFirst()) {
      #expect(b.begin > a.end - 5 * millisecond, trouble)
    }
    #expect(all.count > 10)
    for worker in workers { #expect(await yard.stop(worker) == 0) }
    #expect(server.connections > 0)
  }
}
