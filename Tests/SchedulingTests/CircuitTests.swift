internal import Scheduling
internal import System
internal import TestKit
internal import Testing

@Suite struct CircuitTests {
  var random = Lowest()

  private func until(_ circuit: Circuit) -> Int64 { (circuit.opening?.until ?? 0) - start }

  @Test func `a closed circuit admits everybody and waits for nothing`() {
    let circuit = Circuit()
    #expect(circuit.admits(start) == .free)
    #expect(circuit.wake(after: start) == nil)
    #expect(circuit.opening == nil)
  }

  @Test mutating func `one failure opens for a second and then one probe goes`() {
    var circuit = Circuit()
    circuit.failed(.unreachable, startedAt: start - 1, now: start, random: &random)
    #expect(circuit.admits(start) == .closedUntil(start + second))
    #expect(circuit.wake(after: start) == start + second)
    #expect(circuit.admits(start + second) == .probe)
    circuit.probeStarted(start + second)
    #expect(circuit.admits(start + second) == .closedUntil(start + 31 * second))
    #expect(circuit.opening?.probes == 1)
    circuit.succeeded(startedAt: start + second, now: start + 2 * second)
    #expect(circuit.admits(start + 2 * second) == .free)
  }

  @Test(arguments: [
    (Trouble.unreachable, [1, 2, 4, 8, 16, 20, 20] as [Int64]),
    (.throttled, [1, 2, 4, 8, 16, 20, 20]),
    (.signIn, [30, 60, 120, 240, 480, 900, 900]),
    (.full, [10, 20, 20, 20, 20, 20, 20]),
  ]) mutating func `probes go out at growing intervals`(trouble: Trouble, seconds: [Int64]) {
    var circuit = Circuit()
    var now = start
    for expected in seconds {
      circuit.failed(trouble, startedAt: now, now: now + 1, random: &random)
      now += 1
      #expect(circuit.wake(after: now) == now + expected * second)
      now += expected * second
      #expect(circuit.admits(now) == .probe)
      circuit.probeStarted(now)
    }
    circuit.succeeded(startedAt: now, now: now + 1)
    circuit.failed(trouble, startedAt: now + 2, now: now + 3, random: &random)
    #expect(circuit.wake(after: now + 3) == now + 3 + seconds[0] * second, "starts from zero")
  }

  @Test mutating func `sixteen in flight that fail together count as one`() {
    var circuit = Circuit()
    for i in 0..<16 as Range<Int64> {
      circuit.failed(.unreachable, startedAt: start - i, now: start + i, random: &random)
    }
    #expect(circuit.opening?.failures == 1)
    #expect(until(circuit) == second)
  }

  @Test mutating func `a straggler's Retry-After still moves the next probe later`() {
    var circuit = Circuit()
    circuit.failed(.throttled, startedAt: start - 5, now: start, random: &random)
    circuit.failed(
      .throttled, retryAfter: start + 120 * second, startedAt: start - 4, now: start + 1,
      random: &random)
    #expect(until(circuit) == 120 * second)
    circuit.failed(
      .throttled, retryAfter: start + 60 * second, startedAt: start - 3, now: start + 2,
      random: &random)
    #expect(until(circuit) == 120 * second, "an earlier one doesn't move it back")
    #expect(circuit.opening?.failures == 1)
  }

  @Test mutating func `Retry-After is honoured beyond thirty seconds, up to a day`() {
    var circuit = Circuit()
    circuit.failed(
      .throttled, retryAfter: start + 3_600 * second, startedAt: start - 1, now: start,
      random: &random)
    #expect(circuit.admits(start + 3_599 * second) == .closedUntil(start + 3_600 * second))
    var far = Circuit()
    far.failed(.throttled, retryAfter: .max, startedAt: start - 1, now: start, random: &random)
    #expect(until(far) == Circuit.longestRetryAfter)
    var past = Circuit()
    past.failed(.throttled, retryAfter: .min, startedAt: start - 1, now: start, random: &random)
    #expect(until(past) == second)
  }

  @Test mutating func `a probe that is out for thirty seconds lets one more out`() {
    var circuit = Circuit()
    circuit.failed(.full, startedAt: start - 1, now: start, random: &random)
    let first = start + 30 * second
    circuit.probeStarted(first)
    #expect(circuit.admits(first + 29 * second) == .closedUntil(first + 30 * second))
    #expect(circuit.admits(first + 30 * second) == .probe)
    circuit.probeStarted(first + 30 * second)
    #expect(circuit.admits(first + 31 * second) == .closedUntil(first + 60 * second))
  }

