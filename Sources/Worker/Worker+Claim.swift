internal import Configuration
internal import Destinations
internal import Glibc
internal import Jobs
internal import Loop
internal import Scheduling
internal import Spool
internal import System

/// Choosing and claiming the next jobs.
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
    schedulePump(now)
    if options.drain { endIfIdle() }
    readAheadSoon()
  }

  /// In the next turn of the loop.
  func pumpSoon() { pump(at: 0) }

  private func pump(at time: Int64) {
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
  private func schedulePump(_ now: Int64) {
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

  private func mayClaim() -> Bool {
    guard !isStopping, !isHeld, firstScanIsOver, limits.hasRoom, waitsForQuiet == nil else {
      return false
    }
    guard uncommitted < mostUncommitted, stuck == 0 else { return false }
    if running.values.contains(where: \.isAlone) { return false }
    return checkSpace()
  }

  /// Room and inodes, asked at most twenty times a second.
  private func checkSpace() -> Bool {
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

  private func isOpen(_ line: Int32, _ now: Int64) -> Bool {
    guard limits.mayStart(line) else { return false }
    guard let circuit = circuits[line] else { return true }
    switch circuit.admits(now) {
    case .free, .probe: return true
    case .closedUntil: return false
    }
  }

  /// Why a job isn't run now, as decided when it was read.
  private enum Verdict {
    case run(any Destination, Int32)
    case putBack
    case wait(Int64)
    /// Nothing will change by itself; the sidecar says why.
    case park(Int64, Sidecar.Failure?, Sidecar.Wait?)
    case fail(SendError)
    case needsQuiet
  }

  func tryClaim(_ name: Name, _ now: Int64) {
    var verdict = Verdict.putBack
    var judged: Facts?
    var known: Sidecar?
    let claiming: Claiming
    do throws(Errno) {
      claiming = try spool.claim(name, now: now) { job, sidecar, facts in
        judged = facts
        known = sidecar
        verdict = self.judge(job, name, sidecar, facts, now)
        if case .run = verdict { return true }
        return false
      } start: { job, sidecar, id, facts in
        let queuedAt = min(facts.changed, now)
        var word =
          sidecar?.reborn(queuedAt: queuedAt, now: now)
          ?? RunningJob.firstWord(job, id: id, facts: facts, name: name, now: now)
        if word.mayRefund,
          self.wasAway(self.lines.number(self.resolver.key(job)), since: word.updatedAt)
        {
          word.failures = max(0, word.failures - 1)
          word.mayRefund = false
        }
        word.begin(worker: self.worker, boot: self.boot, now: now)
        return word
      }
    } catch {
      claimFailed(name, error, now)
      return
    }
    switch claiming {
    case .claimed(let claim):
      quiet[name] = nil
      reported[name] = nil
      lockedTries[name] = nil
      guard case .run(let destination, let line) = verdict else { return }
      queue.remove(name)
      begin(claim, destination, line, now)
    case .gone:
      queue.remove(name)
      lockedTries[name] = nil
    case .notRegular(let kind):
      report(name, "ignored", "\(kind) in pending/ is no job; remove it")
      queue.park(name, until: now + 60 * second)
    case .unreadable(let error):
      report(
        name, "unreadable",
        "the worker (user \(geteuid())) may not read it: \(error); change its mode or owner")
      queue.park(name, until: now + 60 * second)
    case .locked:
      // Another worker judges it, or this one has not let go of it yet; if it lasts, somebody else
      // holds it.
      lockedTries[name, default: 0] += 1
      if lockedTries[name, default: 0] <= 8 {
        queue.wait(name, until: now + 250 * millisecond)
      } else {
        queue.park(name, until: now + second)
      }
    case .notDue(let time):
      if let found = try? spool.found(name) {
        queue.found(name, mtime: found.facts.modified, due: found.due, now: now)
      }
      queue.wait(name, until: time)
    case .nameTaken:
      queue.park(name, until: now + 2 * second)
    case .changed: queue.park(name, until: now + second)
    case .incomplete(let what, let hasWriter, let facts):
      incomplete(name, what, hasWriter, facts, now)
    case .refused(let refusal, let facts): refuse(name, refusal, facts, now)
    case .later(let job, _):
      act(on: verdict, name, job, judged, known, now)
    }
  }

  private func begin(_ claim: Claim, _ destination: any Destination, _ line: Int32, _ now: Int64) {
    var isProbe = false
    if var circuit = circuits[line], circuit.isOpen {
      circuit.probeStarted(now)
      circuits[line] = circuit
      isProbe = true
    }
    let job = RunningJob(
      claim, to: destination, line: line, isAlone: (claim.sidecar?.crashes ?? 0) > 0,
      isProbe: isProbe, worker: worker, boot: boot, now: now)
    start(job)
  }

  /// Whether and where a job runs now, by what it and its sidecar say.
  private func judge(_ job: Job, _ name: Name, _ sidecar: Sidecar?, _ facts: Facts, _ now: Int64)
    -> Verdict
  {
    let line = lines.number(resolver.key(job))
    let queuedAt = sidecar.map { $0.state.isFinal ? facts.changed : $0.queuedAt } ?? facts.changed
    let giveUpAt = queuedAt.addingClamped(configuration.giveUpAfter)
    let mustEnd = [job.expires, giveUpAt > now ? giveUpAt : nil].compactMap { $0 }.min()
    queue.learned(
      name, Traits(priority: job.priority, destination: line, expires: mustEnd))
    if let expires = job.expires, expires <= now {
      return .fail(
        .init(
          .jobForGood, "expired", "it expired at \(Times.format(expires)) before it was sent",
          advice: "submit it again with a later \"expires\" if it is still wanted"))
    }
    // A wait is void as soon as the file's mtime is another: `touch` lifts it.
    let wait = sidecar.flatMap { $0.state.isFinal ? nil : $0.wait }
    if let wait, wait.mtime == facts.modified, let until = wait.until, until > now,
      wait.reason != WaitReason.destination
    {
      return wait.reason == WaitReason.notBefore ? .park(until, nil, nil) : .wait(until)
    }
    let isTouched = wait.map { $0.mtime != facts.modified } ?? false
    if let notBefore = job.notBefore, notBefore > now, !isTouched, sidecar?.startedAt == nil {
      return .park(
        notBefore, nil,
        .init(until: notBefore, mtime: facts.modified, reason: WaitReason.notBefore))
    }
    let destination: any Destination
    do throws(Resolver.Failure) {
      destination = try resolver.resolve(job)
    } catch {
      switch error {
      case .unknown(let name):
        return .park(
          now + 60 * second,
          .init(
            kind: "unknownDestination", message: "the configuration has no destination \"\(name)\"",
            advice: "add it there and send the worker SIGHUP, or correct \"to\""),
          .init(until: nil, mtime: facts.modified, reason: WaitReason.unknownDestination))
      case .refused(let trouble): return .fail(trouble)
      }
    }
    if giveUpAt <= now, let opening = circuits[line]?.opening {
      return .fail(
        .init(
          .jobForGood, "givenUp",
          "given up after \(formatSpan(configuration.giveUpAfter)): \(lines.name(line)) has been in "
            + "trouble (\(opening.trouble.rawValue)) since \(Times.format(opening.since))",
          advice: "when it works again, move the job back to pending/"))
    }
    if !isOpen(line, now)
      || queue.yields(name, now: now, open: { self.isOpen($0, now) }, window: window)
    {
      return .putBack
    }
    if let sidecar, sidecar.crashes > 0, !sidecar.state.isFinal, !running.isEmpty {
      return .needsQuiet
    }
    return .run(destination, line)
  }

  private func act(
    on verdict: Verdict, _ name: Name, _ job: Job, _ facts: Facts?, _ known: Sidecar?,
    _ now: Int64
  ) {
    switch verdict {
    case .run, .putBack: queue.putBack(name)
    case .wait(let until): queue.wait(name, until: until)
    case .needsQuiet:
      waitForQuiet(name, now)
    case .park(let until, let failure, let wait):
      queue.park(name, until: until)
      guard let facts, failure != nil || wait != nil else { return }
      tellWaiting(name, job, facts, known, failure, wait, now)
    case .fail(let trouble):
      guard let facts else { return queue.putBack(name) }
      moveToFailed(name, facts, failure(trouble, retryAt: nil), job, known, now)
    }
  }

  /// A waiting job's sidecar, written once for each reason.
  private func tellWaiting(
    _ name: Name, _ job: Job?, _ facts: Facts, _ known: Sidecar?, _ failure: Sidecar.Failure?,
    _ wait: Sidecar.Wait?, _ now: Int64
  ) {
    if let known, known.wait == wait, known.error?.kind == failure?.kind, !known.state.isFinal {
      return
    }
    if let failure {
      report(name, "waiting", "\(failure.message); \(failure.advice ?? "")")
    }
    do throws(Errno) {
      try spool.tellWaiting(name, facts) { id in
        var word =
          known?.reborn(queuedAt: facts.changed, now: now)
          ?? Sidecar(
            state: .pending, job: JobName.stem(name), id: id, queuedAt: min(facts.changed, now),
            updatedAt: now)
        word.state = .pending
        word.phase = nil
        word.title = job?.title ?? word.title
        word.extra = job?.extra ?? word.extra
        word.error = failure
        word.wait = wait
        word.updatedAt = now
        return word
      }
    } catch {
      log.say("warning", job: JobName.stem(name), "its sidecar can't be written: \(error)")
    }
  }

  private func moveToFailed(
    _ name: Name, _ facts: Facts, _ failure: Sidecar.Failure, _ job: Job?, _ known: Sidecar?,
    _ now: Int64
  ) {
    do throws(Errno) {
      let isMoved = try spool.refuse(name, judged: facts) { id in
        var word =
          known?.reborn(queuedAt: facts.changed, now: now)
          ?? Sidecar(
            state: .failed, job: JobName.stem(name), id: id, queuedAt: min(facts.changed, now),
            updatedAt: now)
        word.state = .failed
        word.phase = nil
        word.title = job?.title ?? word.title
        word.extra = job?.extra ?? word.extra
        word.error = failure
        word.wait = nil
        word.finishedAt = now
        word.updatedAt = now
        return word
      }
      if isMoved {
        queue.remove(name)
        quiet[name] = nil
        failedCount += 1
        log.say(
          "failed", job: JobName.stem(name), failure.message, [("kind", .text(failure.kind))])
      } else {
        queue.park(name, until: now + second)
      }
    } catch {
      claimFailed(name, error, now)
    }
  }

  // MARK: Files that are no jobs

  /// Not JSON: somebody may still be writing it. Given up when nobody is and it has been quiet for a
  /// minute.
  private func incomplete(
    _ name: Name, _ what: Malformed, _ hasWriter: Bool?, _ facts: Facts, _ now: Int64
  ) {
    let monotonic = Clock.monotonic()
    var since = monotonic
    if let seen = quiet[name], seen.size == facts.size, seen.modified == facts.modified {
      since = seen.since
    } else {
      if quiet.count > 10_000 { quiet.removeAll() }
      quiet[name] = (facts.size, facts.modified, monotonic)
    }
    let isQuiet = now - facts.modified >= Self.quietTime || monotonic - since >= Self.quietTime
    guard hasWriter != true, isQuiet else {
      queue.park(name, until: now + second)
      return
    }
    let failure = Sidecar.Failure(
      kind: "malformed", message: "not a job: \(Refusal.malformed(what))",
      advice: "correct the file and move it back to pending/")
    moveToFailed(name, facts, failure, nil, nil, now)
  }
  private static let quietTime = 60 * second

  private func refuse(_ name: Name, _ refusal: Refusal, _ facts: Facts, _ now: Int64) {
    if case .newerFormat = refusal {
      queue.park(name, until: now + 60 * second)
      tellWaiting(
        name, nil, facts, try? spool.sidecar(name),
        .init(
          kind: "newerFormat", message: refusal.description, advice: "update the worker"),
        .init(until: nil, mtime: facts.modified, reason: WaitReason.newerFormat), now)
      return
    }
    let failure = Sidecar.Failure(
      kind: "invalid", message: "not a job: \(refusal)",
      advice: "correct the file and move it back to pending/")
    moveToFailed(name, facts, failure, nil, nil, now)
  }

  /// Says something of a file once, until it changes.
  func report(_ name: Name, _ event: String, _ text: String) {
    if reported[name] == text { return }
    if reported.count > 10_000 { reported.removeAll() }
    reported[name] = text
    log.say(event, job: JobName.stem(name), text)
  }

  private func claimFailed(_ name: Name, _ error: Errno, _ now: Int64) {
    queue.park(name, until: now + second)
    if error.isFull {
      hasRoom = false
      lastSpaceCheck = Clock.monotonic()
    }
    if error == .missing || error == .readOnly { checkDirectories() }
    if fatal == nil {
      report(name, "warning", "it can't be claimed now: \(error); tried again")
    }
  }

  // MARK: Running alone

  /// What may have killed its worker runs alone: for a while nobody new starts, so that those that
  /// run come to an end; but a long transfer doesn't hold up everybody for it.
  private func waitForQuiet(_ name: Name, _ now: Int64) {
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

  private func claimQuietly(_ now: Int64) {
    guard let name = waitsForQuiet, running.isEmpty else { return }
    waitsForQuiet = nil
    if mayClaim(), queue.contains(name) { tryClaim(name, now) }
  }

  private func failExpired(_ now: Int64) {
    if isStopping || isHeld { return }
    for name in queue.expired(now) { tryClaim(name, now) }
  }

  // MARK: Reading ahead

  /// Learns the priorities of the backlog in the background, a tenth of the time at most while jobs
  /// run: the order holds among those that were read.
  private func readAheadSoon() {
    guard !isReadingAhead, !isStopping, !isHeld, queue.count(.unread) > 0 else { return }
    isReadingAhead = true
    Loop.shared.after(0) { self.readAhead() }
  }

  private func readAhead() {
    let start = Clock.monotonic()
    let now = Clock.wall()
    let names = isStopping || isHeld ? [] : queue.readAhead(16, now: now)
    for name in names {
      if let job = try? spool.peek(name) {
        queue.learned(
          name,
          Traits(
            priority: job.priority, destination: lines.number(resolver.key(job)),
            expires: job.expires))
      }
    }
    guard !names.isEmpty else {
      isReadingAhead = false
      return
    }
    let took = Clock.monotonic() - start
    Loop.shared.after(start + took * (running.isEmpty ? 2 : 10)) { self.readAhead() }
  }
}

extension Int64 {
  func addingClamped(_ other: Int64) -> Int64 {
    let (sum, overflow) = addingReportingOverflow(other)
    return overflow ? .max : sum
  }
}
