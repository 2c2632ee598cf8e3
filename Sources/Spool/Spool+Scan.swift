internal import Glibc
package import Jobs
package import System

/// Reading the directories: the scan is the truth, events are hints.
extension Spool {
  /// One name in pending/, as far as a scan sees it.
  package struct Found: Sendable {
    package var name: Name
    package var facts: Facts
    /// The earliest time that it may run; 0: at once.
    package var due: Int64 {
      facts.modified > facts.changed ? facts.modified : 0
    }
  }

  /// A scan of pending/ in pieces, so that a million names hold up nothing.
  package final class Scan {
    private let spool: Spool
    private let listing: Listing

    fileprivate init(_ spool: Spool, _ directory: consuming Descriptor) {
      self.spool = spool
      listing = Listing(directory)
    }

    /// The next names (a few hundred) with their facts, those with a bad name apart; nil at the end.
    package func next() throws(Errno) -> (jobs: [Found], misnamed: [(Name, String)])? {
      guard let names = try listing.next(spool.calls) else { return nil }
      var jobs: [Found] = []
      var misnamed: [(Name, String)] = []
      for name in names {
        if let found = try spool.found(name) {
          jobs.append(found)
        } else if let why = JobName.looksLikeAJob(name) {
          misnamed.append((name, why))
        }
      }
      return (jobs, misnamed)
    }
  }

  package func scanPending() throws(Errno) -> Scan {
    Scan(self, try calls.open(Name("."), in: pending.raw, O_RDONLY | O_DIRECTORY))
  }

  /// What is to be known of one name in pending/; nil when it is no job's name or gone.
  package func found(_ name: Name) throws(Errno) -> Found? {
    guard JobName.isJob(name), let facts = try calls.factsIfThere(of: name, in: pending.raw) else {
      return nil
    }
    return Found(name: name, facts: facts)
  }

  /// The job names in a place, up to `limit`, in the order of the filesystem.
  package func jobs(in place: Place, limit: Int = .max) throws(Errno) -> [Name] {
    var all: [Name] = []
    try calls.list(directory(place)) { names in
      all += names.lazy.filter { JobName.isJob($0) }
      return all.count < limit
    }
    return all
  }

  /// Streams the names of a place, or of progress/ when it is nil.
  package func listing(of place: Place?) throws(Errno) -> Listing {
    let directory = place.map { self.directory($0) } ?? progress.raw
    return Listing(try calls.open(Name("."), in: directory, O_RDONLY | O_DIRECTORY))
  }

  /// Reads a waiting job without locking it: what it says, for its place in the queue.
  package func peek(_ name: Name) throws(Errno) -> Job? {
    guard let bytes = try contents(name, in: pending.raw, limit: Int(Job.sizeLimit)) else {
      return nil
    }
    return try? Job.decode(bytes)
  }

  /// Names of state directories whose path is no longer the open directory: removed or replaced.
  package func replacedDirectories() -> [String] {
    var replaced: [String] = []
    let open: [(String, Int32)] =
      Place.allCases.map { ($0.rawValue, directory($0)) }
      + [("progress", progress.raw), ("workers", workers.raw)]
    for (name, fd) in open {
      do throws(Errno) {
        let there = try calls.factsIfThere(of: Name(name), in: root.raw)
        let ours = try calls.facts(of: fd)
        if there?.isSameFile(as: ours) != true { replaced.append(name) }
      } catch {
        // ESTALE: a network filesystem's way to say that it is gone. Any other is trouble of this
        // moment, and the next look tells.
        if error == .stale { replaced.append(name) }
      }
    }
    return replaced
  }

  /// The spool's room, and whether it is above the floor below which nothing is claimed: a
  /// directory must be able to grow to take a name, so that a job's end can always be written.
  package func hasRoom() throws(Errno) -> (ok: Bool, space: Space) {
    let space = try calls.space(pending.raw)
    let bytes = min(4 << 20, space.totalBytes / 20)
    let inodes = min(100, space.totalInodes / 20)
    let ok =
      space.freeBytes >= bytes && (space.totalInodes == 0 || space.freeInodes >= max(2, inodes))
    return (ok, space)
  }
}

/// Removing jobs that are over.
extension Spool {
  /// Removes a finished job and its sidecar when it ended before `limit`; the sidecar's
  /// `finishedAt` counts, else the file's ctime. False when it stays.
  package func prune(_ name: Name, in place: Place, endedBefore limit: Int64) throws(Errno) -> Bool
  {
    let file: Descriptor
    do throws(Errno) {
      file = try calls.open(
        name, in: directory(place), O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
    } catch {
      if error == .missing || error == .symlink { return false }
      throw error
    }
    let facts = try calls.facts(of: file.raw)
    // Renaming it here set the ctime, so that no younger file needs its sidecar read.
    guard facts.isRegular, facts.changed < limit, try calls.tryLock(file.raw) else { return false }
    let fd = file.raw
    guard let there = try calls.factsIfThere(of: name, in: directory(place)),
      there.isSameFile(as: facts)
    else { return false }
    let sidecar = try self.sidecar(name)
    if let sidecar, try speaks(sidecar, for: fd, facts) {
      if let ended = sidecar.finishedAt, ended >= limit { return false }
      // What lies half-sent must be removed first; the sidecar stays to say so.
      try calls.unlink(name, in: directory(place))
      if !sidecar.owesCleanUp { try? calls.unlink(name, in: progress.raw) }
      return true
    }
    try calls.unlink(name, in: directory(place))
    return true
  }
}
