internal import Glibc
internal import Jobs
internal import Loop
internal import Scheduling
internal import Spool
internal import System

/// The same work only once: jobs with one `dedupe` key wait for the first of them.
extension Worker {
  private enum KeyVerdict {
    case mine
    case waits(Place, Name)
    case duplicate(Name)
  }

  /// Judges a job's key when all else says that it may run; nil: it holds the key, and runs.
  ///
  /// A job that lay here before the first one was done is its duplicate; one that came later is new
  /// work.
  func judgeKey(_ key: String, _ name: Name, _ facts: Facts, _ now: Int64) -> Verdict? {
    let verdict: KeyVerdict?
    do throws(Errno) {
      guard let id = try spool.id(of: name, in: .pending) else { return .putBack }
      let mine = KeyHolder(id: id, name: name)
      verdict = try spool.withKey(key) { (holder) throws(Errno) -> (KeyVerdict, KeyHolder?) in
        guard let holder, holder.id != id else { return (.mine, holder == mine ? nil : mine) }
        switch try spool.state(of: holder) {
        case .undecided(let place): return (.waits(place, holder.name), nil)
        case .done(let time) where facts.changed <= time: return (.duplicate(holder.name), nil)
        case .done, .over: return (.mine, mine)
        }
      }
    } catch {
      report(name, "warning", "its \"dedupe\" key can't be looked up: \(error); tried again")
      return .wait(now + second)
    }
    switch verdict {
    case nil: return .wait(now + 50 * millisecond)
    case .mine: return nil
    case .duplicate(let first): return .duplicate(JobName.stem(first))
    case .waits(let place, let first):
      if keyWaiters.count > 10_000 { keyWaiters.removeAll() }
      keyWaiters[key, default: []].insert(name)
      let wait = Sidecar.Wait(
        until: nil, mtime: facts.modified,
        reason: "the same work as \(JobName.stem(first)), which is in \(place.rawValue)/")
      return .waitFor(now + 2 * second, wait, isRunning: place == .active)
    }
  }

  /// A job that is done without having been run: another one did its work.
  func moveToDone(
    _ name: Name, _ facts: Facts, duplicateOf first: String, _ job: Job, _ known: Sidecar?,
    _ now: Int64
  ) {
    do throws(Errno) {
      let isMoved = try spool.conclude(name, judged: facts, in: .done) { id in
        var word = waitingWord(name, id, job, facts, known, now)
        word.state = .done
        word.duplicateOf = first
        word.percent = 100
        word.error = nil
        word.wait = nil
        word.finishedAt = now
        return word
      }
      guard isMoved else { return queue.park(name, until: now + second) }
      queue.remove(name)
      doneCount += 1
      log.say("done", job: JobName.stem(name), "the same work as \(first), which is done")
    } catch {
      claimFailed(name, error, now)
    }
  }

  /// A job that held a key came to an end, or was taken away: whoever waits for it may look again.
  func keyIsFree(_ job: RunningJob, isDone: Bool = false) {
    guard let key = job.job.dedupe else { return }
    if isDone {
      // Best effort: the directories tell the same as long as the job isn't pruned.
      _ = try? spool.withKey(key) { holder throws(Errno) -> (Bool, KeyHolder?) in
        guard var holder, holder.id == job.claim.id else { return (false, nil) }
        holder.doneAt = Clock.wall()
        return (true, holder)
      }
    }
    let now = Clock.wall()
    for name in keyWaiters.removeValue(forKey: key) ?? [] where queue.contains(name) {
      queue.wait(name, until: now)
    }
    pumpSoon()
  }

  /// Files of keys whose work has been over for an hour; now and then, on a thread of its own.
  func removeOldKeys() {
    let now = Clock.monotonic()
    guard now - lastKeySweep >= 600 * second else { return }
    lastKeySweep = now
    let spool = spool
    Loop.shared.start {
      await Blocking.run { _ = try? spool.removeOldKeys(before: Clock.wall() - 3600 * second) }
    }
  }
}
