internal import Configuration
internal import Destinations
internal import Jobs
internal import Loop
internal import Scheduling
internal import Spool
internal import System

/// What becomes of a job when its task is over.
extension Worker {
  func finish(_ job: RunningJob, _ lanes: Lanes) {
    let now = Clock.wall()
    let troubles = lanes.troubles.map(\.trouble)
    // A stop that came too late changes nothing: every byte was acknowledged.
    let isThrough = job.stop == .drained && job.sidecar.files.allSatisfy { $0.state == .done }
    if let stop = job.stop, !isThrough {
      probeIsGone(job, now)
      finish(job, stopped: stop, now)
      return
    }
    let destinations = troubles.first(where: \.isDestinations)
    if let destinations, !isItsOwn(destinations, job, now) {
      return bounce(job, destinations, now)
    }
    if job.tookAny || troubles.isEmpty {
      // The destination took at least one file; whatever else happened, it answers.
      succeeded(job, now)
    } else {
      probeIsGone(job, now)
    }
    let forGood = troubles.first { $0.blame == .jobForGood }
    let forNow = destinations ?? troubles.first { $0.blame != .jobForGood }
    if let forGood, forNow == nil || job.job.onError == .stop {
      return fail(job, forGood, count: troubles.count, now)
    }
    if let forNow { return retry(job, forNow, now) }
    let word = job.word(.done, now: now)
    // The wall clock may have been set back meanwhile.
    let span = max(0, now - (word.startedAt ?? now))
    end(job, word, to: .done) {
      self.doneCount += 1
      self.log.say(
        "done", job: word.job,
        "\(word.files.count == 1 ? "1 file" : "\(word.files.count) files"), "
          + "\(formatBytes(word.bytes)) in \(formatSpan(span))",
        [("bytes", .number(word.bytes)), ("milliseconds", .number(span / millisecond))])
    }
  }

  // MARK: Circuits

  private func succeeded(_ job: RunningJob, _ now: Int64) {
    lastSuccess[job.line] = now
    bounced[job.name] = nil
    guard var circuit = circuits[job.line] else { return }
    let wasOpen = circuit.isOpen
    circuit.succeeded(startedAt: job.startedAt, now: now)
    circuits[job.line] = circuit
    if wasOpen && !circuit.isOpen {
      log.say("destination", "\(lines.name(job.line)) answers again; its jobs go on")
      reportSoon()
    }
  }

  /// Whether a refusal that looks like the destination's trouble is this job's own: others got
  /// through between its tries, again and again. (One path that wants a password, or one that a
  /// proxy has no server for, must not stop all other jobs of its origin.)
  private func isItsOwn(_ trouble: SendError, _ job: RunningJob, _ now: Int64) -> Bool {
    let patience: Int
    switch trouble.blame {
    case .destination(.signIn): patience = 2
    case .destination(.throttled) where trouble.status != 429 && trouble.retryAt == nil:
      patience = 3
    default: return false
    }
    var record = bounced[job.name] ?? (job.claim.id, now, 0)
    if record.id != job.claim.id { record = (job.claim.id, now, 0) }
    if let success = lastSuccess[job.line], success > record.at { record.strikes += 1 }
    record.at = now
    if bounced.count > 10_000 { bounced.removeAll() }
    bounced[job.name] = record
    return record.strikes >= patience
  }

  private func probeIsGone(_ job: RunningJob, _ now: Int64) {
    guard job.isProbe, var circuit = circuits[job.line] else { return }
    circuit.probeGone(startedAt: job.startedAt, now: now)
    circuits[job.line] = circuit
  }

