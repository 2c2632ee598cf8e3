internal import Glibc
internal import Jobs
package import System

// The spool's states, as a table of which files exist.
//
// A job file lies in exactly one state directory. Its sidecar is progress/NAME. `=` means that the
// sidecar's id is that of the job file; `other`, that it speaks for another file; `-`, none.
//
// | job file in | lock | sidecar          | means                         | who acts, and how                       |
// |-------------|------|------------------|-------------------------------|-----------------------------------------|
// | pending/    | free | -                | a fresh drop                  | claim                                   |
// | pending/    | free | = pending        | came back: back-off, drain,   | claim when due; its attempts, results   |
// |             |      |                  | destination, crash            | and resume state go on                  |
// | pending/    | free | = active         | its worker died between the   | claim, as above                         |
// |             |      |                  | sidecar and the claim's rename|                                         |
// | pending/    | free | = paused         | resumed by a person           | claim, as above                         |
// | pending/    | free | = failed         | tried again by a person       | claim: attempts, crashes, age afresh    |
// | pending/    | free | = done, cancelled| submitted again by a person   | claim: everything afresh, run + 1       |
// | pending/    | free | other            | a new job of an old name      | older job and sidecar step aside, claim |
// | pending/    | held | any              | a worker is judging it        | wait                                    |
// | active/     | held | -, = active      | it runs                       | its worker, nobody else                 |
// | active/     | held | = final          | its end is being committed    | its worker, nobody else                 |
// | active/     | free | = done, failed   | its worker died before the    | recovery: rename, nothing else          |
// |             |      |                  | last rename                   |                                         |
// | active/     | free | = active         | its worker died               | recovery: a crash counted, pending/     |
// | active/     | free | = pending, paused| its worker died on the way    | recovery: pending/                      |
// |             |      |                  | back                          |                                         |
// | active/     | free | -, other         | its worker died before the    | recovery: sidecar with one crash,       |
// |             |      |                  | first word                    | pending/                                |
// | paused/     | free | any              | held by a person              | nobody                                  |
// | done/       | free | = done           | finished                      | prune, when it is old enough            |
// | failed/     | free | = failed         | gave up                       | prune, when it is old enough            |
// | nowhere     |      | unfinished       | removed by a person           | two looks 10 s apart, then clean up at  |
// |             |      |                  |                               | the server, then cancelled              |
// | nowhere     |      | final            | removed by a person           | prune, when it is old enough            |
// | two of them | free | any              | a half-done move where rename | the later name is removed; but active + |
// |             |      |                  | has no NOREPLACE              | done with a "done" sidecar: the earlier |
// | `.UUID.*`   |      |                  | a worker's temporary          | whoever gets the dead UUID.lock         |
//
// The order of each step is chosen so that dying between any two calls leaves one of these rows.

/// The directories of a spool, open for the process's life, and all that is done to job files.
///
/// It knows names, locks, moves and sidecars; it knows nothing of networks, and decides nothing
/// that needs a clock: times are handed in.
package final class Spool: Sendable {
  package let path: String
  package let calls: Calls
  package let root: Descriptor
  package let pending: Descriptor
  package let active: Descriptor
  package let paused: Descriptor
  package let done: Descriptor
  package let failed: Descriptor
  package let progress: Descriptor
  package let workers: Descriptor
  /// Whether what was written must survive a power cut, too.
  package let durability: Durability
  /// This process's own, for temporaries.
  package let uuid: String
  private let counter = Locked(0)
  private let leftBehind = Locked(false)

  package enum Durability: String, Sendable, CaseIterable {
    /// Proof against power cuts: fsync before a state counts.
    case full
    /// Proof against the end of the process only.
    case process
  }

  /// Opens the directories of a spool that is there; `SpoolError` names the one that can't be opened.
  package init(
    _ path: String, durability: Durability = .full, uuid: String = newUUID(), calls: Calls = .live
  ) throws {
    self.path = path
    self.calls = calls
    self.durability = durability
    self.uuid = uuid
    do throws(Errno) {
      root = try calls.openDirectory(Name(path))
    } catch {
      throw SpoolError(path, error, doing: "open the directory")
    }
    let top = root.raw
    func directory(_ name: String) throws -> Descriptor {
      do throws(Errno) {
        return try calls.open(Name(name), in: top, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
      } catch {
        // A link could be turned to another directory while jobs are under way.
        throw SpoolError(
          path + "/" + name, error, doing: "open the directory",
          advice: error == .notADirectory
            ? "it must be a directory itself, not a symbolic link to one" : nil)
      }
    }
    pending = try directory("pending")
    active = try directory("active")
    paused = try directory("paused")
    done = try directory("done")
    failed = try directory("failed")
    progress = try directory("progress")
    workers = try directory("workers")
  }

  /// The directory that holds the job files of a state.
  package func directory(_ state: Place) -> Int32 {
    switch state {
    case .pending: pending.raw
    case .active: active.raw
    case .paused: paused.raw
    case .done: done.raw
    case .failed: failed.raw
    }
  }

  /// A name for a temporary of this process, never used before.
  func temporary() -> Name {
    let n = counter.with { n in
      n += 1
      return n
    }
    return Name(".\(uuid).\(n)")
  }

  /// Removes a temporary that isn't needed after all; where that fails, whoever finds this process
  /// dead does it.
  func discard(_ temporary: Name, in directory: Int32) {
    do throws(Errno) {
      try calls.unlink(temporary, in: directory)
    } catch {
      if error != .missing { leftBehind.with { $0 = true } }
    }
  }
  /// A temporary of this process is still there.
  var hasLeftovers: Bool { leftBehind.with { $0 } }

  /// Makes a directory's names durable, where the spool promises that.
  func syncDirectory(_ directory: Int32) throws(Errno) {
    if durability == .full { try calls.sync(directory) }
  }

  /// While spool/hold exists nothing runs.
  package func isHeld() -> Bool {
    (try? calls.facts(of: Name("hold"), in: root.raw)) != nil
  }
}

/// A state directory: the directory a job lies in is its state.
package enum Place: String, Sendable, CaseIterable {
  case pending, active, paused, done, failed
}

/// What went wrong with the spool itself, for a person: which path, what, what to do.
package struct SpoolError: Error, Equatable, Sendable, CustomStringConvertible {
  package var description: String
  /// The cause, where it was a system call.
  package var errno: Errno?

  package init(_ text: String) { description = text }
  package init(_ path: String, _ error: Errno, doing what: String, advice: String? = nil) {
    description = "\(path): cannot \(what): \(error)" + (advice.map { "; \($0)" } ?? "")
    errno = error
  }
}

/// 128 random bits, written as a UUID (RFC 9562, version 4).
package func newUUID() -> String {
  var bytes = randomBytes(16)
  bytes[6] = bytes[6] & 0x0f | 0x40
  bytes[8] = bytes[8] & 0x3f | 0x80
  let hex = Array(bytes.hex.utf8)
  let parts = [0..<8, 8..<12, 12..<16, 16..<20, 20..<32].map {
    String(decoding: hex[$0], as: UTF8.self)
  }
  return parts.joined(separator: "-")
}

/// Which file a sidecar speaks for: inode and birth time; inode and SHA-256 of the bytes where the
/// filesystem keeps no birth times.
package func jobID(_ facts: Facts, bytes: [UInt8]) -> String {
  let inode = String(facts.inode, radix: 16)
  if let born = facts.born { return inode + "-" + String(born, radix: 16) }
  return inode + "-s" + Digest.of(bytes, .sha256).prefix(16).hex
}
