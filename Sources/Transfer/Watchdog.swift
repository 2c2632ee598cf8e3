internal import Loop
internal import System

/// Looks at all running transfers now and then; there is no timer while none runs.
///
/// libcurl's low-speed limit covers the wait for the answer too, and three different limits are
/// wanted here.
@OnLoop enum Watchdog {
  private static var timer: TimerID?
  private static var next: Int64 = 0

  /// Sees to it that the next look comes within `interval` nanoseconds.
  static func cover(_ interval: Int64) {
    let at = Clock.monotonic() + interval
    if let timer {
      if at >= next { return }
      Loop.shared.cancel(timer)
    }
    next = at
    timer = Loop.shared.after(at) { look() }
  }
  private static func look() {
    timer = nil
    let now = Clock.monotonic()
    var shortest: Int64?
    for transfer in Array(Transfer.live.values) {
      transfer.check(now)
      shortest = min(shortest ?? .max, transfer.checkInterval)
    }
    if let shortest { cover(shortest) }
  }
}

/// What is known of one transfer's movement, in monotonic nanoseconds.
struct Watch {
  enum Verdict { case fine, stalled, noAnswer, sourceHangs }
  private var limits = Timeouts()
  private(set) var wantsProgress = false
  private(set) var interval = second
  private var movedAt: Int64 = 0
  private var seen: (uploaded: Int64, acknowledged: Int64, isOut: Bool) = (0, 0, false)

  mutating func begin(_ limits: Timeouts, wantsProgress: Bool) {
    self.limits = limits
    self.wantsProgress = wantsProgress
    let shortest = min(limits.progress, limits.answer, limits.source)
    interval = max(10 * millisecond, min(wantsProgress ? second / 10 : second, shortest / 4))
  }

  mutating func judge(
    _ now: Int64, _ uploaded: Int64, _ acknowledged: Int64, _ isOut: Bool, _ waitingSince: Int64?
  ) -> Verdict {
    if movedAt == 0 || seen != (uploaded, acknowledged, isOut) {
      seen = (uploaded, acknowledged, isOut)
      movedAt = now
      return .fine
    }
    if isOut { return now - movedAt >= limits.answer ? .noAnswer : .fine }
    if let waitingSince {
      // Not the server's fault: its clock begins when there is something to send again.
      movedAt = now
      return now - waitingSince >= limits.source ? .sourceHangs : .fine
    }
    return now - movedAt >= limits.progress ? .stalled : .fine
  }
}
