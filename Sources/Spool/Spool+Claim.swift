internal import Glibc
package import Jobs
package import System

/// A job that this process holds: its file's lock lives as long as this object.
package final class Claim: Sendable {
  package let name: Name
  package let facts: Facts
  package let id: String
  package let job: Job
  /// The job file's bytes.
  package let bytes: [UInt8]
  /// What was known of it when it was claimed; nil for a fresh drop, whose sidecar is written once,
  /// at its end, if it ends soon.
  package let sidecar: Sidecar?
  let file: Descriptor

  init(
    name: Name, facts: Facts, id: String, job: Job, bytes: [UInt8], sidecar: Sidecar?,
    file: consuming Descriptor
  ) {
    (self.name, self.facts, self.id, self.job) = (name, facts, id, job)
    (self.bytes, self.sidecar) = (bytes, sidecar)
    self.file = file
  }
}

/// What became of a try to claim.
package enum Claiming: Sendable {
  case claimed(Claim)
  /// It isn't there any more: another worker or a person was faster.
  case gone
  /// Neither job nor waste: a directory, a symbolic link, a pipe …, in words.
  case notRegular(String)
  /// It can't be opened or locked.
  case unreadable(Errno)
  /// Somebody holds a lock on it.
  case locked
  /// Its mtime says later (nanoseconds since 1970).
  case notDue(Int64)
  /// The caller's decision, with what was learned.
  case later(Job, Sidecar?)
  /// The name is in use: by a running job, or by an older one that somebody holds.
  case nameTaken
  /// The bytes are no JSON and somebody has the file open for writing, or it is unknown who has.
  case incomplete(Malformed, hasWriter: Bool?, Facts)
  /// JSON, but never a job; not moved yet.
  case refused(Refusal, Facts)
  /// It changed while it was being read; nothing counted.
  case changed
}

extension Spool {
  /// Tries to make a pending job this process's own.
  ///
  /// open, lock, is it still there, due, read, decide, name free, stale sidecar replaced, rename,
  /// unchanged: each step's order matters; see the state table.
  ///
  /// - `decide` is asked when the job is known, before anything is changed: false leaves it.
  /// - `start` makes the sidecar to begin with from the one that is there (of the same file), when
  ///   there is one or the stale one of another file has to be replaced.
  package func claim(
    _ name: Name, now: Int64, decide: (Job, Sidecar?, Facts) -> Bool,
    start: (Job, Sidecar?, _ id: String, Facts) -> Sidecar
  ) throws(Errno) -> Claiming {
    let file: Descriptor
    do throws(Errno) {
      file = try calls.open(name, in: pending.raw, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
    } catch {
      switch error {
      case .missing: return .gone
      case .symlink: return .notRegular("a symbolic link")
      case .denied, .notPermitted: return .unreadable(error)
      default:
        // A socket can't be opened (ENXIO); anything else is this process's trouble.
        if error == .noDevice { return .notRegular("a socket or a pipe") }
        throw error
      }
    }
    let before = try calls.facts(of: file.raw)
    guard before.isRegular else { return .notRegular(before.kind) }
    guard try calls.tryLock(file.raw) else { return .locked }
    guard let there = try calls.factsIfThere(of: name, in: pending.raw),
      there.isSameFile(as: before)
    else { return .gone }
    // A fresh drop from a machine whose clock is ahead has an mtime in the future, but a ctime of
    // ours that is not before it; only `touch -d` and copies that keep times make it later.
    if there.modified > now && there.modified > there.changed { return .notDue(there.modified) }

    guard there.size <= Job.sizeLimit else {
      return .refused(
        .invalid(Malformed("", "a job file has at most 1 MiB, this one \(there.size) bytes")),
        there)
    }
    let bytes = try calls.read(file.raw, upTo: Int(there.size))
    let job: Job
    do {
      job = try Job.decode(bytes)
    } catch .malformed(let what) {
      return .incomplete(what, hasWriter: calls.hasNoWriter(file.raw).map { !$0 }, there)
    } catch {
      return .refused(error, there)
    }
    let id = jobID(there, bytes: bytes)

    var known: Sidecar?
    let hadSidecar = try hasSidecar(name)
    if hadSidecar {
      known = try sidecar(name)
      if known?.id != id { known = nil }
    }
    guard decide(job, known, there) else { return .later(job, known) }

    var first: Sidecar?
    if hadSidecar {
      guard try makeRoom(for: name) else { return .nameTaken }
      let sidecar = start(job, known, id, there)
      try publish(sidecar, as: name, durable: known?.isWorthKeeping == true)
      // Without this a power cut could keep the rename below and the older sidecar's "done".
      if known?.state.isFinal == true { try syncDirectory(progress.raw) }
      first = sidecar
    }
    do throws(Errno) {
      try calls.move(name, from: pending.raw, to: active.raw)
    } catch {
      if error == .exists { return .nameTaken }
      if error == .missing {
        try checkDirectory(.active)
        return .gone
      }
      throw error
    }
    let claim = Claim(
      name: name, facts: there, id: id, job: job, bytes: bytes,
      sidecar: first, file: file)
    let after: Facts
    do throws(Errno) {
      after = try calls.facts(of: claim.file.raw)
    } catch {
      // It must not stay there without its lock: that would count as a crash.
      try? putBack(claim)
      throw error
    }
    guard after.isUnchanged(since: before) else {
      try putBack(claim)
      return .changed
    }
    return .claimed(claim)
  }

  /// Throws when a state directory's path is another directory than the open one.
  package func checkDirectory(_ place: Place) throws(Errno) {
    let there = try calls.facts(of: Name(place.rawValue), in: root.raw)
    let ours = try calls.facts(of: directory(place))
    if !there.isSameFile(as: ours) { throw .missing }
  }

  /// Moves a job that must not run after all back to pending/; its sidecar is what it was.
  private func putBack(_ claim: Claim) throws(Errno) {
    do throws(Errno) {
      try calls.move(claim.name, from: active.raw, to: pending.raw)
    } catch {
      switch error {
      case .missing: try checkDirectory(.pending)
      case .exists: try moveBack(claim)
      default: throw error
      }
    }
  }
}
