internal import Glibc
internal import Jobs
internal import Loop
internal import Scheduling
internal import Spool
internal import System

/// Noticing what happens in the spool: events at once, a scan now and then for what they miss.
extension Worker {
  private enum Watched: Int { case pending, active, paused, failed, root }

  /// Adds the watches; the first scan comes after them, so that nothing falls in between.
  func watch() {
    if options.poll != nil { return }
    let arrivals = UInt32(IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_ATTRIB)
    let departures = UInt32(IN_MOVED_FROM | IN_DELETE)
    guard let watcher = Watcher(spool.calls, { [weak self] in self?.handle($0) }),
      watcher.add(
        spool.path + "/pending", arrivals | UInt32(IN_DELETE), as: Watched.pending.rawValue),
      watcher.add(spool.path + "/active", departures, as: Watched.active.rawValue),
      watcher.add(spool.path + "/paused", UInt32(IN_DELETE), as: Watched.paused.rawValue),
      watcher.add(spool.path + "/failed", UInt32(IN_DELETE), as: Watched.failed.rawValue),
      watcher.add(
        spool.path, UInt32(IN_CREATE | IN_MOVED_TO) | departures, as: Watched.root.rawValue)
    else {
      log.say(
        "warning", "no file events (inotify) to be had; the directories are read once a second")
      return
    }
    self.watcher = watcher
  }

  private func handle(_ events: [Watcher.Event]) {
    for event in events {
      if event.isOverflow {
        nextScan = 0
        startScan()
        continue
      }
      guard let name = event.name else { continue }
      // What it left half-sent is cleaned up soon, not when the next pass comes by.
      if event.isRemoval, running[name] == nil, JobName.isJob(name) { tidySoon(name) }
      switch Watched(rawValue: event.directory) {
      case .pending:
        // What was renamed here is whole; what is being written here rests for a moment.
        if event.isMoveIn { look(name) } else { settle(name) }
      case .active:
        if let job = running[name] { lookAfter(job) }
      case .paused, .failed: break
      case .root:
        if name == Name("hold") { checkHold() }
      case nil: break
      }
    }
    pumpSoon()
  }

  private func settle(_ name: Name) {
    guard JobName.isJob(name) else { return look(name) }
    settling.insert(name)
    guard settleTimer == nil else { return }
    settleTimer = Loop.shared.after(Clock.monotonic() + 20 * millisecond) {
      self.settleTimer = nil
      let names = self.settling
      self.settling.removeAll(keepingCapacity: true)
      for name in names { self.look(name) }
      self.pumpSoon()
    }
  }

  /// One name in pending/ that something happened to.
  func look(_ name: Name) {
    do throws(Errno) {
      if let found = try spool.found(name) {
        let now = Clock.wall()
        if !queue.found(name, mtime: found.facts.modified, due: found.due, now: now),
          queue.standing(name) == .parked
        {
          // Written to, or given other rights: what kept it may be gone.
          queue.park(name, until: now)
        }
      } else if let why = JobName.looksLikeAJob(name) {
        report(name, "ignored", "not a job's name: \(why); rename it")
      }
    } catch {
      if error != .missing { nextScan = 0 }
    }
  }

  // MARK: Scanning

  struct ScanState {
    var scan: Spool.Scan
    var startedAt: Int64
  }

  /// Starts a scan of pending/ unless one is under way.
  func startScan() {
    guard scan == nil, !ended.isOver else { return }
    do throws(Errno) {
      queue.refillBegins()
      scan = ScanState(scan: try spool.scanPending(), startedAt: Clock.monotonic())
      Loop.shared.after(0) { self.continueScan() }
    } catch {
      checkDirectories()
      if fatal == nil { nextScan = Clock.monotonic() + second }
    }
  }

  private func continueScan() {
    guard let state = scan else { return }
    let now = Clock.wall()
    do throws(Errno) {
      if let (jobs, misnamed) = try state.scan.next() {
        for found in jobs {
          queue.found(found.name, mtime: found.facts.modified, due: found.due, now: now)
        }
        for (name, why) in misnamed {
          report(name, "ignored", "not a job's name: \(why); rename it")
        }
        if queue.count > Self.queueLimit * 5 / 4 { queue.trim(to: Self.queueLimit) }
        // A small spool is read before the first claim, so that the order is right; a big one isn't
        // waited for.
        if !firstScanIsOver, Clock.monotonic() - state.startedAt > 100 * millisecond {
          firstScanIsOver = true
        }
        if firstScanIsOver { pumpSoon() }
        // Leaves the loop as much time as it takes.
        let pause = running.isEmpty ? 0 : Clock.monotonic() + millisecond
        Loop.shared.after(pause) { self.continueScan() }
        return
      }
    } catch {
      checkDirectories()
    }
    let took = Clock.monotonic() - state.startedAt
    scan = nil
    if !firstScanIsOver { readFirst() }
    firstScanIsOver = true
    if let poll = options.poll {
      // From its start, or each second look would come a tick too early and be left out.
      nextScan = state.startedAt + poll
    } else {
      nextScan =
        Clock.monotonic() + max(watcher == nil ? second : 10 * second, took * 100)
    }
    if queue.needsRefill { nextScan = Clock.monotonic() }
    pumpSoon()
  }

  /// Jobs kept in mind at most; the others are found again when these run low.
  static let queueLimit = 250_000

  // MARK: Hold

  /// Whether spool/hold came or went.
  func checkHold() {
    let held = spool.isHeld()
    guard held != isHeld else { return }
    isHeld = held
    if held {
      log.say(
        "hold", "spool/hold is there: nothing is claimed, and what runs goes back to pending/")
      for job in running.values { job.stop(.drained) }
    } else {
      log.say("release", "spool/hold is gone: everything goes on")
      nextScan = 0
      startScan()
    }
    pumpSoon()
    reportSoon()
  }
}
