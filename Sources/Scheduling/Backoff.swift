internal import System

/// How long a job rests after it failed: doubling, plus random added delay.
///
/// A thousand jobs that fail within one second come back spread out, and none earlier than its base.
package struct Backoff: Equatable, Sendable {
  /// The delay after the first failure, in nanoseconds.
  package let first: Int64
  /// The largest base, in nanoseconds; the random part comes on top of it.
  package let most: Int64

  /// A back-off of one's own; both spans in nanoseconds, negative ones count as 0.
  package init(first: Int64, most: Int64) {
    self.first = max(0, first)
    self.most = max(self.first, most)
  }

  /// After a failure of the job's own: 1 s doubling to 5 min.
  package static let attempt = Backoff(first: 1 * second, most: 300 * second)
  /// After the death of the worker that ran the job: 1 s doubling to 5 min.
  package static let crash = Backoff(first: 1 * second, most: 300 * second)

  /// The delay without its random part after so many failures in a row, in nanoseconds.
  package func base(failures: Int) -> Int64 {
    var delay = first
    var left = failures - 1
    while left > 0, delay > 0, delay < most {
      delay = delay > most / 2 ? most : delay * 2
      left -= 1
    }
    return delay
  }

  /// The delay after so many failures in a row, in nanoseconds: the base and 0 to 50 % of it.
  package func delay(failures: Int, random: inout some RandomNumberGenerator) -> Int64 {
    let base = base(failures: failures)
    let (sum, overflow) = base.addingReportingOverflow(
      Int64.random(in: 0...base / 2, using: &random))
    return overflow ? .max : sum
  }
}
