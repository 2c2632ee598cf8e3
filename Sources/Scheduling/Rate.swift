internal import Glibc
internal import System

/// Bytes per second, as a weighted average in which a sample loses half its say in about 3.5 s.
///
/// Give it a running total at moments of a clock that doesn't jump. A total that went back (a try
/// from the start) moves the base line only.
package struct Rate: Equatable, Sendable {
  /// The average's time constant in seconds.
  package static let span = 5.0

  private var last: (time: Int64, bytes: Int64)?
  private var sum = 0.0
  private var weight = 0.0

  /// No samples yet.
  package init() {}

  /// Equal when they would answer alike from now on.
  package static func == (a: Rate, b: Rate) -> Bool {
    a.last?.time == b.last?.time && a.last?.bytes == b.last?.bytes && a.sum == b.sum
      && a.weight == b.weight
  }

  /// So many bytes in all had passed at this time (monotonic nanoseconds).
  package mutating func sample(now: Int64, bytes: Int64) {
    guard let last else {
      self.last = (now, bytes)
      return
    }
    guard now > last.time else {
      if bytes < last.bytes { self.last = (last.time, bytes) }
      return
    }
    let seconds = Double(now.minus(last.time)) / Double(second)
    let moved = max(0, Double(bytes.minus(last.bytes)))
    // The samples are averaged over time, and the weight that the span before the first one lacks is
    // divided out: the first second of a transfer doesn't look slow.
    let kept = exp(-seconds / Self.span)
    sum = sum * kept + moved / seconds * (1 - kept)
    weight = weight * kept + (1 - kept)
    self.last = (now, bytes)
  }

  /// Bytes per second; nil before two samples. Falls while no samples come.
  package func bytesPerSecond(now: Int64) -> Int64? {
    guard let last, weight > 0 else { return nil }
    let idle = max(0, Double(now.minus(last.time)) / Double(second) - 1)
    let rate = sum / weight * exp(-idle / Self.span)
    return rate < 9e18 ? Int64(rate) : .max
  }

  /// Whole seconds until so many bytes more have passed, rounded up; nil when that can't be said
  /// (no rate yet, no movement, or more than a year).
  package func secondsLeft(_ bytes: Int64, now: Int64) -> Int64? {
    guard bytes > 0 else { return 0 }
    guard let rate = bytesPerSecond(now: now), rate > 0 else { return nil }
    let seconds = (Double(bytes) / Double(rate)).rounded(.up)
    return seconds <= 365 * 86_400 ? Int64(seconds) : nil
  }
}
