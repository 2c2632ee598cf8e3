internal import Configuration
internal import Destinations
internal import Glibc
internal import Jobs
internal import Loop
internal import Scheduling
internal import Spool
internal import System

/// Files in pending/ that wait for something or will never be jobs: each is told of once.
extension Worker {
  /// A waiting job's sidecar, written once for each reason.
  func tellWaiting(
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
        var word = waitingWord(name, id, job, facts, known, now)
        word.state = .pending
        word.error = failure
        word.wait = wait
        return word
      }
    } catch {
      log.say("warning", job: JobName.stem(name), "its sidecar can't be written: \(error)")
    }
  }

  /// What the sidecar of a job that nobody runs begins with.
  func waitingWord(
    _ name: Name, _ id: String, _ job: Job?, _ facts: Facts, _ known: Sidecar?, _ now: Int64
  ) -> Sidecar {
    var word =
      known?.reborn(queuedAt: facts.changed, now: now)
      ?? Sidecar(
        state: .pending, job: JobName.stem(name), id: id, queuedAt: min(facts.changed, now),
        updatedAt: now)
    word.phase = nil
    word.title = job?.title ?? word.title
    word.group = job?.group ?? word.group
    word.extra = job?.extra ?? word.extra
    word.updatedAt = now
    return word
  }

  func moveToFailed(
    _ name: Name, _ facts: Facts, _ failure: Sidecar.Failure, _ job: Job?, _ known: Sidecar?,
    _ now: Int64
  ) {
    do throws(Errno) {
      let isMoved = try spool.conclude(name, judged: facts, in: .failed) { id in
        var word = waitingWord(name, id, job, facts, known, now)
        word.state = .failed
        word.error = failure
        word.wait = nil
        word.finishedAt = now
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
  func incomplete(
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
  static let quietTime = 60 * second

  func refuse(_ name: Name, _ refusal: Refusal, _ facts: Facts, _ now: Int64) {
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
}
