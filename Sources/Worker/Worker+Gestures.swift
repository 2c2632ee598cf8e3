internal import Destinations
internal import Jobs
internal import Loop
internal import Scheduling
internal import Spool
internal import System

/// What people do to a running job's file: `mv` away, `rm`.
extension Worker {
  /// Looks where a held job's file is, and acts on it.
  func lookAfter(_ job: RunningJob) {
    let there: Whereabouts
    do throws(Errno) {
      there = try spool.whereabouts(job.claim)
    } catch {
      return
    }
    switch there {
    case .place(.active): job.missingSince = nil
    case .place(let place): job.stop(.moved(place))
    case .unlinked: job.stop(.cancelled)
    case .nowhere:
      // Between two directories of a slow copy, or under a new name: believed after a second look.
      let now = Clock.monotonic()
      if let since = job.missingSince {
        if now - since >= second { job.stop(.cancelled) }
      } else {
        job.missingSince = now
        Loop.shared.after(now + second + millisecond) {
          if self.running[job.name] === job { self.lookAfter(job) }
        }
      }
    }
  }

  /// The task of a stopped job is over: nothing more is sent.
  func finish(_ job: RunningJob, stopped stop: RunningJob.Stop, _ now: Int64) {
    switch stop {
    case .drained:
      let word = job.word(.pending, now: now) { $0.attempt = $0.failures }
      end(job, word, to: .pending) {
        self.log.say("returned", job: word.job, "back in pending/")
        if self.isHeld { self.queue.remove(job.name) }
      }
    case .moved(let place):
      running[job.name] = nil
      giveSlot(job.line)
      acknowledge(job, movedTo: place, now)
      endIfIdle()
    case .cancelled:
      running[job.name] = nil
      giveSlot(job.line)
      uncommitted += 1
      Loop.shared.start {
        await self.cleanUp(job)
        self.uncommitted -= 1
        self.endIfIdle()
      }
    }
  }

  /// A person moved a held job's file: its sidecar says so.
  private func acknowledge(_ job: RunningJob, movedTo place: Place, _ now: Int64) {
    let word: Sidecar
    switch place {
    case .paused:
      word = job.word(.paused, now: now) { $0.attempt = $0.failures }
      log.say("paused", job: word.job, "\(formatBytes(word.bytes)) were sent")
    case .pending, .active:
      word = job.word(.pending, now: now) { $0.attempt = $0.failures }
      log.say("returned", job: word.job, "by a person")
    case .failed, .done:
      // Called done by a person, not by us: not every byte was acknowledged.
      word = job.word(place == .failed ? .failed : .cancelled, now: now) {
        $0.error = .init(
          kind: "stopped", message: "moved to \(place.rawValue)/ by a person while it ran",
          advice: "move it to pending/ to go on")
      }
      log.say("stopped", job: word.job, "moved to \(place.rawValue)/ by a person")
    }
    tell(job, word)
    keyIsFree(job)
    if place == .pending { look(job.name) }
    pumpSoon()
    // From done/ there is no way to go on, only one to begin anew.
    if place == .done, !word.resume.isEmpty {
      uncommitted += 1
      Loop.shared.start {
        await self.removeHalfSent(job)
        self.uncommitted -= 1
        self.endIfIdle()
      }
    }
  }

  private func removeHalfSent(_ job: RunningJob) async {
    do throws(SendError) {
      for resume in job.sidecar.resume { try await job.destination.remove(resume) }
      tell(job, job.word(job.sidecar.state, now: Clock.wall()) { $0.resume = [] })
    } catch {
      // Owed, until its record goes.
      log.say(
        "owed", job: job.sidecar.job,
        "what is half-sent can't be removed now: \(error.message)")
    }
  }

  private func tell(_ job: RunningJob, _ word: Sidecar) {
    do throws(Errno) {
      try spool.say(word, of: job.claim, durable: true)
    } catch {
      log.say("warning", job: word.job, "its sidecar can't be written: \(error)")
    }
  }

  /// A removed job: what lies half-sent is removed at the server, then it is cancelled. Where that
  /// can't be done now it is owed, and tried again later.
  private func cleanUp(_ job: RunningJob) async {
    var word = job.word(.pending, now: Clock.wall())
    do throws(SendError) {
      for resume in word.resume { try await job.destination.remove(resume) }
      word.resume = []
      word.state = .cancelled
      word.finishedAt = Clock.wall()
    } catch {
      log.say(
        "owed", job: word.job, "what is half-sent can't be removed now: \(error.message)")
    }
    tell(job, word)
    if word.state == .cancelled {
      log.say("cancelled", job: word.job, "its file was removed")
    }
    keyIsFree(job)
    pumpSoon()
  }

  /// The last rename found that active/NAME is no longer the job's file: everything was done, and a
  /// person moved or removed it in the same moment.
  func settleMoved(_ job: RunningJob, _ last: Sidecar) {
    let now = Clock.wall()
    let there = (try? spool.whereabouts(job.claim)) ?? .nowhere
    switch there {
    case .place(.active):
      // Moved back meanwhile: commit once more.
      uncommitted += 1
      let place: Place = last.state == .done ? .done : last.state == .failed ? .failed : .pending
      let ending = Ending(job.claim, last, to: place, isFirstWord: false)
      Loop.shared.after(Clock.monotonic() + 50 * millisecond) { self.recommit(ending, job) }
    case .place(.paused):
      tell(job, job.word(.paused, now: now) { $0.percent = min($0.percent, 99.9) })
    case .place(.pending):
      tell(job, job.word(.pending, now: now) { $0.percent = min($0.percent, 99.9) })
      look(job.name)
    case .place(let place):
      tell(job, place == .done && last.state == .done ? last : job.word(.failed, now: now))
    case .unlinked:
      tell(job, job.word(.cancelled, now: now))
      log.say("cancelled", job: last.job, "its file was removed at its end")
    case .nowhere:
      guard job.missingSince == nil else {
        tell(job, job.word(.cancelled, now: now))
        log.say("cancelled", job: last.job, "its file was taken away at its end")
        return
      }
      job.missingSince = Clock.monotonic()
      uncommitted += 1
      Loop.shared.after(Clock.monotonic() + second) {
        self.uncommitted -= 1
        self.settleMoved(job, last)
        self.endIfIdle()
      }
    }
  }

  private func recommit(_ ending: Ending, _ job: RunningJob) {
    let result = spool.commit([ending], wholeFilesystem: false)[0]
    uncommitted -= 1
    if case .moved = result { settleMoved(job, ending.sidecar) }
    endIfIdle()
  }
}
