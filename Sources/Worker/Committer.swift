internal import Loop
internal import Spool
internal import System

/// Commits ended jobs in groups on a thread of its own, so that the loop never waits for a disk.
final class Committer: Sendable {
  private struct Box {
    var waiting: [(Ending, @Sendable @OnLoop (Ended) -> Void)] = []
    var closed = false
  }
  private let box = Locked(Box())
  private let spool: Spool

  /// Jobs in one group at most.
  private static let groupSize = 250
  /// How long a group waits for more while there is a stream of them (nanoseconds).
  private static let gather: Int64 = 10 * millisecond

  init(_ spool: Spool) {
    self.spool = spool
    if !Clock.isSimulated { startThread { [self] in work() } }
  }

  /// Calls `done` on the loop when the ending can't be lost any more, or could not be written.
  func commit(_ ending: Ending, _ done: @escaping @Sendable @OnLoop (Ended) -> Void) {
    if Clock.isSimulated {
      box.with { $0.waiting.append((ending, done)) }
      OnLoop.assume {
        let time = Blocking.simulatedTime(Self.gather)
        _ = Loop.shared.after(Clock.monotonic() + time) { self.commitGroup(odd: time & 1 == 1) }
      }
      return
    }
    box.with { $0.waiting.append((ending, done)) }
    box.signal()
  }

  /// In a simulation: all that waits.
  @OnLoop private func commitGroup(odd: Bool) {
    let group = box.with { box in
      let group = box.waiting
      box.waiting = []
      return group
    }
    let results = spool.commit(group.map(\.0), wholeFilesystem: odd)
    for ((_, done), result) in zip(group, results) { done(result) }
  }

  /// Ends the thread when it has committed what waits.
  func close() {
    box.with { $0.closed = true }
    box.signal()
  }

  private func work() {
    var choice = SyncChoice()
    var lastGroup = 0
    while true {
      box.wait(until: { !$0.waiting.isEmpty || $0.closed }, then: { _ in })
      // A lone job doesn't wait for company; a stream gathers, since a sync costs the same for many.
      if lastGroup > 4 {
        box.wait(
          until: { $0.waiting.count >= Self.groupSize || $0.closed },
          deadline: Clock.monotonic() + Self.gather, then: { _ in })
      }
      let group = box.with { box in
        let group = Array(box.waiting.prefix(Self.groupSize))
        box.waiting.removeFirst(group.count)
        return group
      }
      if group.isEmpty { return }
      lastGroup = group.count
      let whole = choice.wholeFilesystem(jobs: group.count)
      let start = Clock.monotonic()
      let results = spool.commit(group.map(\.0), wholeFilesystem: whole)
      choice.measured(
        wholeFilesystem: whole, jobs: group.count, nanoseconds: Clock.monotonic() - start)
      Loop.shared.post {
        for ((_, done), result) in zip(group, results) { done(result) }
      }
    }
  }
}

/// One `syncfs` for a group or an fsync for each sidecar: what was cheaper when last measured.
///
/// `syncfs` writes everything that anybody has written to the filesystem, so it is cheap on a quiet
/// disk and dear beside a big writer.
struct SyncChoice {
  /// Nanoseconds of a whole group, and of one job in it, as moving averages; nil: not measured.
  private var whole: Double?
  private var each: Double?
  private var groups = 0

  /// How a group of so many jobs is to be synced.
  mutating func wholeFilesystem(jobs: Int) -> Bool {
    groups += 1
    if jobs == 1 { return false }
    guard let whole else { return true }
    guard let each else { return false }
    // Now and then the dearer way, to notice that the disk has become quiet or busy.
    let better = whole < each * Double(jobs)
    return groups % 64 == 0 ? !better : better
  }

  mutating func measured(wholeFilesystem: Bool, jobs: Int, nanoseconds: Int64) {
    let value = Double(nanoseconds) / (wholeFilesystem ? 1 : Double(max(1, jobs)))
    if wholeFilesystem {
      whole = whole.map { $0 * 0.7 + value * 0.3 } ?? value
    } else {
      each = each.map { $0 * 0.7 + value * 0.3 } ?? value
    }
  }
}
