internal import Glibc
internal import Spool
internal import System
internal import TestKit

/// A file or directory of the simulated filesystem: what is seen, and what a power cut would leave.
final class Inode {
  let number: UInt64
  let isDirectory: Bool
  let born: Int64
  var content: [UInt8] = []
  /// What of the content is on the disk; nil: nothing was ever written there.
  var durable: [UInt8]?
  var entries: [Name: Inode] = [:]
  var durableEntries: [Name: Inode] = [:]
  var modified: Int64
  var changed: Int64
  var links = 0
  /// Descriptors of all processes, and those of them that write.
  var opens = 0
  var writers = 0
  /// The descriptor that has its flock.
  var lock: Int32?
  /// It is a job's file.
  var life: Life?
  /// Which state directory it is.
  var place: Place?

  init(_ number: UInt64, isDirectory: Bool, now: Int64) {
    (self.number, self.isDirectory) = (number, isDirectory)
    (born, modified, changed) = (now, now, now)
  }
}

/// A change of names that the disk may not have yet; one of more than one part is a rename.
private struct Change {
  var parts: [(directory: Inode, name: Name, inode: Inode?)]
}

/// The simulated disk: names, contents, and which of both would outlive a power cut.
///
/// What was not synced may be lost or kept, each change for itself; two changes of one file or of one
/// name keep their order, and a rename is never torn, as on journalling filesystems.
final class Disk {
  let root: Inode
  private var lastNumber: UInt64 = 1
  private var free: [(number: UInt64, at: Int64)] = []
  private var changes: [Change] = []
  /// RENAME_NOREPLACE is known.
  var hasNoReplace = true
  /// statx(2) tells birth times.
  var hasBirthTimes = true
  /// Syncing a file makes its name durable, too, as ext4 does and POSIX doesn't promise.
  var syncsNames = false
  /// What is gone gives its number to the next; not where a power cut may bring it back.
  var reusesNumbers = false
  /// No new name and no new byte has room.
  var isFull = false

  init() { root = Inode(1, isDirectory: true, now: 0) }

  /// The filesystem's own clock, which is coarse (4 ms).
  var now: Int64 { Clock.wall() / 4_000_000 * 4_000_000 }

  func make(isDirectory: Bool) -> Inode {
    // ext4 gives a number again at once, though never twice in a tick of its clock.
    if let i = free.firstIndex(where: { $0.at < now }) {
      return Inode(free.remove(at: i).number, isDirectory: isDirectory, now: now)
    }
    lastNumber += 1
    return Inode(lastNumber, isDirectory: isDirectory, now: now)
  }

  /// Gives its number to others when nothing leads to it any more.
  func forget(_ inode: Inode) {
    if reusesNumbers && inode.links == 0 && inode.opens == 0 && inode.life == nil {
      free.append((inode.number, now))
    }
  }

  func change(_ parts: [(directory: Inode, name: Name, inode: Inode?)]) {
    var gone: [Inode] = []
    for (directory, name, inode) in parts {
      if let old = directory.entries[name] {
        old.links -= 1
        old.changed = now
        gone.append(old)
      }
      directory.entries[name] = inode
      if let inode {
        inode.links += 1
        inode.changed = now
      }
      directory.modified = now
    }
    for inode in gone { forget(inode) }
    changes.append(Change(parts: parts))
  }

  // MARK: Durability

  /// A file's bytes, or a directory's names with all that those depend on.
  func sync(_ inode: Inode) {
    if !inode.isDirectory { inode.durable = inode.content }
    if inode.isDirectory || syncsNames { commit { $0.directory === inode || $0.inode === inode } }
  }

  func syncAll() {
    for file in allFiles() { file.durable = file.content }
    commit { _ in true }
  }

  private func commit(
    _ isWanted: ((directory: Inode, name: Name, inode: Inode?)) -> Bool
  ) {
    var taken = [Bool](repeating: false, count: changes.count)
    var related: [Change] = []
    for i in changes.indices.reversed() {
      if changes[i].parts.contains(where: isWanted)
        || related.contains(where: { isBound(changes[i], to: $0) })
      {
        taken[i] = true
        related.append(changes[i])
      }
    }
    for i in changes.indices where taken[i] { apply(changes[i]) }
    changes = changes.indices.filter { !taken[$0] }.map { changes[$0] }
  }

  /// They concern one file or one name, so that their order is kept.
  private func isBound(_ a: Change, to b: Change) -> Bool {
    a.parts.contains { x in
      b.parts.contains { y in
        x.directory === y.directory && x.name == y.name
          || x.inode != nil && x.inode === y.inode
      }
    }
  }

  private func apply(_ change: Change) {
    for part in change.parts { part.directory.durableEntries[part.name] = part.inode }
  }

  /// What a power cut leaves: `keeps` says of each unsynced change and content whether it is there.
  func cutPower(_ random: inout Seeded) {
    // A journal loses its end; others lose anything.
    let isJournal = Bool.random(using: &random)
    let end = Int.random(in: 0...changes.count, using: &random)
    let chance = Int.random(in: 0...4, using: &random)
    var lost: [Change] = []
    for (i, change) in changes.enumerated() {
      let keeps = isJournal ? i < end : Int.random(in: 0..<4, using: &random) < chance
      if keeps && !lost.contains(where: { isBound(change, to: $0) }) {
        apply(change)
      } else {
        lost.append(change)
      }
    }
    changes = []
    let before = allFiles()
    for file in before where file.durable != file.content {
      switch Int.random(in: 0..<4, using: &random) {
      case 0: file.content = file.durable ?? []
      // xfs and btrfs leave the name of a file of 0 bytes.
      case 1: file.content = []
      case 2:
        file.content = Array(
          file.content.prefix(Int.random(in: 0...file.content.count, using: &random)))
      default: break
      }
    }
    for inode in before { (inode.opens, inode.writers, inode.lock, inode.links) = (0, 0, nil, 0) }
    restore(root)
    for file in allFiles() { file.durable = file.content }
  }

  private func restore(_ directory: Inode) {
    directory.entries = directory.durableEntries
    for inode in directory.entries.values {
      if inode.isDirectory { restore(inode) } else { inode.links += 1 }
    }
  }

  private func allFiles() -> [Inode] {
    var all: [Inode] = []
    var seen: Set<ObjectIdentifier> = []
    func visit(_ directory: Inode) {
      for entries in [directory.entries, directory.durableEntries] {
        for inode in entries.values where seen.insert(ObjectIdentifier(inode)).inserted {
          if inode.isDirectory { visit(inode) } else { all.append(inode) }
        }
      }
    }
    visit(root)
    // Opened and not named any more, or named by a change that isn't durable.
    for change in changes {
      for case let inode? in change.parts.map(\.inode)
      where !inode.isDirectory && seen.insert(ObjectIdentifier(inode)).inserted {
        all.append(inode)
      }
    }
    return all.sorted { $0.number < $1.number }
  }
}
