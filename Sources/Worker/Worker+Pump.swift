internal import Configuration
internal import Destinations
internal import Glibc
internal import Jobs
internal import Loop
internal import Scheduling
internal import Spool
internal import System

/// Choosing the next jobs: as many as there is room for, in their order.
extension Worker {
  /// Claims as long as there is room, a few milliseconds at most in one go.
  func pump() {
    guard !isPumping else { return }
    isPumping = true
    defer { isPumping = false }
    let deadline = Clock.monotonic() + 5 * millisecond
    var now = Clock.wall()
    failExpired(now)
    claimQuietly(now)
    while mayClaim() {
      guard
        let pick = queue.next(
          now: now, open: { self.isOpen($0, now) }, window: window, random: &random)
      else { break }
      tryClaim(pick.name, now)
      now = Clock.wall()
      if Clock.monotonic() > deadline {
        pumpSoon()
        break
      }
    }
    giveUnused()
    schedulePump(now)
    if options.drain { endIfIdle() }
    readAheadSoon()
  }

  /// In the next turn of the loop.
  func pumpSoon() { pump(at: 0) }

  func pump(at time: Int64) {
    guard time < pumpAt else { return }
    if let pumpTimer { Loop.shared.cancel(pumpTimer) }
    pumpAt = time
    let delay = time == 0 ? 0 : max(0, time - Clock.wall())
    pumpTimer = Loop.shared.after(time == 0 ? 0 : Clock.monotonic() + delay) {
      self.pumpAt = .max
      self.pumpTimer = nil
      self.pump()
    }
  }

  /// When something may become due by itself.
  func schedulePump(_ now: Int64) {
    if isStopping || isHeld { return }
    var next = queue.nextExpiry ?? .max
    // While there is no room for another, whoever makes room asks again.
    if mayClaim() {
      if let due = queue.nextDue { next = min(next, due) }
      for circuit in circuits.values {
        if let wake = circuit.wake(after: now) { next = min(next, wake) }
      }
    }
    if next < .max {
      // The wall clock may jump: look again within a minute.
      pump(at: min(max(next, now + millisecond), now + 60 * second))
    }
  }

  func mayClaim() -> Bool {
    guard !isStopping, !isHeld, firstScanIsOver, limits.hasRoom, waitsForQuiet == nil else {
      return false
    }
    guard uncommitted < mostUncommitted, stuck == 0 else { return false }
    if running.values.contains(where: \.isAlone) { return false }
    return checkSpace()
  }

  /// Room and inodes, asked at most twenty times a second.
  func checkSpace() -> Bool {
    let now = Clock.monotonic()
    if now - lastSpaceCheck < 50 * millisecond { return hasRoom }
    lastSpaceCheck = now
    guard let (ok, space) = try? spool.hasRoom() else { return hasRoom }
    self.space = space
    if ok != hasRoom {
      hasRoom = ok
      log.say(
        ok ? "room" : "full",
        ok
          ? "there is room in the spool again; claiming goes on"
          : "the spool's filesystem is full (\(formatBytes(space.freeBytes)), "
            + "\(space.freeInodes) inodes free); nothing is claimed until there is room")
      reportSoon()
    }
    return ok
  }

  func isOpen(_ line: Int32, _ now: Int64) -> Bool {
    if let circuit = circuits[line], case .closedUntil = circuit.admits(now) { return false }
    if let turn = rates.nextTurn(lines.name(line)) {
      pump(at: now + max(0, turn - Clock.monotonic()))
      return false
    }
    return mayStart(line)
  }

  // MARK: Running alone

  /// What may have killed its worker runs alone: for a while nobody new starts, so that those that
  /// run come to an end; but a long transfer doesn't hold up everybody for it.
  func waitForQuiet(_ name: Name, _ now: Int64) {
    queue.wait(name, until: now + 60 * second)
    guard waitsForQuiet == nil else { return }
    waitsForQuiet = name
    Loop.shared.after(Clock.monotonic() + 10 * second) {
      if self.waitsForQuiet == name {
        self.waitsForQuiet = nil
        self.pumpSoon()
      }
    }
  }

  func claimQuietly(_ now: Int64) {
    guard let name = waitsForQuiet, running.isEmpty else { return }
    waitsForQuiet = nil
    if mayClaim(), queue.contains(name) { tryClaim(name, now) }
  }

  func failExpired(_ now: Int64) {
    if isStopping || isHeld { return }
    for name in queue.expired(now) { tryClaim(name, now) }
  }

  // MARK: Reading ahead

  /// Reads a few waiting jobs for their priorities; false when there are none to be read.
  func learnSome() -> Bool {
    let names = queue.readAhead(16, now: Clock.wall())
    for name in names {
      if let job = try? spool.peek(name) {
        queue.learned(
          name,
          Traits(
            priority: job.priority, destination: lines.number(resolver.key(job)),
            expires: job.expires))
      }
    }
    return !names.isEmpty
  }

  /// Before the first claim: so many that a small spool runs in its order from the start, and a big
  /// one isn't kept waiting.
  func readFirst() {
    let deadline = Clock.monotonic() + 50 * millisecond
    while Clock.monotonic() < deadline, learnSome() {}
  }

  /// Learns the priorities of the backlog in the background, a twentieth of the time at most while jobs
  /// run: the order holds among those that were read.
  func readAheadSoon() {
    guard !isReadingAhead, !isStopping, !isHeld, queue.count(.unread) > 0 else { return }
    isReadingAhead = true
    Loop.shared.after(0) { self.readAhead() }
  }

  func readAhead() {
    let start = Clock.monotonic()
    guard !isStopping, !isHeld, learnSome() else {
      isReadingAhead = false
      return
    }
    let took = Clock.monotonic() - start
    Loop.shared.after(start + took * (running.isEmpty ? 2 : 20)) { self.readAhead() }
  }
}
