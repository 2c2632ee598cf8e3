internal import System

/// How waiting makes up for a low priority.
///
/// Priority 0 goes first, 9 last. An entry rises by one step for each ten minutes that it is due, to
/// 0 at most: a 9 overtakes a steady flow of 0 after 90 min. Age counts from when the queue first
/// saw the entry due, not from its mtime: `touch -d @0` means "next", not "has waited since 1970".
///
/// Risen entries take every fourth pick while better ones keep coming, no more: else an urgent job
/// would stand behind the whole of a large backlog that has waited for hours.
package enum Aging {
  /// An entry rises by one step in so many nanoseconds.
  package static let step: Int64 = 600 * second
  /// So many picks in a row may pass over a risen entry.
  package static let patience = 3
  /// The longest that an entry is passed over by entries of other priorities before it has its
  /// share of the picks, in nanoseconds.
  package static let bound: Int64 = 9 * step

  /// The priority that an entry has now, which became due at `since`.
  package static func level(priority: Int, since: Int64, now: Int64) -> Int {
    guard now > since else { return priority }
    let (age, overflow) = now.subtractingReportingOverflow(since)
    let steps = overflow ? Int64(priority) : age / step
    return max(0, priority - Int(min(steps, Int64(priority))))
  }
}
