internal import Glibc
package import Jobs
package import System

/// Reading and publishing sidecars: the one place that writes to progress/.
extension Spool {
  /// What progress/NAME says; nil when there is none, or it is empty or unreadable, which counts as
  /// none.
  package func sidecar(_ name: Name) throws(Errno) -> Sidecar? {
    guard let bytes = try contents(name, in: progress.raw, limit: Int(Sidecar.sizeLimit)) else {
      return nil
    }
    return Sidecar.decode(bytes)
  }

  /// Whether progress/NAME exists at all, readable or not.
  func hasSidecar(_ name: Name) throws(Errno) -> Bool {
    try calls.factsIfThere(of: name, in: progress.raw) != nil
  }

  /// The bytes of a regular file; nil when it isn't there or isn't one.
  func contents(_ name: Name, in directory: Int32, limit: Int) throws(Errno) -> [UInt8]? {
    do throws(Errno) {
      let file = try calls.open(name, in: directory, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
      let facts = try calls.facts(of: file.raw)
      guard facts.isRegular, facts.size <= limit else { return nil }
      return try calls.read(file.raw, upTo: Int(facts.size))
    } catch {
      if error == .missing || error == .symlink { return nil }
      throw error
    }
  }

  /// Writes progress/NAME by temporary and rename, so that no reader ever sees a torn file.
  ///
  /// - `durable`: fsync before the rename. Needed whenever resume state changed: xfs and btrfs keep
  ///   a file of 0 bytes otherwise.
  package func publish(_ sidecar: Sidecar, as name: Name, durable: Bool) throws(Errno) {
    try publish(sidecar.encoded(), as: name, durable: durable)
  }

  func publish(_ bytes: [UInt8], as name: Name, durable: Bool) throws(Errno) {
    let temporary = temporary()
    do throws(Errno) {
      let file = try calls.open(
        temporary, in: progress.raw, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW)
      try calls.write(file.raw, bytes)
      if durable && durability == .full { try calls.sync(file.raw) }
      try file.close()
      try calls.replace(temporary, in: progress.raw, as: name)
    } catch {
      discard(temporary, in: progress.raw)
      throw error
    }
  }

  /// Writes progress/NAME straight, when nothing bears that name yet: until the job's last rename
  /// nobody trusts it. False when there is one already.
  func createSidecar(_ bytes: [UInt8], as name: Name) throws(Errno) -> Bool {
    do throws(Errno) {
      let file = try calls.open(name, in: progress.raw, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW)
      do throws(Errno) {
        try calls.write(file.raw, bytes)
      } catch {
        // A full disk: no half of a sidecar stays.
        try? calls.unlink(name, in: progress.raw)
        throw error
      }
      return true
    } catch {
      if error == .exists { return false }
      throw error
    }
  }

  /// Writes what a worker has to say of a job that it holds, unless NAME is somebody else's by now.
  ///
  /// A sidecar is written only while NAME in a state directory is the writer's inode; a job that a
  /// person removed may be told of as long as its own sidecar is the one that is there.
  /// Where it was stopped in favour of a new job of its name, which has its word there by now, it steps
  /// aside at once: neither word replaces the other. False when it was not ours to write.
  @discardableResult
  package func say(_ sidecar: Sidecar, of claim: Claim, durable: Bool) throws(Errno) -> Bool {
    let name = claim.name
    for place in [Place.active, .paused, .pending, .failed, .done] {
      guard let there = try calls.factsIfThere(of: name, in: directory(place)) else { continue }
      if there.isSameFile(as: claim.facts) {
        if place == .paused, try isTaken(name, besides: claim.id) {
          let aside = try nameAside(for: name, of: there, id: claim.id, in: place)
          try publish(sidecar, as: aside.name, durable: durable)
          if !aside.isLinked {
            try calls.move(name, from: directory(place), to: directory(place), as: aside.name)
          }
          return true
        }
        try publish(sidecar, as: name, durable: durable)
        return true
      }
      // The name in paused/, done/ or failed/ may be an older namesake's that never had a sidecar.
      if place == .active || place == .pending { return false }
    }
    let isOurs =
      if let there = try self.sidecar(name) { there.id == claim.id } else {
        try !hasSidecar(name)
      }
    if isOurs { try publish(sidecar, as: name, durable: durable) }
    return isOurs
  }

  /// progress/NAME is the word of another job, which waits or runs under that name.
  private func isTaken(_ name: Name, besides id: String) throws(Errno) -> Bool {
    guard let other = try sidecar(name)?.id, other != id else { return false }
    for place in [Place.pending, .active] where try self.id(of: name, in: place) == other {
      return true
    }
    return false
  }
}
