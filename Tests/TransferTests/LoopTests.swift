internal import Glibc
internal import System
internal import TestKit
internal import Testing

@testable internal import Loop

extension Transfers {
  @Suite(.timeLimit(.minutes(1))) struct LoopTests {
    @Test func sleepersWakeInTheOrderOfTheirTimes() async throws {
      let order = try await onTheLoop { () async -> [Int] in
        await withTaskGroup(of: Int.self) { group in
          for n in [60, 20, 40] {
            group.addTask { await Self.slept(n) }
          }
          var order: [Int] = []
          for await n in group { order.append(n) }
          return order
        }
      }
      #expect(order == [20, 40, 60])
    }
    @OnLoop private static func slept(_ milliseconds: Int) async -> Int {
      let until = Clock.monotonic() + Int64(milliseconds) * millisecond
      try? await Loop.shared.sleep(until: until)
      #expect(Clock.monotonic() >= until)
      return milliseconds
    }

    @Test func aCancelledSleepEndsAtOnce() async throws {
      let began = Clock.monotonic()
      let task = Loop.shared.start { () async throws in
        try await Loop.shared.sleep(until: Clock.monotonic() + 60 * second)
      }
      try await Task.sleep(nanoseconds: 10_000_000)
      task.cancel()
      await #expect(throws: CancellationError.self) { try await task.value }
      #expect(Clock.monotonic() - began < second)
    }
    @Test func aSleepInACancelledTaskDoesNotBegin() async throws {
      let gate = Gate()
      let task = Loop.shared.start { () async throws in
        while !Task.isCancelled { await Task.yield() }
        gate.open()
        try await Loop.shared.sleep(until: Clock.monotonic() + 60 * second)
      }
      task.cancel()
      await #expect(throws: CancellationError.self) { try await task.value }
      #expect(gate.isOpen)
    }

    @Test func aCancelledTimerNeverRuns() async throws {
      let ran = try await onTheLoop { () async throws -> [Int] in
        let log = Log()
        let now = Clock.monotonic()
        let first = Loop.shared.after(now + 10 * millisecond) { log.add(1) }
        Loop.shared.after(now + 20 * millisecond) { log.add(2) }
        let third = Loop.shared.after(now + 20 * millisecond) { log.add(3) }
        Loop.shared.after(now + 15 * millisecond) { Loop.shared.cancel(third) }
        Loop.shared.cancel(first)
        try await Loop.shared.sleep(until: now + 40 * millisecond)
        return log.entries
      }
      #expect(ran == [2])
    }
    /// A timer that a timer of the same moment cancels must not run either.
    @Test func aTimerCancelsOneThatIsDueWithIt() async throws {
      let ran = try await onTheLoop { () async throws -> [Int] in
        let log = Log()
        let at = Clock.monotonic() - 1
        let victims = Log()
        Loop.shared.after(at) {
          log.add(1)
          if let timer = victims.timer { Loop.shared.cancel(timer) }
        }
        victims.timer = Loop.shared.after(at) { log.add(2) }
        try await Loop.shared.sleep(until: Clock.monotonic() + 10 * millisecond)
        return log.entries
      }
      #expect(ran == [1])
    }

    /// Against a sorted list, with cancellations in between.
    @Test func timersComeLikeASortedList() {
      let seed = UInt64.random(in: 0 ... .max)
      print("seed \(seed)")
      var random = Seeded(seed)
      for _ in 0..<300 {
        var timers = Timers()
        var model: [(at: Int64, id: TimerID)] = []
        var now: Int64 = 0
        for _ in 0..<300 {
          switch Int.random(in: 0..<4, using: &random) {
          case 0, 1:
            let at = now + Int64.random(in: -5...100, using: &random)
            model.append((at, timers.add(at, 0) {}))
          case 2:
            guard let i = model.indices.randomElement(using: &random) else { continue }
            timers.cancel(model.remove(at: i).id)
          default:
            now += Int64.random(in: 0...30, using: &random)
            let due = model.enumerated().filter { $0.element.at <= now }
              .sorted { ($0.element.at, $0.offset) < ($1.element.at, $1.offset) }
            let got = timers.due(now)
            #expect(got == due.map(\.element.id), "seed \(seed)")
            for id in got { _ = timers.take(id) }
            model.removeAll { $0.at <= now }
          }
          #expect(timers.isEmpty == model.isEmpty, "seed \(seed)")
        }
      }
    }
    @Test func pollTimesRoundUpSoThatNobodyIsWokenEarly() {
      var timers = Timers()
      #expect(timers.timeout(0) == Int32.max)
      let id = timers.add(1_500_001, 0) {}
      #expect(timers.timeout(0) == 2)
      #expect(timers.timeout(500_001) == 1)
      #expect(timers.timeout(1_500_000) == 1)
      #expect(timers.timeout(1_500_001) == 0)
      timers.cancel(id)
      _ = timers.add(.max, 0) {}
      #expect(timers.timeout(-1) == Int32.max)
    }

    @Test func aWatchedDescriptorIsReportedUntilItIsRead() async throws {
      let (reader, writer) = pipe()
      defer { close(reader) }
      let counts = try await onTheLoop { () async throws -> [Int] in
        let log = Log()
        Loop.shared.watch(reader) {
          log.add(log.entries.count)
          if log.entries.count == 3 { Self.drain(reader) }
        }
        try await Loop.shared.sleep(until: Clock.monotonic() + 100 * millisecond)
        let before = log.entries.count
        Self.fill(writer)
        try await Loop.shared.sleep(until: Clock.monotonic() + 100 * millisecond)
        let after = log.entries.count
        close(writer)
        try await Loop.shared.sleep(until: Clock.monotonic() + 100 * millisecond)
        let hungUp = log.entries.count
        Loop.shared.unwatch(reader)
        let end = log.entries.count
        try await Loop.shared.sleep(until: Clock.monotonic() + 100 * millisecond)
        return [before, after, hungUp > after ? 1 : 0, log.entries.count - end]
      }
      #expect(counts == [0, 3, 1, 0])
    }
    private static func fill(_ fd: Int32) { _ = unsafe write(fd, "x", 1) }
    private static func drain(_ fd: Int32) {
      var byte: UInt8 = 0
      _ = unsafe read(fd, &byte, 1)
    }
    private func pipe() -> (Int32, Int32) {
      withoutSpawning {
        var fds: [Int32] = [0, 0]
        _ = unsafe Glibc.pipe(&fds)
        for fd in fds { _ = fcntl(fd, F_SETFD, FD_CLOEXEC) }
        return (fds[0], fds[1])
      }
    }

    /// A task that always has something to do must not keep events and timers from being served.
    @Test func busyTasksLeaveRoomForEventsAndTimers() async throws {
      let (reader, writer) = pipe()
      let late = try await onTheLoop { () async throws -> Int64 in
        let done = Log()
        let busy = (0..<20).map { _ in
          Loop.shared.start { while done.entries.isEmpty { await Task.yield() } }
        }
        var event: Int64 = 0
        let began = Clock.monotonic()
        Loop.shared.watch(reader) {
          event = Clock.monotonic()
          Loop.shared.unwatch(reader)
        }
        Self.fill(writer)
        try await Loop.shared.sleep(until: began + 20 * millisecond)
        done.add(1)
        for task in busy { await task.value }
        return max(event - began, Clock.monotonic() - began - 20 * millisecond)
      }
      close(reader)
      close(writer)
      #expect(late > 0 && late < 500 * millisecond)
    }

    @Test func workFromManyThreadsRunsOnceAndInTheOrderOfEachThread() async throws {
      let log = Log()
      for thread in 0..<8 {
        startThread {
          for i in 0..<2_000 { Loop.shared.post { log.add(thread * 10_000 + i) } }
        }
      }
      let all = try await onTheLoop { () async throws -> [Int] in
        while log.entries.count < 16_000 {
          try await Loop.shared.sleep(until: Clock.monotonic() + millisecond)
        }
        return log.entries
      }
      for thread in 0..<8 {
        #expect(all.filter { $0 / 10_000 == thread } == (0..<2_000).map { thread * 10_000 + $0 })
      }
    }
    @Test func aForeignThreadWakesTheSleepingLoopWithinMilliseconds() async throws {
      try await onTheLoop {}
      var times: [Int64] = []
      for _ in 0..<50 {
        try await Task.sleep(nanoseconds: 3_000_000)
        let began = Clock.monotonic()
        let reached = try await onTheLoop { Clock.monotonic() }
        times.append(reached - began)
      }
      #expect(times.sorted()[25] < 5 * millisecond)
    }

    @Test func itRunsAgainAfterAStopAndLosesNothing() async throws {
      try await onTheLoop {}
      let stops = loopStops
      Loop.shared.stop()
      let sum = try await onTheLoop { () async throws -> Int in
        try await Loop.shared.sleep(until: Clock.monotonic() + millisecond)
        return 42
      }
      #expect(sum == 42)
      #expect(await eventually { loopStops > stops })
    }

    @Test func tasksStayOnTheLoopsThreadAcrossEveryAwait() async throws {
      let places = try await onTheLoop { () async throws -> [Bool] in
        var places = [Loop.shared.isHere]
        let elsewhere = await Blocking.run { Loop.shared.isHere }
        places += [!elsewhere, Loop.shared.isHere]
        try await Loop.shared.sleep(until: Clock.monotonic() + millisecond)
        places.append(Loop.shared.isHere)
        await Task.yield()
        places.append(Loop.shared.isHere)
        return places
      }
      #expect(places.allSatisfy { $0 })
      #expect(!Loop.shared.isHere)
    }

    @Test func stuckThreadsDelayNobody() async throws {
      let gate = Gate()
      defer { gate.open() }
      for _ in 0..<100 { Blocking.submit { gate.wait() } }
      let began = Clock.monotonic()
      let result = await Blocking.run { 7 }
      #expect(result == 7)
      #expect(Clock.monotonic() - began < second)
      #expect(!gate.isOpen)
    }
    @Test func aBlockingBodysErrorComesBack() async {
      await #expect(throws: Errno.noSpace) {
        try await Blocking.run { () throws(Errno) -> Int in throw Errno.noSpace }
      }
    }
  }
}

/// Numbers in the order of their coming; the loop's alone.
@OnLoop private final class Log {
  private(set) var entries: [Int] = []
  var timer: TimerID?
  nonisolated init() {}
  func add(_ entry: Int) { entries.append(entry) }
}
