internal import Configuration
internal import Destinations
internal import Jobs
internal import Loop
internal import Spool
internal import System

/// Looking through what is over: old jobs are pruned, what removed jobs left half-sent is cleaned up.
extension Worker {
  /// Where a pass stands: the places still to be gone through, and the time that it has worked.
  struct JanitorState {
    var places: [Place?]
    var listing: Listing
    var worked: Int64 = 0
  }

  func startJanitor() {
    guard janitor == nil, !isStopping else { return }
    nextJanitor = .max
    var places: [Place?] = [.done, .failed, nil]
    let first = places.removeFirst()
    guard let listing = try? spool.listing(of: first) else { return endJanitor(0) }
    janitor = JanitorState(places: [first] + places, listing: listing)
    Loop.shared.after(0) { self.continueJanitor() }
  }

  private func endJanitor(_ worked: Int64) {
    janitor = nil
    nextJanitor = Clock.monotonic() + max(10 * second, 1000 * worked)
  }

  /// The first look at a name that was just removed from a directory.
  func tidySoon(_ name: Name) {
    if orphans.count < 10_000 { tidy(name, nil) }
  }

  /// The second look at what was found without a job, which no long pause between passes puts off.
  func lookAtOrphansAgain() {
    if isStopping { return }
    let now = Clock.monotonic()
    for (name, seen) in orphans where now - seen.since >= 10 * second { tidy(name, nil) }
  }

  private func continueJanitor() {
    guard var state = janitor else { return }
    if isStopping || ended.isOver { return endJanitor(0) }
    let start = Clock.monotonic()
    do throws(Errno) {
      if let names = try state.listing.next(spool.calls) {
        for name in names where JobName.isJob(name) || state.places[0] == nil {
          tidy(name, state.places[0])
        }
      } else {
        state.places.removeFirst()
        guard let next = state.places.first else {
          return endJanitor(state.worked + Clock.monotonic() - start)
        }
        state.listing = try spool.listing(of: next)
      }
      state.worked += Clock.monotonic() - start
      janitor = state
    } catch {
      return endJanitor(0)
    }
    // A tenth of the time at most.
    let took = Clock.monotonic() - start
    Loop.shared.after(start + took * 10) { self.continueJanitor() }
  }

  /// One that can't be judged now holds up no other.
  private func tidy(_ name: Name, _ place: Place?) {
    let now = Clock.wall()
    do throws(Errno) {
      switch place {
      case .done:
        try prune(name, .done, configuration.retention.done, now)
      case .failed:
        try prune(name, .failed, configuration.retention.failed, now)
      default:
        if name.bytes.first == UInt8(ascii: ".") {
          try spool.removeStray(name, in: spool.progress.raw, now: now)
          return
        }
        try tidySidecar(name, now)
      }
    } catch {
      if place == nil { orphans[name] = nil }
    }
  }

  private func prune(_ name: Name, _ place: Place, _ retention: Int64, _ now: Int64)
    throws(Errno)
  {
    let limit = now - retention
    guard let facts = try spool.calls.factsIfThere(of: name, in: spool.directory(place)),
      facts.changed < limit
    else { return }
    if try spool.prune(name, in: place, endedBefore: limit) {
      log.say("pruned", job: JobName.stem(name), "from \(place.rawValue)/")
    }
  }

  private func tidySidecar(_ name: Name, _ now: Int64) throws(Errno) {
    switch try spool.orphan(name) {
    case .no: orphans[name] = nil
    case .finished(let sidecar):
      orphans[name] = nil
      let retention =
        sidecar.state == .done ? configuration.retention.done : configuration.retention.failed
      if (sidecar.finishedAt ?? sidecar.updatedAt) < now - retention {
        try spool.removeSidecar(name, judged: sidecar)
      }
    case .owesCleanUp(let sidecar):
      guard running[name] == nil else { return }
      let monotonic = Clock.monotonic()
      // A single look is wrong in many cases while people move files.
      guard let seen = orphans[name], seen.sidecar == sidecar else {
        orphans[name] = (sidecar, monotonic)
        return
      }
      guard monotonic - seen.since >= 10 * second else { return }
      orphans[name] = nil
      Loop.shared.start { await self.cleanUp(name, sidecar) }
    }
  }

  /// What a removed job that nobody holds left half-sent.
  private func cleanUp(_ name: Name, _ sidecar: Sidecar) async {
    var settled = sidecar
    do throws(SendError) {
      for resume in sidecar.resume {
        let key = resume.data.first { $0.name == RunningJob.destinationKey }?.value ?? ""
        guard let destination = resolver.cleaner(key, for: resume) else {
          report(
            name, "owed",
            "its file was removed, but the configuration has no destination \"\(key)\" to remove "
              + "what is half-sent")
          return
        }
        try await destination.remove(resume)
      }
    } catch {
      report(name, "owed", "what is half-sent can't be removed now: \(error.message)")
      return
    }
    let now = Clock.wall()
    settled.resume = []
    settled.wait = nil
    settled.updatedAt = now
    if settled.state != .failed {
      settled.state = .cancelled
      settled.phase = nil
      settled.finishedAt = now
    }
    do throws(Errno) {
      if try spool.settle(name, judged: sidecar, as: settled) {
        log.say("cancelled", job: sidecar.job, "its file was removed")
      }
    } catch {
      report(name, "owed", "its sidecar can't be written: \(error)")
    }
  }
}