  /// The destination's trouble: the job goes back untouched, and its circuit opens.
  private func bounce(_ job: RunningJob, _ trouble: SendError, _ now: Int64) {
    guard case .destination(let kind) = trouble.blame else { return }
    var circuit = circuits[job.line] ?? Circuit()
    let wasOpen = circuit.isOpen
    circuit.failed(
      Scheduling.Trouble(kind), retryAfter: trouble.retryAt, startedAt: job.startedAt, now: now,
      random: &random)
    circuits[job.line] = circuit
    if kind == .unreachable { wentAway[job.line] = now }
    if !wasOpen && circuit.isOpen {
      log.say("destination", "\(lines.name(job.line)): \(trouble.message); its jobs wait")
    }
    reportSoon()
    if isTooOld(job.sidecar, now) {
      return fail(job, trouble.givingUp(configuration.giveUpAfter), count: 1, now)
    }
    let until = circuit.opening?.until ?? now
    let word = job.word(.pending, now: now) { word in
      // A cut that turns out to have been the beginning of an outage was not the job's fault.
      if word.mayRefund { word.failures = max(0, word.failures - 1) }
      word.mayRefund = false
      word.attempt = word.failures
      word.error = self.failure(trouble, retryAt: until)
      word.wait = .init(
        until: until, mtime: job.claim.facts.modified, reason: WaitReason.destination)
    }
    // A moment behind the others: it isn't always the same one that probes.
    end(job, word, to: .pending) {
      self.isBack(job, Clock.wall(), until: until + 50 * millisecond)
    }
  }

  private func isTooOld(_ sidecar: Sidecar, _ now: Int64) -> Bool {
    now - sidecar.queuedAt > configuration.giveUpAfter
  }

  func failure(_ trouble: SendError, retryAt: Int64?) -> Sidecar.Failure {
    let redactor = configuration.redactor
    return Sidecar.Failure(
      kind: trouble.kind, status: trouble.status, message: redactor.redact(trouble.message),
      advice: trouble.advice, retryAt: retryAt)
  }

  /// Whether a destination was found unreachable about the time of a cut or later.
  func wasAway(_ line: Int32, since cut: Int64) -> Bool {
    wentAway[line].map { $0 >= cut - 10 * second } ?? false
  }

  // MARK: The job's own trouble

  private func retry(_ job: RunningJob, _ trouble: SendError, _ now: Int64) {
    var failures = job.sidecar.failures
    // Any byte of progress that can be resumed starts the count again.
    if job.sidecar.safeBytes > job.safeAtStart { failures = 0 }
    if trouble.blame == .cut, wasAway(job.line, since: now) {
      // It died with its destination: not this job's fault.
      failures = max(0, failures - (job.sidecar.mayRefund ? 1 : 0))
    } else {
      failures += 1
    }
    let most = job.job.attempts ?? configuration.attempts
    if failures >= most {
      let last = trouble.saying(
        "tried \(failures) times, the last time: \(trouble.message)",
        advice: "when the cause is gone, move the job back to pending/")
      return fail(job, last, count: 1, now, failures: failures)
    }
    if isTooOld(job.sidecar, now) {
      return fail(
        job, trouble.givingUp(configuration.giveUpAfter), count: 1, now, failures: failures)
    }
    var until = now + Backoff.attempt.delay(failures: failures, random: &random)
    if let asked = trouble.retryAt { until = max(until, asked) }
    let word = job.word(.pending, now: now) { word in
      word.failures = failures
      word.attempt = failures
      word.mayRefund = trouble.blame == .cut
      word.crashes = 0
      word.error = self.failure(trouble, retryAt: until)
      word.wait = .init(
        until: until, mtime: job.claim.facts.modified, reason: WaitReason.backOff)
    }
    let text = trouble.message
    end(job, word, to: .pending) {
      self.log.say(
        "retry", job: word.job,
        "\(text); attempt \(failures + 1) of \(most) in \(formatSpan(until - now))",
        [("attempt", .number(Int64(failures)))])
      self.isBack(job, now, until: until)
    }
  }

  private func fail(
    _ job: RunningJob, _ trouble: SendError, count: Int, _ now: Int64,
    failures: Int? = nil
  ) {
    let word = job.word(.failed, now: now) { word in
      if let failures { (word.failures, word.attempt) = (failures, failures) }
      word.wait = nil
      word.error = self.failure(trouble, retryAt: nil)
      if count > 1 {
        word.error?.message += " (and \(count - 1) more of its files failed; see \"files\")"
      }
    }
    let text = trouble.message
    end(job, word, to: .failed) {
      self.failedCount += 1
      self.log.say("failed", job: word.job, text, [("kind", .text(trouble.kind))])
    }
  }

  // MARK: Committing

  /// Takes the job out of the running ones and commits its end; `then` runs when that is done.
  func end(
    _ job: RunningJob, _ word: Sidecar, to place: Place, then: @escaping @OnLoop () -> Void
  ) {
    release(job)
    uncommitted += 1
    let ending = Ending(job.claim, word, to: place, isFirstWord: !job.isTold)
    commit(ending, job, then: then, isRepeat: false)
  }

