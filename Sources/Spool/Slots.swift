internal import Glibc
package import System

/// How many transfers run at once over all workers of a spool: workers/slot-KEY-N, one file for each,
/// flocked for as long as a transfer has it.
///
/// The kernel drops the lock when its holder dies, so that a dead worker's slot is free at once. The
/// files are never removed: a lock on a removed file would prove nothing. One thread's own.
package final class Slots {
  private let spool: Spool
  private let prefix: String
  /// Those that this object holds, by number - 1.
  private var mine: [Int: Lock] = [:]
  /// So many may be taken in all.
  package var limit: Int

  /// - `key`: what they are for; two objects of the same key share the slots.
  package init(_ spool: Spool, key: String, limit: Int) {
    self.spool = spool
    self.limit = limit
    prefix = "slot-" + Digest.of(Array(key.utf8), .sha256).prefix(8).hex + "-"
  }

  /// How many this object holds.
  package var held: Int { mine.count }

  /// An open slot file: closing it gives the lock back.
  private final class Lock {
    let file: Descriptor
    init(_ file: consuming Descriptor) { self.file = file }
  }

  /// Takes one more; false when all are taken by this worker and the others.
  package func take() throws(Errno) -> Bool {
    var taken: Int?
    for i in 0..<limit where mine[i] == nil {
      if let lock = try lock(i) {
        mine[i] = lock
        taken = i
        break
      }
    }
    guard let taken else { return false }
    // After the limit was lowered some may still run above it. Locked first and counted then: two
    // workers in the same moment may both step back, but never both go on.
    if try countAbove() > 0, try count() > limit {
      mine[taken] = nil
      return false
    }
    return true
  }

  /// Gives one back, one above the limit first.
  package func give() {
    if let last = mine.keys.max() { mine[last] = nil }
  }

  private func name(_ i: Int) -> Name { Name(prefix + String(i + 1)) }

  private func lock(_ i: Int) throws(Errno) -> Lock? {
    let file = try spool.calls.open(
      name(i), in: spool.workers.raw, O_RDONLY | O_NOFOLLOW | O_CREAT)
    return try spool.calls.tryLock(file.raw) ? Lock(file) : nil
  }

  /// How many there are files of above the limit.
  private func countAbove() throws(Errno) -> Int {
    var n = limit
    while try isThere(n) { n += 1 }
    return n - limit
  }

  /// How many are taken, by whomever.
  private func count() throws(Errno) -> Int {
    var count = 0
    for i in 0..<(limit + (try countAbove())) {
      if mine[i] != nil {
        count += 1
      } else if try isThere(i), try lock(i) == nil {
        count += 1
      }
    }
    return count
  }

  private func isThere(_ i: Int) throws(Errno) -> Bool {
    try spool.calls.factsIfThere(of: name(i), in: spool.workers.raw) != nil
  }
}