  @Test mutating func `a probe that was cancelled is no verdict and makes room for another`() {
    var circuit = Circuit()
    circuit.failed(.unreachable, startedAt: start - 1, now: start, random: &random)
    circuit.probeStarted(start + second)
    circuit.probeGone(startedAt: start - 9, now: start + second)
    #expect(circuit.admits(start + second) != .probe, "no probe: it began before the outage")
    circuit.probeGone(startedAt: start + second, now: start + second)
    #expect(circuit.admits(start + second) == .probe)
    #expect(circuit.opening?.failures == 1)
    circuit.probeGone(startedAt: start + second, now: start + second)
    #expect(circuit.opening?.probes == 0)
  }

  @Test mutating func `flowing bytes close an unreachable circuit and no other`() {
    for trouble in Trouble.allCases {
      var circuit = Circuit()
      circuit.failed(trouble, startedAt: start - 1, now: start, random: &random)
      circuit.sawProgress(start + 1)
      #expect(circuit.isOpen == (trouble != .unreachable), "\(trouble)")
    }
  }

  @Test mutating func `flowing bytes don't undo a Retry-After`() {
    var circuit = Circuit()
    let retryAfter = start + 60 * second
    circuit.failed(
      .unreachable, retryAfter: retryAfter, startedAt: start - 1, now: start, random: &random)
    circuit.sawProgress(start + 1)
    circuit.succeeded(startedAt: start - 2, now: start + 2)
    #expect(circuit.admits(start + 3) == .closedUntil(retryAfter))
    circuit.sawProgress(retryAfter)
    #expect(!circuit.isOpen)
  }

  @Test mutating func `a proxy that takes bytes and then refuses is probed ever more slowly`() {
    var circuit = Circuit()
    var now = start
    for expected in [1, 2, 4, 8, 16, 20] as [Int64] {
      circuit.failed(.unreachable, startedAt: now, now: now + 1, random: &random)
      now += 1
      #expect(circuit.wake(after: now) == now + expected * second)
      now += expected * second
      circuit.probeStarted(now)
      circuit.sawProgress(now)
      #expect(circuit.admits(now) == .free)
    }
    circuit.succeeded(startedAt: now, now: now + 1)
    circuit.failed(.unreachable, startedAt: now + 2, now: now + 3, random: &random)
    #expect(circuit.opening?.failures == 1)
  }

  @Test mutating func `what began before a refused sign-in says nothing of it`() {
    var circuit = Circuit()
    circuit.failed(.signIn, startedAt: start - 1, now: start, random: &random)
    circuit.succeeded(startedAt: start - 2, now: start + 1)
    #expect(circuit.opening?.trouble == .signIn)
    circuit.probeStarted(start + 30 * second)
    circuit.succeeded(startedAt: start + 30 * second, now: start + 31 * second)
    #expect(!circuit.isOpen)
  }

  @Test mutating func `a straggler of an outage that is over doesn't open it again`() {
    var circuit = Circuit()
    circuit.failed(.unreachable, startedAt: start - 1, now: start, random: &random)
    circuit.probeStarted(start + second)
    circuit.succeeded(startedAt: start + second, now: start + 2 * second)
    circuit.failed(.unreachable, startedAt: start - 1, now: start + 5 * second, random: &random)
    #expect(!circuit.isOpen)
    let retryAfter = start + 60 * second
    circuit.failed(
      .throttled, retryAfter: retryAfter, startedAt: start - 1, now: start + 6 * second,
      random: &random)
    #expect(circuit.admits(start + 7 * second) == .closedUntil(retryAfter))
  }

  @Test mutating func `another kind of trouble begins its own intervals`() {
    var circuit = Circuit()
    var now = start
    for _ in 0..<8 {
      circuit.failed(.unreachable, startedAt: now, now: now + 1, random: &random)
      now += 60 * second
    }
    circuit.failed(.signIn, startedAt: now, now: now + 1, random: &random)
    #expect(circuit.wake(after: now + 1) == now + 1 + 30 * second)
    #expect(circuit.opening?.since == start + 1, "the outage is as old as it is")
  }

