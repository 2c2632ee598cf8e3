internal import Configuration
internal import Destinations
internal import Glibc
internal import Jobs
internal import Loop
internal import Scheduling
internal import Spool
internal import System

/// Claiming one job, and judging by its file and sidecar whether it runs now.
extension Worker {
  /// Why a job isn't run now, as decided when it was read.
  enum Verdict {
    case run(any Destination, Int32)
    case putBack
    case wait(Int64)
    /// Nothing will change by itself; the sidecar says why.
    case park(Int64, Sidecar.Failure?, Sidecar.Wait?)
    case fail(SendError)
    case needsQuiet
    /// Another job does the same work.
    case waitFor(Int64, Sidecar.Wait, isRunning: Bool)
    /// Another job did the same work.
    case duplicate(String)
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
        // The sidecar that a recovery wrote doesn't know them.
        (word.title, word.group, word.extra) = (job.title, job.group, job.extra)
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

  func begin(_ claim: Claim, _ destination: any Destination, _ line: Int32, _ now: Int64) {
    var isProbe = false
    if var circuit = circuits[line], circuit.isOpen {
      circuit.probeStarted(now)
      circuits[line] = circuit
      isProbe = true
    }
    queue.serve(line)
    rates.reserve(lines.name(line))
    let job = RunningJob(
      claim, to: destination, line: line, isAlone: (claim.sidecar?.crashes ?? 0) > 0,
      isProbe: isProbe, worker: worker, boot: boot, now: now)
    start(job)
  }

  /// Whether and where a job runs now, by what it and its sidecar say.
  func judge(_ job: Job, _ name: Name, _ sidecar: Sidecar?, _ facts: Facts, _ now: Int64)
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
    if let key = job.dedupe, let verdict = judgeKey(key, name, facts, now) { return verdict }
    return .run(destination, line)
  }

  func act(
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
    case .waitFor(let until, let wait, let isRunning):
      // A worker that drains stays for what is being decided now, and not for what may never be.
      if isRunning { queue.wait(name, until: until) } else { queue.park(name, until: until) }
      if let facts { tellWaiting(name, job, facts, known, nil, wait, now) }
    case .duplicate(let first):
      guard let facts else { return queue.putBack(name) }
      moveToDone(name, facts, duplicateOf: first, job, known, now)
    case .fail(let trouble):
      guard let facts else { return queue.putBack(name) }
      moveToFailed(name, facts, failure(trouble, retryAt: nil), job, known, now)
    }
  }

  func claimFailed(_ name: Name, _ error: Errno, _ now: Int64) {
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
}

extension Int64 {
  func addingClamped(_ other: Int64) -> Int64 {
    let (sum, overflow) = addingReportingOverflow(other)
    return overflow ? .max : sum
  }
}
