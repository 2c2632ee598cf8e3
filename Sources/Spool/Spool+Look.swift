internal import Glibc
package import Jobs
package import System

/// Where a held job's file is now.
package enum Whereabouts: Sendable, Equatable {
  case place(Place)
  /// No name bears it any more.
  case unlinked
  /// It has a name somewhere, but not its own in this spool. One look is not enough to believe it.
  case nowhere
}

extension Spool {
  /// Looks for a held job's file: first in active/, then in the other directories under its name.
  /// (Not through /proc/self/fd, which lies after link and unlink.)
  package func whereabouts(_ claim: Claim) throws(Errno) -> Whereabouts {
    for place in [Place.active, .paused, .pending, .failed, .done] {
      if let there = try calls.factsIfThere(of: claim.name, in: directory(place)),
        there.isSameFile(as: claim.facts)
      {
        return .place(place)
      }
    }
    return try calls.facts(of: claim.file.raw).links == 0 ? .unlinked : .nowhere
  }

  /// The place of the job NAME, whoever holds it, in the order in which a job moves back.
  package func place(of name: Name) throws(Errno) -> Place? {
    for place in [Place.active, .pending, .paused, .done, .failed] {
      if try calls.factsIfThere(of: name, in: directory(place)) != nil { return place }
    }
    return nil
  }

  /// The id of the job file that bears NAME in a place, nil when it isn't there or unreadable.
  package func id(of name: Name, in place: Place) throws(Errno) -> String? {
    guard let facts = try calls.factsIfThere(of: name, in: directory(place)), facts.isRegular else {
      return nil
    }
    if facts.born != nil { return jobID(facts, bytes: []) }
    guard let bytes = try contents(name, in: directory(place), limit: Int(Job.sizeLimit)) else {
      return nil
    }
    return jobID(facts, bytes: bytes)
  }

  /// The bytes of a job in a place; nil when it isn't there or is no regular file of at most 1 MiB.
  package func jobBytes(_ name: Name, in place: Place) throws(Errno) -> [UInt8]? {
    try contents(name, in: directory(place), limit: Int(Job.sizeLimit))
  }

  /// Whether somebody holds the lock of the job file in a place: then a worker has it.
  package func isHeldBySomebody(_ name: Name, in place: Place) throws(Errno) -> Bool {
    do throws(Errno) {
      let file = try calls.open(
        name, in: directory(place), O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
      return try !calls.tryLock(file.raw)
    } catch {
      if error == .missing { return false }
      throw error
    }
  }
}

/// A sidecar without a job.
package enum Orphan: Sendable, Equatable {
  /// It has a job, or isn't readable.
  case no
  /// Its job was removed and something of it may lie half-sent at a server.
  case owesCleanUp(Sidecar)
  /// Its job is gone and nothing is owed: it is only pruned.
  case finished(Sidecar)
}

extension Spool {
  /// Judges progress/NAME at one look; while people move files a single look is often wrong, so
  /// that `owesCleanUp` counts only after a second one at least 10 s later with the same sidecar.
  package func orphan(_ name: Name) throws(Errno) -> Orphan {
    for place in [Place.done, .active, .pending, .paused, .failed] {
      if try calls.factsIfThere(of: name, in: directory(place)) != nil {
        // Another job may bear the name by now; its claim keeps what is owed under NAME~ID.
        return .no
      }
    }
    guard let sidecar = try sidecar(name) else { return .no }
    if try finishStepAside(name, sidecar) { return .no }
    return sidecar.owesCleanUp ? .owesCleanUp(sidecar) : .finished(sidecar)
  }

  /// A worker that died in the middle of a step aside left the sidecar as `NAME~N` and its job as
  /// NAME: brings them together. False when it isn't so; true, too, when the job lives on as NAME.
  private func finishStepAside(_ name: Name, _ sidecar: Sidecar) throws(Errno) -> Bool {
    for original in Self.origins(of: name, sidecar) where original != name {
      for place in [Place.active, .pending, .paused, .done, .failed] {
        guard try id(of: original, in: place) == sidecar.id else { continue }
        // It runs or will, or has a newer sidecar: what this one owes is not to be touched yet.
        if place == .active || place == .pending { return true }
        if try self.sidecar(original)?.id == sidecar.id { return true }
        let file: Descriptor
        do throws(Errno) {
          file = try calls.open(
            original, in: directory(place), O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
        } catch {
          if error == .missing || error == .symlink { return true }
          throw error
        }
        // Between the look and the lock the name may have become another file's.
        guard try calls.tryLock(file.raw),
          let there = try calls.factsIfThere(of: original, in: directory(place)),
          there.isSameFile(as: try calls.facts(of: file.raw)),
          try id(of: file.raw, there) == sidecar.id
        else { return true }
        try calls.move(original, from: directory(place), to: directory(place), as: name)
        return true
      }
    }
    return false
  }

  /// What `NAME~N` or `NAME~ID` may have been called: by its bytes, and by what its sidecar says,
  /// since a long name loses older suffixes.
  private static func origins(of name: Name, _ sidecar: Sidecar) -> [Name] {
    let bytes = Array(name.bytes)
    var names: [Name] = []
    if let mark = bytes.lastIndex(of: UInt8(ascii: "~")) {
      names.append(Name(bytes: bytes[..<mark] + ".json".utf8))
    }
    names.append(Name(sidecar.job + ".json"))
    return names.filter { JobName.isJob($0) }
  }

  /// Says that what was owed is done, if the sidecar is still the one that was judged.
  package func settle(_ name: Name, judged: Sidecar, as settled: Sidecar) throws(Errno) -> Bool {
    guard let there = try sidecar(name), there == judged else { return false }
    try publish(settled, as: name, durable: true)
    return true
  }

  /// Removes a sidecar that no job needs, if it is still the one that was judged.
  package func removeSidecar(_ name: Name, judged: Sidecar) throws(Errno) {
    guard let there = try sidecar(name), there == judged else { return }
    do throws(Errno) {
      try calls.unlink(name, in: progress.raw)
    } catch {
      if error != .missing { throw error }
    }
  }
}