  @Test mutating func `a clock that is set back doesn't keep a circuit open`() {
    var circuit = Circuit()
    circuit.failed(.signIn, startedAt: start - 1, now: start, random: &random)
    #expect(circuit.admits(start - 3_600 * second) == .probe)
    #expect(circuit.admits(start - second) == .closedUntil(start + 30 * second), "a small step")
    circuit.failed(
      .signIn, startedAt: start - 3_600 * second, now: start - 3_599 * second, random: &random)
    #expect(circuit.admits(start - 3_500 * second) == .probe)
  }

  @Test mutating func `a clock that is set back lets one probe out, not everybody`() {
    var circuit = Circuit()
    circuit.failed(.signIn, startedAt: start - 1, now: start, random: &random)
    let now = start - 3_600 * second
    circuit.probeStarted(now)
    #expect(circuit.admits(now + 1) == .closedUntil(now + 30 * second))
    circuit.failed(.signIn, startedAt: now, now: now + 1, random: &random)
    #expect(circuit.opening?.failures == 2)
    #expect(circuit.admits(now + 2) == .closedUntil(now + 1 + 60 * second))
  }

  @Test func `random histories keep the rules`() {
    let seed = seed("circuit")
    for history in 0..<2_000 as Range<UInt64> {
      var random = Seeded(seed &+ history)
      if let broken = Self.history(&random) {
        Issue.record("\(broken): UPSPOOL_SEED=\(seed) history \(history)")
        return
      }
    }
  }

  /// Plays workers against a destination that fails at random; returns the rule that was broken.
  private static func history(_ random: inout Seeded) -> String? {
    let kinds = random.next() % 2 == 0 ? [Trouble.unreachable] : Trouble.allCases
    var circuit = Circuit()
    var now = start
    var flying: [(startedAt: Int64, isProbe: Bool)] = []
    var promised = Int64.min
    var lastVerdict = Int64.min
    for _ in 0..<60 {
      now += Int64.random(in: 1...(8 * second), using: &random)
      switch circuit.admits(now) {
      case .free:
        while flying.count < 6 { flying.append((now, false)) }
      case .probe:
        let out = flying.filter { $0.isProbe && $0.startedAt > lastVerdict }
        if promised > now { return "a probe before Retry-After" }
        if let youngest = out.map(\.startedAt).max(), now - youngest < 30 * second {
          return "two probes within 30 s"
        }
        circuit.probeStarted(now)
        flying.append((now, true))
      case .closedUntil(let time):
        if time <= now { return "closed until a time that has passed" }
        if circuit.wake(after: now) != time { return "wakes at another time" }
        if kinds == [.unreachable], time > max(now + 30 * second, promised) {
          return "probes more than 30 s apart"
        }
        let patient = circuit.admits(time)
        if patient != .probe { return "no probe when the time has come" }
      }
      guard !flying.isEmpty, random.next() % 3 != 0 else { continue }
      let (startedAt, isProbe) = flying.remove(
        at: Int.random(in: 0..<flying.count, using: &random))
      let before = circuit.opening
      switch random.next() % 8 {
      case 0:
        circuit.succeeded(startedAt: startedAt, now: now)
        if startedAt > lastVerdict {
          if circuit.isOpen { return "a success left it open" }
          promised = .min
        }
      case 1 where isProbe:
        circuit.probeGone(startedAt: startedAt, now: now)
        if circuit.opening?.failures != before?.failures { return "a cancelled probe counted" }
      case 2:
        circuit.sawProgress(now)
        if promised > now, !circuit.isOpen { return "bytes undid a Retry-After" }
        flying.append((startedAt, isProbe))
      default:
        let trouble = kinds.randomElement(using: &random) ?? .unreachable
        let later = now + Int64.random(in: -second...(90 * second), using: &random)
        let retryAfter = random.next() % 4 == 0 ? later : nil
        circuit.failed(
          trouble, retryAfter: retryAfter, startedAt: startedAt, now: now, random: &random)
        if let retryAfter, retryAfter > now { promised = max(promised, retryAfter) }
        if startedAt <= lastVerdict {
          if let before, circuit.opening?.failures != before.failures {
            return "a straggler counted"
          }
          if before == nil, retryAfter ?? now > now { lastVerdict = now }
        } else {
          if !circuit.isOpen { return "a verdict didn't open it" }
          lastVerdict = now
        }
        if let until = circuit.opening?.until, until < promised { return "before Retry-After" }
      }
    }
    return nil
  }
}
