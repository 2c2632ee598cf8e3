internal import System

/// Bounded memory: a spool may hold more files than the queue keeps in mind.
extension Queue {
  /// Keeps the best `limit` entries and tells how many were dropped; their files stay where they are,
  /// and a rescan finds them again when `needsRefill` says so.
  ///
  /// Those in the caller's hands stay in any case. Of the rest seven eighths are kept by due time,
  /// priority, mtime and name, so that an urgent new job isn't lost behind a backlog, and one eighth
  /// by due time, mtime and name, so that a low priority isn't dropped for ever. O(entries): call it
  /// when the count has passed the limit by a quarter.
  @discardableResult package mutating func trim(to limit: Int) -> Int {
    self.limit = max(0, limit)
    guard count > self.limit else { return 0 }
    let worst = Self.worst(entries, count: count, limit: self.limit)
    for i in worst { forget(i) }
    dropped += worst.count
    return worst.count
  }

  /// Whether entries were dropped and the queue has run down to half of its limit: rescan.
  package var needsRefill: Bool { dropped > 0 && count <= limit / 2 }

  /// A rescan of the whole directory begins; what it finds and `trim` drops counts anew.
  package mutating func refillBegins() { dropped = 0 }

  /// Those to drop. Static, so that a comparison doesn't keep the queue's storage shared.
  private static func worst(_ entries: [Entry], count: Int, limit: Int) -> [Int32] {
    var rest: [Int32] = []
    for i in entries.indices {
      switch entries[i].state {
      case .free, .out, .expiring: continue
      case .line, .scheduled, .waiting, .parked: rest.append(Int32(i))
      }
    }
    let keep = max(0, limit - (count - rest.count))
    guard keep < rest.count else { return [] }
    let urgent = keep - keep / 8
    bringForward(urgent, &rest, from: 0) { isNearer($0, $1, entries, byPriority: true) }
    bringForward(keep, &rest, from: urgent) { isNearer($0, $1, entries, byPriority: false) }
    return Array(rest[keep...])
  }

  private static func isNearer(
    _ a: Int32, _ b: Int32, _ entries: [Entry], byPriority: Bool
  ) -> Bool {
    let (dueA, dueB) = (due(a, entries), due(b, entries))
    if dueA != dueB { return dueA < dueB }
    if byPriority {
      let (levelA, levelB) = (entries[Int(a)].level, entries[Int(b)].level)
      if levelA != levelB { return levelA < levelB }
    }
    return ByMtime.precedes(a, b, entries)
  }

  private static func due(_ i: Int32, _ entries: [Entry]) -> Int64 {
    entries[Int(i)].isTimed ? entries[Int(i)].since : .min
  }

  /// Quickselect: the best of `items[start...]` come to stand before index `end`. After more rounds
  /// than chance explains, a sort: names and mtimes are chosen by strangers.
  private static func bringForward(
    _ end: Int, _ items: inout [Int32], from start: Int, _ precedes: (Int32, Int32) -> Bool
  ) {
    var (low, high) = (start, items.count)
    var rounds = 0
    while low < end, end < high {
      rounds += 1
      if rounds > 64 {
        items[low..<high].sort(by: precedes)
        return
      }
      let pivot = items[low + (high - low) / 2]
      let middle = items[low..<high].partition { !precedes($0, pivot) }
      if middle == low {
        // The pivot is the least: it alone takes its place, so that each round gets shorter.
        if let place = items[low..<high].firstIndex(of: pivot) { items.swapAt(low, place) }
        low += 1
      } else if middle <= end {
        low = middle
      } else {
        high = middle
      }
    }
  }
}
