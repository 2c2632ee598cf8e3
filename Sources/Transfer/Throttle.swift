package import Loop
internal import System

/// A limit of bytes per second that several transfers share: each gets an equal part, and the
/// parts change as transfers come and go.
@OnLoop package final class Throttle {
  /// Body bytes per second of all together; 0 for none.
  package private(set) var bytesPerSecond: Int64
  private var members: [Int: @OnLoop (Int64) -> Void] = [:]
  /// When what small bodies have taken will have been paid off (monotonic nanoseconds).
  private var paidOff: Int64 = 0

  /// A limit.
  package nonisolated init(_ bytesPerSecond: Int64) { self.bytesPerSecond = max(0, bytesPerSecond) }

  /// Changes the limit, also of what is running.
  package func set(_ bytesPerSecond: Int64) {
    self.bytesPerSecond = max(0, bytesPerSecond)
    share()
  }

  /// libcurl holds a stream to a rate, given now and whenever it changes (0: none).
  func join(_ id: Int, _ apply: @escaping @OnLoop (Int64) -> Void) {
    members[id] = apply
    share()
  }
  func leave(_ id: Int) {
    if members.removeValue(forKey: id) != nil { share() }
  }
  /// A small body leaves in one send, so it waits beforehand: when it may start (monotonic
  /// nanoseconds). All small ones together count as one stream.
  package func turn(_ bytes: Int64) -> Int64 {
    let now = Clock.monotonic()
    if bytesPerSecond == 0 { return now }
    let start = max(now, paidOff)
    let rate = max(1, bytesPerSecond / Int64(members.count + 1))
    paidOff = start + Int64((Double(bytes) / Double(rate) * Double(second)).rounded())
    return start
  }
  private func share() {
    if members.isEmpty { return }
    let sharers = members.count + (paidOff > Clock.monotonic() ? 1 : 0)
    let part = bytesPerSecond == 0 ? 0 : max(1, bytesPerSecond / Int64(sharers))
    for apply in members.values { apply(part) }
  }
}
