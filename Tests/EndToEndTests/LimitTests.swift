internal import Glibc
internal import Jobs
internal import System
internal import TestKit
internal import Testing

/// How many at once, how fast, and over how many workers.
@Suite(.serialized, .timeLimit(.minutes(3))) struct LimitTests {
  @Test(arguments: [1, 2]) func slotsHoldOverAllWorkers(_ slots: Int) async {
    let receiver = Receiver(keeping: false) { _ in .late(0.02, "201 Created") }
    await inYard { yard in
      let path = yard.source("a", [1])
      yard.destinations(
        [("d", "\"type\": \"http\", \"url\": \"\(receiver.url)/\", \"slots\": \(slots)")])
      let workers = (0..<3).map { _ in yard.start("--concurrency", "4") }
      let paths = (0..<4).map { yard.source("b\($0)", [UInt8($0)]) }
      for i in 0..<20 { yard.drop("m\(i)", to: "d:\(i)/", paths, "\"parallel\": 4") }
      for i in 0..<40 { yard.drop("k\(i)", to: "d:\(i)", [path]) }
      #expect(await yard.wait(60, in: "done", seconds: 60), "\(yard.log.suffix(3000))")
      #expect(receiver.most == slots)
      for worker in workers { #expect(await yard.stop(worker) == 0) }
      #expect(yard.lines("warning") == [])
    }
  }

  @Test func oneSlotForEverythingHoldsWhateverIsResumedOrRetried() async {
    let receiver = Receiver(keeping: false) { seen in
      seen.time == 1 && seen.target.hasSuffix("7") ? .status("400 No") : .late(0.01, "201 Created")
    }
    await inYard { yard in
      let path = yard.source("a", [1])
      yard.configure("{\"slots\": 1}")
      let workers = (0..<2).map { _ in yard.start("--concurrency", "8") }
      for i in 0..<40 {
        yard.drop(
          "j\(i)", to: "\(receiver.url)/\(i)", [path], "\"priority\": \(i % 10)",
          in: i % 4 == 0 ? "paused" : "pending")
      }
      for i in stride(from: 0, to: 40, by: 4) {
        await pause(0.02)
        #expect(yard.move("j\(i)", "paused", "pending"))
      }
      #expect(await yard.wait(4, in: "failed"))
      for i in [7, 17, 27, 37] { #expect(yard.move("j\(i)", "failed", "pending")) }
      #expect(await yard.wait(40, in: "done"), "\(yard.log.suffix(3000))")
      #expect(receiver.most == 1)
      for worker in workers { #expect(await yard.stop(worker) == 0) }
    }
  }

  @Test func aDeadWorkersSlotIsFree() async {
    let receiver = Receiver(keeping: false) { seen in
      seen.target == "/long" && seen.time == 1 ? .late(20, "201 Created") : .status("201 Created")
    }
    await inYard { yard in
      let path = yard.source("a", [1])
      yard.configure("{\"slots\": 1}")
      let first = yard.start()
      yard.drop("long", to: receiver.url + "/long", [path])
      #expect(await eventually { receiver.most == 1 })
      let second = yard.start()
      yard.drop("next", to: receiver.url + "/next", [path])
      await pause(0.7)
      #expect(yard.place("next") == "pending")
      await yard.kill(first)
      #expect(await yard.wait("next", in: "done", seconds: 3))
      #expect(await yard.stop(second) == 0)
    }
  }

  @Test func newSlotsCountWhatRanBeforeThem() async {
    let receiver = Receiver(keeping: false) { seen in
      seen.target.hasPrefix("/long") ? .late(2, "201 Created") : .status("201 Created")
    }
    await inYard { yard in
      let path = yard.source("a", [1])
      yard.configure("{}")
      let worker = yard.start()
      for i in 0..<3 { yard.drop("long\(i)", to: "\(receiver.url)/long\(i)", [path]) }
      #expect(await eventually { receiver.most == 3 })
      yard.configure("{\"slots\": 1}")
      worker.send(SIGHUP)
      #expect(await eventually { !yard.lines("reload").isEmpty })
      yard.drop("next", to: receiver.url + "/next", [path])
      #expect(await yard.wait("next", in: "done"))
      let begun = receiver.seen("/next").first?.began ?? 0
      let ends = (0..<3).compactMap { receiver.seen("/long\($0)").first?.at }
      // Their bodies were there at once, and their answers two seconds later.
      #expect(ends.count == 3 && ends.allSatisfy { begun > $0 + 1900 * millisecond })
      #expect(await yard.stop(worker) == 0)
    }
  }

  @Test func requestsPerSecondSpaceOneDestinationOnly() async {
    let receiver = Receiver(keeping: false) { _ in .status("201 Created") }
    await inYard { yard in
      let path = yard.source("a", [1])
      yard.destinations(
        [("d", "\"type\": \"http\", \"url\": \"\(receiver.url)/\", \"requestsPerSecond\": 10")])
      let worker = yard.start("--concurrency", "2")
      for i in 0..<25 { yard.drop("j\(i)", to: "d:\(i)", [path]) }
      #expect(await eventually { receiver.seen.count >= 3 })
      let start = Clock.monotonic()
      for i in 0..<20 { yard.drop("k\(i)", to: "\(receiver.url)/free/\(i)", [path]) }
      #expect(await eventually { receiver.seen.count { $0.target.contains("free") } == 20 })
      #expect(Clock.monotonic() - start < second)
      #expect(await yard.wait(45, in: "done"))
      let times = receiver.seen.filter { !$0.target.contains("free") }.map(\.began).sorted()
      let took = (times.last ?? 0) - (times.first ?? 0)
      #expect(2_300 * millisecond..<4 * second ~= took, "\(took / millisecond) ms")
      #expect(await yard.stop(worker) == 0)
    }
  }

  @Test func aNewLimitHoldsForWhatRuns() async {
    let receiver = Receiver(keeping: false) { _ in .status("201 Created") }
    await inYard { yard in
      func configure(_ bandwidth: String) {
        yard.destinations(
          [
            (
              "d",
              "\"type\": \"http\", \"url\": \"\(receiver.url)/\", \"bandwidth\": \"\(bandwidth)\""
            )
          ])
      }
      configure("1M")
      let big = yard.sparse("big", 30_000_000)
      let worker = yard.start()
      yard.drop("big", to: "d:", [big])
      #expect(await eventually { (yard.sidecar("big")?.bytes ?? 0) > 500_000 })
      #expect(yard.place("big") == "active")
      configure("100M")
      worker.send(SIGHUP)
      let start = Clock.monotonic()
      #expect(await yard.wait("big", in: "done"))
      #expect(Clock.monotonic() - start < 5 * second)
      #expect(receiver.seen("/big").count == 1)
      #expect(await yard.stop(worker) == 0)
    }
  }

  @Test func aDirectoryKeepsToItsBandwidth() async {
    await inYard { yard in
      yard.destinations(
        [("d", "\"type\": \"file\", \"path\": \"\(yard.out)\", \"bandwidth\": \"4M\"")])
      let paths = (0..<2).map { yard.sparse("f\($0)", 6_000_000) }
      let start = Clock.monotonic()
      for (i, path) in paths.enumerated() { yard.drop("j\(i)", to: "d:", [path]) }
      #expect(await yard.drain() == 0)
      let took = Clock.monotonic() - start
      // The first pieces go at once.
      #expect(2 * second..<5 * second ~= took, "\(took / millisecond) ms")
    }
  }
}

/// The same work only once.
@Suite(.serialized, .timeLimit(.minutes(3))) struct DedupeTests {
  private static let same = "\"dedupe\": \"visit-42\""

  @Test(arguments: ["done", "removed", "failed", "killed"])
  func aSecondJobOfAKeyWaitsForTheFirst(_ end: String) async {
    let mayEnd = Locked(false)
    let receiver = Receiver(keeping: false) { seen in
      if seen.time > 1 || seen.target != "/first" { return .status("201 Created") }
      let status = end == "failed" ? "400 No" : "201 Created"
      return .when({ mayEnd.with { $0 } && (end == "failed" || end == "done") }, status)
    }
    await inYard { yard in
      let path = yard.source("a", [1])
      var worker = yard.start()
      yard.drop("first", to: receiver.url + "/first", [path], Self.same)
      #expect(await eventually { receiver.most == 1 })
      yard.drop("second", to: receiver.url + "/second", [path], Self.same)
      yard.drop("other", to: receiver.url + "/other", [path], "\"dedupe\": \"visit-43\"")
      #expect(await yard.wait("other", in: "done"))
      #expect(
        await eventually {
          yard.sidecar("second")?.wait?.reason == "the same work as first, which is in active/"
        })
      #expect(receiver.seen("/second").isEmpty)
      mayEnd.with { $0 = true }
      switch end {
      case "removed": #expect(yard.remove("first", "active"))
      case "killed":
        await yard.kill(worker)
        worker = yard.start()
      default: break
      }
      #expect(await yard.wait("second", in: "done"), "\(yard.log)")
      switch end {
      case "done":
        #expect(yard.sidecar("second")?.duplicateOf == "first")
        #expect(receiver.seen("/second").isEmpty)
      case "killed":
        // The first one was sent again, and did the work of both.
        #expect(yard.place("first") == "done")
        #expect(yard.sidecar("second")?.duplicateOf == "first")
        #expect(receiver.seen("/second").isEmpty)
      default:
        #expect(yard.sidecar("second")?.duplicateOf == nil)
        #expect(receiver.seen("/second").count == 1)
      }
      // What comes when it is done is new work.
      await pause(0.05)
      yard.drop("third", to: receiver.url + "/third", [path], Self.same)
      #expect(await yard.wait("third", in: "done"))
      #expect(receiver.seen("/third").count == 1)
      #expect(await yard.stop(worker) == 0)
    }
  }

  @Test func manyOfOneKeyAreSentOnceByThreeWorkers() async {
    let receiver = Receiver(keeping: false) { _ in .late(0.3, "201 Created") }
    await inYard { yard in
      let path = yard.source("a", [1])
      for i in 0..<60 {
        yard.drop("j\(i)", to: "\(receiver.url)/\(i % 3)", [path], "\"dedupe\": \"k\(i % 3)\"")
      }
      let workers = (0..<3).map { _ in yard.start("--concurrency", "8") }
      #expect(await yard.wait(60, in: "done"), "\(yard.log.suffix(3000))")
      for worker in workers { #expect(await yard.stop(worker) == 0) }
      #expect(receiver.seen.count == 3)
      let duplicates = (0..<60).count { yard.sidecar("j\($0)")?.duplicateOf != nil }
      #expect(duplicates == 57)
    }
  }

  @Test func aPausedHolderIsWaitedForAndADrainLeavesTheRest() async {
    await inYard { yard in
      let receiver = Receiver(keeping: false) { _ in .late(0.5, "201 Created") }
      let path = yard.source("a", [1])
      let worker = yard.start()
      yard.drop("first", to: receiver.url + "/first", [path], Self.same)
      #expect(await eventually { receiver.most == 1 })
      #expect(yard.move("first", "active", "paused"))
      #expect(await yard.wait("first", .paused))
      yard.drop("second", to: receiver.url + "/second", [path], Self.same)
      #expect(await eventually { yard.sidecar("second")?.wait != nil })
      #expect(await yard.stop(worker) == 0)
      #expect(await yard.drain() == 0)
      #expect(yard.place("second") == "pending")
      #expect(yard.move("first", "paused", "pending"))
      #expect(await yard.drain() == 0)
      #expect(yard.place("first") == "done" && yard.place("second") == "done", "\(yard.log)")
      #expect(yard.sidecar("second")?.duplicateOf == "first")
    }
  }
}

/// One destination's backlog beside another's job.
@Suite(.serialized, .timeLimit(.minutes(2))) struct FairnessTests {
  @Test func aBacklogToOneDestinationDoesNotHoldUpTheOneToAnother() async {
    let slow = Receiver(keeping: false) { _ in .late(0.05, "201 Created") }
    let other = Receiver(keeping: false) { _ in .status("201 Created") }
    await inYard { yard in
      let path = yard.source("a", [1])
      for i in 0..<300 { yard.drop("j\(i)", to: "\(slow.url)/\(i)", [path]) }
      let worker = yard.start("--concurrency", "1")
      #expect(await eventually { slow.seen.count >= 5 })
      let before = slow.seen.count
      yard.drop("one", to: other.url + "/one", [path])
      #expect(await yard.wait("one", in: "done", seconds: 5))
      #expect(slow.seen.count - before <= 6)
      #expect(await yard.stop(worker) == 0)
    }
  }
}
