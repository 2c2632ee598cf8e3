internal import Configuration
internal import Destinations
internal import Glibc
internal import Jobs
internal import Loop
internal import Scheduling
internal import Spool
internal import System

/// What is done every second or less often.
extension Worker {
  /// One timer for all of it: a second while jobs run, slower when idle, so that idling costs
  /// nothing.
  func scheduleTick() {
    let isBusy = !running.isEmpty || uncommitted > 0 || options.drain || watcher == nil
    let delay = isBusy ? min(second, options.poll ?? second) : 3 * second
    ticksSlowly = delay > second
    tickTimer = Loop.shared.after(Clock.monotonic() + delay) { self.tick() }
  }

  private func tick() {
    if ended.isOver { return }
    let now = Clock.monotonic()
    for job in Array(running.values) { tick(job) }
    checkHold()
    recoverLost()
    if now >= nextScan {
      checkDirectories()
      startScan()
      lookForOthers()
    }
    if queue.needsRefill && scan == nil { startScan() }
    if now >= nextJanitor { startJanitor() }
    removeOldKeys()
    if !orphans.isEmpty { lookAtOrphansAgain() }
    if reportIsDue || now - lastReport > 10 * second { report() }
    if !hasRoom { pumpSoon() }
    if options.drain || isStopping { endIfIdle() }
    scheduleTick()
  }

  /// A running job's file and sidecar.
  private func tick(_ job: RunningJob) {
    lookAfter(job)
    let now = Clock.wall()
    guard job.stop == nil, job.telling == nil, now - job.startedAt >= second else { return }
    beginTelling(job, durable: job.resumeChanged && spool.durability == .full)
  }

  /// Writes what the sidecar of a running job says now.
  private func beginTelling(_ job: RunningJob, durable: Bool) {
    let word = job.currentWord(now: Clock.wall())
    job.isTold = true
    let (spool, claim) = (spool, job.claim)
    job.telling = Loop.shared.start {
      // Best effort: a full disk costs an update, not the job.
      await Blocking.run {
        _ = try? spool.say(word, of: claim, durable: durable)
      }
      job.telling = nil
    }
  }

  /// The same, and waits until it is there: for what must be known before it happens.
  func tell(_ job: RunningJob) async {
    while let telling = job.telling { await telling.value }
    beginTelling(job, durable: false)
    await job.telling?.value
  }

  // MARK: Recovery

  /// Jobs in active/ whose worker is gone.
  func recoverLost() {
    let names: [Name]
    do throws(Errno) {
      names = try spool.jobs(in: .active)
    } catch {
      if error == .missing { checkDirectories() }
      if fatal == nil {
        report(Name("active"), "warning", "active/ can't be looked through: \(error)")
      }
      return
    }
    for name in names where running[name] == nil {
      do throws(Errno) {
        let recovery = try spool.recover(
          name, now: Clock.wall(), boot: boot, limit: configuration.crashes
        ) { crashes in
          Backoff.crash.delay(failures: crashes, random: &self.random)
        }
        let stem = JobName.stem(name)
        switch recovery {
        case .alive: break
        case .finished(let place):
          log.say("recovered", job: stem, "it had ended; moved to \(place.rawValue)/")
        case .requeued(let crashes):
          log.say(
            "recovered", job: stem,
            crashes == 0 ? "back in pending/" : "its worker died; back in pending/",
            [("crashes", .number(Int64(crashes)))])
          if crashes > 0 { noteLeftovers(name) }
          look(name)
          pumpSoon()
        case .gaveUp(let crashes):
          failedCount += 1
          log.say("failed", job: stem, "its worker died \(crashes) times while running it")
        case .strange(let what):
          report(name, "ignored", "\(what) in active/ is no running job; remove it")
        }
      } catch {
        // One that can't be judged now holds up no other.
        if error == .missing { checkDirectories() }
        if !error.isFull && fatal == nil {
          report(name, "warning", "it can't be recovered now: \(error); tried again")
        }
      }
    }
  }

  /// What the dead worker may have left at the destination goes into the sidecar, for the case that the
  /// job is removed before it runs again. A job of many files has told of those that take long.
  private func noteLeftovers(_ name: Name) {
    guard let job = (try? spool.peek(name)) ?? nil, job.files.count <= 100,
      let found = (try? spool.found(name)) ?? nil,
      let known = (try? spool.sidecar(name)) ?? nil, known.state == .pending,
      let destination = try? resolver.resolve(job)
    else { return }
    _ = try? spool.tellWaiting(name, found.facts) { id in
      var word = known
      guard known.id == id else { return word }
      for (i, file) in job.files.enumerated() {
        let isKnown =
          word.resume.contains { $0.file == i }
          || (i < word.files.count && word.files[i].state == .done)
        guard !isKnown,
          var resume = destination.leftover(
            file.remoteName, ticket: "\(id).\(known.run).\(i)", index: i)
        else { continue }
        resume.data.append(.init(name: RunningJob.destinationKey, value: destination.key))
        word.resume.append(resume)
      }
      word.resume.sort { $0.file < $1.file }
      return word
    }
  }

  /// A directory that was removed or replaced ends the worker: its descriptor shows another world.
  func checkDirectories() {
    let replaced = spool.replacedDirectories()
    guard let first = replaced.first else { return }
    fail(
      "\(spool.path)/\(first) was removed or replaced while the worker ran; put it back and start the "
        + "worker again")
  }

  func lookForOthers() {
    do throws(Errno) {
      for uuid in try spool.removeDeadWorkers(now: Clock.wall()) {
        log.say("cleaned", "what the dead worker \(uuid) left behind")
      }
      window = try spool.otherWorkers().alive.isEmpty ? 1 : 64
    } catch {
      report(Name("workers"), "warning", "workers/ can't be looked through: \(error)")
    }
  }

  // MARK: Drain

  /// With --drain: whether nothing is left that could run now or at a recorded retry.
  func checkDrained() {
    guard firstScanIsOver, scan == nil else { return }
    let mayRun =
      queue.count(.unread) + queue.count(.ready) + queue.count(.out) + queue.count(.waiting)
    guard mayRun == 0, settling.isEmpty else {
      drainChecks = 0
      return
    }
    guard (try? spool.jobs(in: .active, limit: 1).isEmpty) == true else { return }
    // A last scan: what came meanwhile is still done.
    if drainChecks == 0 {
      drainChecks = 1
      nextScan = 0
      startScan()
      return
    }
    listLeft()
    ended.end(failedCount > 0 ? 1 : 0)
  }

  private func listLeft() {
    let left = queue.names(.parked) + queue.names(.scheduled)
    for name in left.sorted().prefix(20) {
      log.say("left", job: JobName.stem(name), reported[name] ?? "it waits in pending/")
    }
    if left.count > 20 { log.say("left", "and \(left.count - 20) more in pending/") }
  }
}
