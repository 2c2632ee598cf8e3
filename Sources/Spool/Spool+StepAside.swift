internal import Glibc
package import Jobs
internal import System

/// A name in use: the older job and its sidecar step aside, so that progress/nightly.json is always
/// tonight's, and nothing is ever overwritten.
extension Spool {
  /// The first `NAME~N` that is free in every directory.
  func freeName(for name: Name) throws(Errno) -> Name {
    var n = 1
    while true {
      let candidate = JobName.stepAside(name, n)
      if try isFree(candidate) { return candidate }
      n += 1
    }
  }

  private func isFree(_ name: Name) throws(Errno) -> Bool {
    // The sidecar first: nearly every taken name has one, so that one look is enough.
    if try hasSidecar(name) { return false }
    return try place(of: name) == nil
  }

  /// The `NAME~N` for a file that leaves NAME within or towards `place`: the one that an interrupted
  /// try began with, else the first that is free.
  ///
  /// Begun means: the file's sidecar is there already and no job with it, or (where rename has no
  /// NOREPLACE) the file itself is, too: `isLinked`.
  func nameAside(for name: Name, of facts: Facts, id: String, in place: Place) throws(Errno)
    -> (name: Name, isLinked: Bool)
  {
    var n = 1
    while true {
      let candidate = JobName.stepAside(name, n)
      // Where it goes most of the taken names are: one look each.
      if let there = try calls.factsIfThere(of: candidate, in: directory(place)) {
        if facts.links > 1, there.isSameFile(as: facts) { return (candidate, true) }
      } else if try self.place(of: candidate) == nil {
        guard try hasSidecar(candidate) else { return (candidate, false) }
        if try sidecar(candidate)?.id == id { return (candidate, false) }
      }
      n += 1
    }
  }

  /// Moves a job and its sidecar from NAME to `NAME~N`; the caller holds its lock.
  ///
  /// The sidecar first: dying in between leaves a sidecar without a job under `NAME~N`, which the
  /// next try, recovery and `orphan` bring together again, never a job whose sidecar another one
  /// replaces.
  func moveAside(_ name: Name, of facts: Facts, id: String, from: Place, to: Place)
    throws(Errno)
  {
    let aside = try nameAside(for: name, of: facts, id: id, in: to)
    let hasWord = try sidecar(name)?.id == id
    // What an interrupted try left there is this job's own and older.
    if hasWord { try calls.replace(name, in: progress.raw, as: aside.name) }
    do throws(Errno) {
      if aside.isLinked {
        try calls.unlink(name, in: directory(from))
      } else {
        try calls.move(name, from: directory(from), to: directory(to), as: aside.name)
      }
    } catch {
      // A person may move the job before the next try: its word stays with it.
      if hasWord { try? calls.move(aside.name, from: progress.raw, to: progress.raw, as: name) }
      throw error
    }
  }

  /// Makes progress/NAME free to be written by a pending job that is about to run: false when the
  /// name belongs to a running job, or to one that somebody is handling right now.
  ///
  /// The sidecar that is left under NAME afterwards is the pending job's own or may be replaced.
  func makeRoom(for name: Name) throws(Errno) -> Bool {
    // active/ first: a job that runs keeps its name, and the same work never runs twice at once.
    if try calls.factsIfThere(of: name, in: active.raw) != nil { return false }
    let mine = try calls.factsIfThere(of: name, in: pending.raw)
    for place in [Place.paused, .done, .failed] {
      guard let there = try calls.factsIfThere(of: name, in: directory(place)) else { continue }
      if let mine, there.isSameFile(as: mine) {
        // A half-done move where rename has no NOREPLACE: the earlier state stays, and of pending/
        // and these, pending/ is where a person moved it to.
        guard try dropName(name, in: place, keeping: .pending) else { return false }
        continue
      }
      guard try stepAside(name, in: place) else { return false }
    }
    try keepOwed(name)
    return true
  }

