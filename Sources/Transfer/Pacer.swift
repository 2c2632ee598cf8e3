package import Loop
internal import System

/// A limit of requests per second that several transfers share: each waits for its turn.
@OnLoop package final class Pacer {
  /// Nanoseconds between two requests; 0: no limit.
  private var interval: Int64 = 0
  /// When the next request may start (monotonic nanoseconds).
  private var next: Int64 = 0
  /// Turns that were taken beforehand and not used yet.
  private var reserved = 0

  /// `perSecond`: requests a second; 0 for no limit.
  package init(_ perSecond: Double) { set(perSecond) }

  /// Changes the limit; who has his turn keeps it.
  package func set(_ perSecond: Double) {
    interval = perSecond > 0 ? Int64((Double(second) / perSecond).rounded()) : 0
    next = min(next, Clock.monotonic() + interval)
  }

  /// When a request that asks now may start (monotonic nanoseconds), not earlier than now; nothing is
  /// taken.
  package var nextTurn: Int64 { max(Clock.monotonic(), next) }

  /// Takes a turn for a request that is to start soon.
  package func reserve() {
    next = nextTurn + interval
    reserved += 1
  }

  /// Takes a turn: when it is (monotonic nanoseconds); at once when one was reserved.
  func turn() -> Int64 {
    if reserved > 0 {
      reserved -= 1
      return Clock.monotonic()
    }
    let start = nextTurn
    next = start + interval
    return start
  }
}
