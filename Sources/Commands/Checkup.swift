internal import Configuration
internal import Glibc
internal import Jobs
internal import Spool
internal import System
internal import Worker

/// Looks through a spool for what a healthy one doesn't have; with `repairs` it mends what can be
/// mended without a worker.
struct Checkup {
  let spool: Spool
  let configuration: Configuration
  let repairs: Bool
  /// Nanoseconds since 1970.
  let now: Int64
  let findings: Findings

  func run() throws(Errno) {
    let workers = try checkWorkers()
    try checkStrays(workers)
    try checkActive()
    try checkPending()
    try checkSidecars(hasWorker: !workers.alive.isEmpty)
    if spool.isHeld() { findings.note("\(spool.path)/hold is there: nothing runs") }
  }

  private func checkWorkers() throws(Errno) -> Spool.Others {
    let workers = try spool.otherWorkers()
    for worker in try liveWorkers(spool, workers.alive, now: now) {
      if worker.age <= 30 * second {
        findings.fine("workers: \(worker.text)")
      } else {
        findings.trouble("workers: \(worker.text): it lives, but hangs; end it and start another")
      }
    }
    if workers.alive.isEmpty { findings.note("workers: none is alive") }
    guard repairs else {
      for uuid in workers.dead {
        findings.trouble("workers: \(uuid) is dead and left its files; --repair removes them")
      }
      return workers
    }
    for uuid in try spool.removeDeadWorkers(now: Clock.wall()) {
      findings.fine("workers: removed what the dead worker \(uuid) left behind")
    }
    return try spool.otherWorkers()
  }

  /// Temporaries `.UUID.*` whose process is gone.
  private func checkStrays(_ workers: Spool.Others) throws(Errno) {
    let alive = Set(workers.alive)
    let dead = Set(workers.dead)
    var directories = Place.allCases.map { ($0.rawValue, spool.directory($0)) }
    directories += [("progress", spool.progress.raw), ("workers", spool.workers.raw)]
    var strays = 0
    for (directory, fd) in directories {
      var found: [(Name, String)] = []
      try spool.calls.list(fd) { names in
        for name in names {
          if let uuid = Spool.temporaryOwner(name), !alive.contains(uuid), uuid != spool.uuid {
            found.append((name, uuid))
          }
        }
        return true
      }
      for (name, uuid) in found {
        guard let facts = try spool.calls.factsIfThere(of: name, in: fd) else { continue }
        if !dead.contains(uuid), now - facts.changed < Spool.strayAge { continue }
        strays += 1
        let shown = "\(spool.path)/\(directory)/\(name)"
        if repairs {
          try spool.calls.unlink(name, in: fd)
          findings.fine("strays: removed \(shown)")
        } else {
          findings.trouble("strays: \(shown) belongs to nobody any more; --repair removes it")
        }
      }
    }
    if strays == 0 { findings.fine("strays: none") }
  }

  private func checkActive() throws(Errno) {
    var (running, lost) = (0, 0)
    for name in try spool.jobs(in: .active) {
      let shown = "\(spool.path)/active/\(name)"
      var isHeld = false
      do throws(Errno) {
        isHeld = try spool.isHeldBySomebody(name, in: .active)
      } catch {
        if error != .symlink {
          findings.trouble("active: cannot look at \(shown): \(error)")
          lost += 1
          continue
        }
      }
      if isHeld {
        running += 1
        continue
      }
      // It may have ended since its name was read.
      guard try spool.calls.factsIfThere(of: name, in: spool.active.raw) != nil else { continue }
      lost += 1
      if repairs {
        try recover(name, shown)
      } else {
        findings.trouble(
          "active: \(shown) has lost its worker; a running worker or --repair takes it back")
      }
    }
    if lost == 0 { findings.fine("active: \(Short.count(running)) running, none without a worker") }
  }

  private func recover(_ name: Name, _ shown: String) throws(Errno) {
    let recovery = try spool.recover(
      name, now: now, boot: bootID(), limit: configuration.crashes,
      // As the worker's: 1 s doubling to 5 min.
      backOff: { crashes in min(300, 1 << Int64(min(max(crashes - 1, 0), 20))) * second })
    switch recovery {
    case .alive: break
    case .finished(let place):
      findings.fine("active: \(shown) had ended; moved to \(place.rawValue)/")
    case .requeued: findings.fine("active: \(shown) is back in pending/")
    case .gaveUp(let crashes):
      findings.fine("active: \(shown) lost its worker \(crashes) times; moved to failed/")
    case .strange(let what):
      findings.trouble("active: \(shown) is \(what) and no running job; remove it")
    }
  }

  private func checkPending() throws(Errno) {
    var faults = 0
    let scan = try spool.scanPending()
    var count = 0
    while let (jobs, misnamed) = try scan.next() {
      count += jobs.count
      for job in jobs where !job.facts.isRegular {
        faults += 1
        findings.trouble(
          "pending: \(spool.path)/pending/\(job.name) is \(job.facts.kind), not a regular file")
      }
      for (name, why) in misnamed {
        faults += 1
        findings.trouble("pending: \(spool.path)/pending/\(name): \(why); rename it")
      }
    }
    if faults == 0 {
      findings.fine("pending: \(Short.count(count)) waiting, all of them named well")
    }
  }

  /// What removed jobs left half-sent at servers, and nobody cleaned up yet.
  private func checkSidecars(hasWorker: Bool) throws(Errno) {
    var owed = 0
    let listing = try spool.listing(of: nil)
    while let names = try listing.next(spool.calls) {
      for name in names where name.bytes.first != UInt8(ascii: ".") {
        guard try spool.place(of: name) == nil, let sidecar = try spool.sidecar(name),
          sidecar.owesCleanUp,
          // A job that moved from one directory to the next meanwhile.
          try spool.place(of: name) == nil
        else { continue }
        owed += 1
        let text =
          "sidecars: \(spool.path)/progress/\(name) has no job any more, and something of it may lie "
          + "half-sent at \(sidecar.resume.count) places"
        // A worker looks twice, 10 s apart, and cleans up then.
        if hasWorker, now - sidecar.updatedAt < 60 * second {
          findings.note(text + "; the worker is about to clean up")
        } else if hasWorker {
          findings.trouble(text + "; see the worker's log for why it doesn't clean up")
        } else {
          findings.trouble(text + "; a running worker cleans it up")
        }
      }
    }
    if owed == 0 { findings.fine("sidecars: none owes a clean-up") }
  }
}