  /// Removes one of two names of one inode, if it has both; false when it hasn't (any more).
  ///
  /// Two looks prove nothing: a person may move the file from the one place to the other in between, and
  /// then its only name would go. So this name is taken out of everybody's way first; it goes when the
  /// other is still there after that, else it comes back.
  func dropName(_ name: Name, in place: Place, keeping other: Place) throws(Errno) -> Bool {
    guard let facts = try calls.factsIfThere(of: name, in: directory(place)), facts.links > 1 else {
      return false
    }
    let aside = try freeName(for: name)
    do throws(Errno) {
      try calls.move(name, from: directory(place), to: directory(place), as: aside)
    } catch {
      if error == .missing { return false }
      throw error
    }
    if let there = try calls.factsIfThere(of: aside, in: directory(place)),
      let kept = try calls.factsIfThere(of: name, in: directory(other)), kept.isSameFile(as: there)
    {
      try calls.unlink(aside, in: directory(place))
      return true
    }
    do throws(Errno) {
      try calls.move(aside, from: directory(place), to: directory(place), as: name)
    } catch {
      // Taken meanwhile, or moved on: it has a name, whichever.
      if error != .exists && error != .missing { throw error }
    }
    return false
  }

  /// Moves an older job in `place` and its sidecar to the first free `NAME~N`; false when somebody
  /// holds it.
  @discardableResult
  func stepAside(_ name: Name, in place: Place) throws(Errno) -> Bool {
    let file: Descriptor
    do throws(Errno) {
      file = try calls.open(name, in: directory(place), O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
    } catch {
      switch error {
      case .missing: return true
      case .symlink, .denied, .notPermitted, .noDevice:
        // No job of ours; it has no lock and no sidecar.
        try calls.move(name, from: directory(place), to: directory(place), as: freeName(for: name))
        return true
      default: throw error
      }
    }
    guard try calls.tryLock(file.raw) else { return false }
    let facts = try calls.facts(of: file.raw)
    guard let there = try calls.factsIfThere(of: name, in: directory(place)),
      there.isSameFile(as: facts)
    else { return false }
    let id = try self.id(of: file.raw, facts)
    try moveAside(name, of: facts, id: id, from: place, to: place)
    return true
  }

  /// The id of an open job file.
  func id(of fd: Int32, _ facts: Facts) throws(Errno) -> String {
    let isReadable = facts.born == nil && facts.isRegular && facts.size <= Job.sizeLimit
    return jobID(facts, bytes: isReadable ? try calls.read(fd, upTo: Int(facts.size)) : [])
  }

  /// Whether a sidecar is that file's.
  func speaks(_ sidecar: Sidecar, for fd: Int32, _ facts: Facts) throws(Errno) -> Bool {
    if facts.born != nil { return sidecar.id == jobID(facts, bytes: []) }
    guard facts.size <= Job.sizeLimit else { return false }
    return sidecar.id == jobID(facts, bytes: try calls.read(fd, upTo: Int(facts.size)))
  }

  /// Makes progress/NAME free to be written for a job in active/ that has no sidecar yet. What is
  /// there may be its own, from an interrupted try; or an older namesake's, who steps aside.
  /// EWOULDBLOCK when somebody holds that one.
  func giveWay(_ name: Name, to id: String) throws(Errno) {
    guard let other = try sidecar(name), other.id != id else { return }
    for place in [Place.paused, .done, .failed] {
      guard try self.id(of: name, in: place) == other.id else { continue }
      guard try stepAside(name, in: place) else { throw .wouldBlock }
      return
    }
    try keepOwed(name)
  }

  /// A sidecar under NAME whose job is gone, and which still owes a clean-up at a server, moves to
  /// `NAME~ID`: its job was removed, and the name is needed for a new life.
  func keepOwed(_ name: Name) throws(Errno) {
    guard let sidecar = try sidecar(name), sidecar.owesCleanUp else { return }
    if let mine = try calls.factsIfThere(of: name, in: pending.raw),
      let bytes = try contents(name, in: pending.raw, limit: Int(Job.sizeLimit)),
      sidecar.id == jobID(mine, bytes: bytes)
    {
      return
    }
    do throws(Errno) {
      try calls.move(
        name, from: progress.raw, to: progress.raw, as: JobName.keyed(name, id: sidecar.id))
    } catch {
      // Kept before by a worker that died then.
      if error != .exists { throw error }
    }
  }
}

extension Sidecar {
  /// Something of it may lie half-sent at a server, and nobody removed it yet.
  package var owesCleanUp: Bool {
    switch state {
    case .done: false
    // Stopped by a move out of active/, it may still go on.
    case .failed, .cancelled: !resume.isEmpty
    case .pending, .active, .paused: true
    }
  }
}

extension Sidecar {
  /// It holds what would cost a repeated upload, or more, if a power cut emptied it.
  var isWorthKeeping: Bool {
    state.isFinal || !resume.isEmpty || files.contains { $0.state == .done }
  }
}
