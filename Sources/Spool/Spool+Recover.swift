internal import Glibc
package import Jobs
package import System

/// What recovery did with a file in active/.
package enum Recovery: Sendable, Equatable {
  /// Its worker lives, or it is gone already.
  case alive
  /// Its last word had been written: the rename was made up for.
  case finished(Place)
  /// It is pending again, after so many crashes in a row.
  case requeued(crashes: Int)
  /// It died with its worker too often, and is in failed/.
  case gaveUp(crashes: Int)
  /// Not a job's file: somebody put it there.
  case strange(String)
}

extension Spool {
  /// Looks at active/NAME, which isn't this process's: a file whose lock can be taken lost its
  /// worker.
  ///
  /// - `boot`: this machine's boot id; a crash by a power cut or reboot is not the job's.
  /// - `limit`: so many crashes in a row, without progress between, are too many.
  /// - `backOff`: nanoseconds to wait after the n-th crash.
  package func recover(
    _ name: Name, now: Int64, boot: String, limit: Int, backOff: (Int) -> Int64
  ) throws(Errno) -> Recovery {
    let file: Descriptor
    do throws(Errno) {
      file = try calls.open(name, in: active.raw, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
    } catch {
      switch error {
      case .missing: return .alive
      case .symlink: return .strange("a symbolic link")
      case .noDevice: return .strange("a socket or a pipe")
      case .denied, .notPermitted: return .strange("a file that may not be read")
      default: throw error
      }
    }
    let facts = try calls.facts(of: file.raw)
    guard facts.isRegular else { return .strange(facts.kind) }
    guard try calls.tryLock(file.raw) else { return .alive }
    guard let there = try calls.factsIfThere(of: name, in: active.raw),
      there.isSameFile(as: facts)
    else { return .alive }

    let fd = file.raw
    let known = try sidecar(name)
    var isMine = false
    if let known { isMine = try speaks(known, for: fd, facts) }
    if facts.links > 1, let verdict = try undoHalfMove(name, facts, isMine ? known : nil) {
      return verdict
    }
    let id = try self.id(of: fd, facts)
    guard isMine, var sidecar = known else {
      if let verdict = try finishMoveBack(name, facts, id) { return verdict }
      if let known, try self.id(of: name, in: .pending) == known.id {
        // Put here by hand under the name of a job that waits, and whose word this is.
        try moveAside(name, of: facts, id: id, from: .active, to: .pending)
        try syncDirectory(pending.raw)
        return .requeued(crashes: 0)
      }
      return try adoptWithoutWord(name, facts, id, now: now, boot: boot, backOff: backOff)
    }
    switch sidecar.state {
    case .done: return try finish(name, in: .done)
    case .failed: return try finish(name, in: .failed)
    case .pending, .paused:
      try returnToPending(name, facts, id)
      return .requeued(crashes: sidecar.crashes)
    case .active, .cancelled:
      let safe = sidecar.safeBytes
      let progressed = safe > (sidecar.crashProgress ?? 0)
      let rebooted = sidecar.boot != nil && sidecar.boot != boot
      if progressed {
        sidecar.crashes = 0
      } else if !rebooted {
        sidecar.crashes += 1
      }
      sidecar.crashProgress = safe
      sidecar.phase = nil
      (sidecar.bytesPerSecond, sidecar.etaSeconds) = (nil, nil)
      sidecar.updatedAt = now
      for i in sidecar.files.indices where sidecar.files[i].state == .active {
        sidecar.files[i].state = .waiting
      }
      if sidecar.crashes >= limit {
        sidecar.state = .failed
        sidecar.finishedAt = now
        sidecar.wait = nil
        sidecar.error = .init(
          kind: "crash", message: "its worker died \(sidecar.crashes) times while running it",
          advice: "look into the worker's log for what ended it; then move the job back to pending/"
        )
        try publish(sidecar, as: name, durable: true)
        _ = try finish(name, in: .failed)
        return .gaveUp(crashes: sidecar.crashes)
      }
      sidecar.state = .pending
      sidecar.wait = crashWait(sidecar.crashes, facts, now, backOff)
      try publish(sidecar, as: name, durable: true)
      try returnToPending(name, facts, id)
      return .requeued(crashes: sidecar.crashes)
    }
  }

  private func crashWait(_ crashes: Int, _ facts: Facts, _ now: Int64, _ backOff: (Int) -> Int64)
    -> Sidecar.Wait?
  {
    crashes == 0
      ? nil : .init(until: now + backOff(crashes), mtime: facts.modified, reason: "crash")
  }

  /// Its worker died before its first word. From now on there is one, so that crashes count.
  private func adoptWithoutWord(
    _ name: Name, _ facts: Facts, _ id: String, now: Int64, boot: String, backOff: (Int) -> Int64
  ) throws(Errno) -> Recovery {
    var sidecar = Sidecar(
      state: .pending, job: JobName.stem(name), id: id, queuedAt: facts.changed, updatedAt: now)
    sidecar.crashes = 1
    sidecar.boot = boot
    sidecar.wait = crashWait(1, facts, now, backOff)
    try giveWay(name, to: id)
    try publish(sidecar, as: name, durable: true)
    try returnToPending(name, facts, id)
    return .requeued(crashes: 1)
  }

  /// Its worker died while it brought the job back as `NAME~N`, the sidecar being there already: the
  /// rest is made up for. Nil when it isn't so.
  private func finishMoveBack(_ name: Name, _ facts: Facts, _ id: String) throws(Errno)
    -> Recovery?
  {
    let aside = try nameAside(for: name, of: facts, id: id, in: .pending)
    let word = try sidecar(aside.name)
    guard aside.isLinked || word?.id == id && word?.state.isFinal == false else { return nil }
    try moveAside(name, of: facts, id: id, from: .active, to: .pending)
    try syncDirectory(pending.raw)
    return .requeued(crashes: word?.crashes ?? 0)
  }

  private func finish(_ name: Name, in place: Place) throws(Errno) -> Recovery {
    do throws(Errno) {
      try calls.move(name, from: active.raw, to: directory(place))
    } catch {
      if error == .missing {
        try checkDirectory(place)
        return .alive
      }
      guard error == .exists else { throw error }
      guard try stepAside(name, in: place) else { return .alive }
      try calls.move(name, from: active.raw, to: directory(place))
    }
    try syncDirectory(directory(place))
    return .finished(place)
  }

  private func returnToPending(_ name: Name, _ facts: Facts, _ id: String) throws(Errno) {
    do throws(Errno) {
      try calls.move(name, from: active.raw, to: pending.raw)
    } catch {
      switch error {
      case .missing: return try checkDirectory(.pending)
      case .exists: try moveAside(name, of: facts, id: id, from: .active, to: .pending)
      default: throw error
      }
    }
    try syncDirectory(pending.raw)
  }

  /// One inode under two state directories is a half-done move on a filesystem without NOREPLACE:
  /// the earlier state stays (repeat, don't lose), except active + done with a "done" sidecar.
  private func undoHalfMove(_ name: Name, _ facts: Facts, _ sidecar: Sidecar?) throws(Errno)
    -> Recovery?
  {
    for place in [Place.pending, .done, .failed, .paused] {
      guard let there = try calls.factsIfThere(of: name, in: directory(place)),
        there.isSameFile(as: facts)
      else { continue }
      let finished =
        place == .done && sidecar?.state == .done || place == .failed && sidecar?.state == .failed
      if place == .pending || finished {
        guard try dropName(name, in: .active, keeping: place) else { return .alive }
        return finished ? .finished(place) : .requeued(crashes: sidecar?.crashes ?? 0)
      }
      guard try dropName(name, in: place, keeping: .active) else { return .alive }
    }
    return nil
  }
}

extension Sidecar {
  /// Bytes that need not be sent again: whole files, and what can be resumed.
  package var safeBytes: Int64 {
    var sum: Int64 = 0
    for file in files where file.state == .done { sum += (file.totalBytes ?? 0) + 1 }
    for one in resume { sum += one.offset }
    return sum
  }
}
