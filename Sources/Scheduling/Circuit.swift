internal import System

/// The circuit breaker of one destination: while it has trouble its jobs wait, and one probes.
///
/// closed → (a failure) → open → (its time has come) → one probe out → closed, or open for longer.
/// The caller keeps a transfer's start and hands it back with the result, which tells a probe's
/// verdict from that of a transfer that was under way when the circuit opened: sixteen that fail
/// together count as one. All times are nanoseconds of the wall clock.
package struct Circuit: Equatable, Sendable {
  /// What the circuit says of a transfer that would start now.
  package enum Admission: Equatable, Sendable {
    /// Start as many as you like.
    case free
    /// Start one, and say so with `probeStarted`.
    case probe
    /// None before this time.
    case closedUntil(Int64)
  }

  /// What a person is told about a circuit that isn't closed.
  package struct Opening: Equatable, Sendable {
    package let trouble: Trouble
    /// When this outage began.
    package let since: Int64
    /// No probe before this time.
    package let until: Int64
    /// Verdicts in a row against the destination.
    package let failures: Int
    /// Probes that are out.
    package let probes: Int
  }

  /// The longest that a server's Retry-After can hold a destination, 24 h.
  package static let longestRetryAfter: Int64 = 86_400 * second
  /// A probe that is out for so long, 30 s, lets one more out: it may be a big file.
  package static let probePatience: Int64 = 30 * second
  /// A wall clock that stands so far before the opening was set back: probe instead of waiting.
  private static let clockSlack: Int64 = 5 * second

  private var trouble: Trouble?
  private var since: Int64 = 0
  private var until: Int64 = 0
  /// The last verdict against the destination; it stays when the circuit closes, so that a straggler
  /// of an outage that is over doesn't open it again.
  private var openedAt = Int64.min
  /// What the server asked for by Retry-After; nothing but a later probe closes the circuit before.
  private var promised = Int64.min
  /// Kept when bytes close the circuit, cleared by a success: a proxy that takes bytes and then says
  /// 502 would otherwise be hit by everybody once a second.
  private var failures = 0
  private var lastTrouble = Trouble.unreachable
  private var probes = 0
  private var lastProbe: Int64 = 0

  /// A closed circuit.
  package init() {}

  /// Whether the destination is in trouble.
  package var isOpen: Bool { trouble != nil }

  /// Why and until when it is open; nil when it is closed.
  package var opening: Opening? {
    trouble.map {
      Opening(trouble: $0, since: since, until: until, failures: failures, probes: probes)
    }
  }

  /// Whether a transfer may start now.
  package func admits(_ now: Int64) -> Admission {
    guard isOpen else { return .free }
    if wasSetBack(now) { return .probe }
    let time = probes > 0 ? max(until, lastProbe.plus(Self.probePatience)) : until
    return now < time ? .closedUntil(time) : .probe
  }

  /// The next time that `admits` may say something better without being told anything; nil when
  /// there is nothing to wait for (closed, or a probe may start already).
  package func wake(after now: Int64) -> Int64? {
    if case .closedUntil(let time) = admits(now) { time } else { nil }
  }

  /// The transfer that `admits` allowed as a probe is on its way.
  package mutating func probeStarted(_ now: Int64) {
    guard isOpen else { return }
    if wasSetBack(now) {
      openedAt = now.minus(1)
      (until, promised, probes) = (now, .min, 0)
    }
    probes += 1
    lastProbe = now
  }

  /// A probe ended without a verdict: its job was paused or cancelled. Another may start at once.
  package mutating func probeGone(startedAt: Int64, now: Int64) {
    guard isOpen, startedAt > openedAt else { return }
    probes = max(0, probes - 1)
  }

  /// The destination is in trouble; `retryAfter` is the time its Retry-After names, if any.
  ///
  /// Opens a closed circuit and escalates an open one, unless the transfer began before the last
  /// verdict; a later Retry-After counts in any case (RFC 9110 section 10.2.3: not earlier).
  package mutating func failed(
    _ trouble: Trouble, retryAfter: Int64? = nil, startedAt: Int64, now: Int64,
    random: inout some RandomNumberGenerator
  ) {
    let promise = retryAfter.map { min($0, now.plus(Self.longestRetryAfter)) }
    let isStraggler = startedAt <= openedAt && openedAt <= now
    if isStraggler {
      guard let promise, promise > now else { return }
      if !isOpen { open(trouble, now) }
    } else {
      let sameLadder = lastTrouble.backoff == trouble.backoff
      failures = sameLadder ? min(failures, 1_000) + 1 : 1
      if isOpen { self.trouble = trouble } else { open(trouble, now) }
      lastTrouble = trouble
      openedAt = now
      probes = 0
      until = now.plus(trouble.backoff.delay(failures: failures, random: &random))
      if promised > now.plus(Self.longestRetryAfter) { promised = .min }
      until = max(until, promised)
    }
    if let promise {
      promised = max(promised, promise)
      until = max(until, promise)
    }
  }

  /// A transfer went through: closes the circuit and forgets the failures.
  ///
  /// One that began before the trouble says nothing of a refused sign-in, a full disk or a
  /// throttle; only an `unreachable` destination is proven reachable by it.
  package mutating func succeeded(startedAt: Int64, now: Int64) {
    guard let trouble else {
      if startedAt > openedAt { failures = 0 }
      return
    }
    guard startedAt > openedAt || (trouble == .unreachable && promised <= now) else { return }
    failures = 0
    close()
  }

  /// Bytes flow on a connection: the destination is reachable, which closes an `unreachable` circuit
  /// unless its Retry-After still stands. The failures are kept until a transfer goes through.
  package mutating func sawProgress(_ now: Int64) {
    if trouble == .unreachable, promised <= now { close() }
  }

  private mutating func open(_ trouble: Trouble, _ now: Int64) {
    self.trouble = trouble
    since = now
    until = now
    probes = 0
    failures = max(1, failures)
    lastTrouble = trouble
    openedAt = max(openedAt, now)
  }

  private mutating func close() {
    trouble = nil
    probes = 0
    promised = .min
  }

  private func wasSetBack(_ now: Int64) -> Bool {
    now < (probes > 0 ? max(openedAt, lastProbe) : openedAt).minus(Self.clockSlack)
  }
}

extension Int64 {
  /// The sum, held at the largest value.
  func plus(_ other: Int64) -> Int64 {
    let (sum, overflow) = addingReportingOverflow(other)
    return overflow ? (other < 0 ? .min : .max) : sum
  }
  /// The difference, held at the smallest value.
  func minus(_ other: Int64) -> Int64 {
    let (difference, overflow) = subtractingReportingOverflow(other)
    return overflow ? (other > 0 ? .min : .max) : difference
  }
}