  /// Frees the job's slot; the next one may start at once.
  private func release(_ job: RunningJob) {
    if running.removeValue(forKey: job.name) != nil { giveSlot(job.line) }
  }

  private func commit(
    _ ending: Ending, _ job: RunningJob, then: @escaping @OnLoop () -> Void, isRepeat: Bool
  ) {
    let finished: @OnLoop @Sendable (Ended) -> Void = { result in
      if case .failed = result {} else if isRepeat { self.unstick() }
      switch result {
      case .committed:
        self.uncommitted -= 1
        then()
        self.keyIsFree(job, isDone: ending.place == .done)
        self.pruneAtOnce(job.name, ending.place)
        self.nameIsFree(job.name)
        self.pumpSoon()
        self.endIfIdle()
      case .moved:
        self.uncommitted -= 1
        job.isTold = true
        self.settleMoved(job, ending.sidecar)
        self.endIfIdle()
      case .failed(let error):
        // Its lock and its outcome are kept; it is never run again or failed for this.
        if !isRepeat { self.stick(ending.sidecar.job, error) }
        if error == .missing || error == .readOnly { self.checkDirectories() }
        Loop.shared.after(Clock.monotonic() + second) {
          self.commit(ending, job, then: then, isRepeat: true)
        }
      }
    }
    if let committer {
      committer.commit(ending, finished)
    } else {
      finished(spool.commit([ending], wholeFilesystem: false)[0])
    }
  }

  /// An end that can't be written stops the claiming, and is told once for all that follow.
  private func stick(_ job: String, _ error: Errno) {
    stuck += 1
    guard stuck == 1 else { return }
    log.say(
      "waiting", job: job,
      "the ends of jobs can't be written to \(spool.path): \(error); nothing is claimed, and they "
        + "are tried again until it works")
  }

  private func unstick() {
    stuck -= 1
    if stuck == 0 { log.say("room", "the ends of all jobs are written; claiming goes on") }
  }

  /// A job that went back to pending/ by this worker's own hand.
  private func isBack(_ job: RunningJob, _ now: Int64, until: Int64?) {
    let (name, facts) = (job.name, job.claim.facts)
    guard !isStopping, let found = (try? spool.found(name)) ?? nil,
      found.facts.isSameFile(as: facts)
    else { return }
    queue.found(name, mtime: found.facts.modified, due: found.due, now: now)
    queue.learned(
      name,
      Traits(priority: job.job.priority, destination: job.line, expires: job.job.expires))
    // Touched in the moment since the rename: nothing is waited for.
    if let until, found.facts.modified == facts.modified { queue.wait(name, until: until) }
  }

  /// A retention of "0": gone as soon as nobody holds it any more.
  private func pruneAtOnce(_ name: Name, _ place: Place) {
    guard
      place == .done && configuration.retention.done == 0
        || place == .failed && configuration.retention.failed == 0
    else { return }
    Loop.shared.after(Clock.monotonic() + 100 * millisecond) {
      _ = try? self.spool.prune(name, in: place, endedBefore: .max)
    }
  }

  /// Whoever waits for this name may go now.
  private func nameIsFree(_ name: Name) {
    if queue.standing(name) == .parked { queue.wait(name, until: Clock.wall()) }
  }
}

/// The words for `wait.reason` in sidecars.
enum WaitReason {
  static let backOff = "back-off"
  static let crash = "crash"
  static let destination = "destination"
  static let notBefore = "notBefore"
  static let unknownDestination = "unknown destination"
  static let newerFormat = "newer format"
}

extension Scheduling.Trouble {
  init(_ trouble: SendError.DestinationTrouble) {
    switch trouble {
    case .unreachable: self = .unreachable
    case .throttled: self = .throttled
    case .signIn: self = .signIn
    case .full: self = .full
    }
  }
}

extension SendError {
  var isDestinations: Bool {
    if case .destination = blame { true } else { false }
  }
  func saying(_ message: String, advice: String?) -> SendError {
    var new = self
    new.message = message
    new.advice = advice ?? new.advice
    return new
  }
  func givingUp(_ after: Int64) -> SendError {
    saying(
      "given up after \(formatSpan(after)); the last time: \(message)",
      advice:
        "when the cause is gone, move the job back to pending/ (\"giveUpAfter\" sets the limit)")
  }
}
