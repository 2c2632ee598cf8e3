internal import Jobs
internal import Spool
internal import System

/// Listing the directories.
extension Watcher {
  /// Finds the jobs, and what is to be known of the spool as a whole.
  mutating func scan(now: Int64, time: Int64) throws(Errno) {
    let start = Clock.monotonic()
    if let selection {
      try scan(selection, time)
    } else {
      try scanEverything(now: now, time)
    }
    isHeld = spool.isHeld()
    workers = try spool.otherWorkers().alive
    circuits = try openCircuits(spool, workers, now: now)
    // Less than a twentieth of the time.
    let pause = max(second, 25 * (Clock.monotonic() - start))
    nextScan = time + (idleScans == 1 ? min(pause, 200 * millisecond) : pause)
  }

  // MARK: Named jobs

  private mutating func scan(_ selection: Selection, _ time: Int64) throws(Errno) {
    if known.count > Self.nearLimit {
      for key in Array(known.keys) { try check(key, time) }
    }
    if isFirst || follows {
      var lost: [String] = []
      let jobs = try selection.jobs(spool) { lost.append($0) }
      if isFirst { missing = lost }
      for job in isFirst ? lives(of: jobs) : jobs {
        let key = FileKey(job)
        if known[key] != nil || ended[key] != nil { continue }
        if job.place == .done || job.place == .failed {
          // Those that were there before are of no interest.
          if isFirst || history.isNew(job) { try tell(job) }
        } else {
          try meet(job, time)
        }
      }
      if isFirst {
        // The older ones of the same names.
        for job in jobs where job.place == .done || job.place == .failed {
          if ended[FileKey(job)] == nil { history.olds.insert(FileKey(job)) }
        }
      }
    }
    // Moved back after its end.
    for (key, end) in ended where end.state != .cancelled {
      for place in [Place.pending, .active, .paused] {
        guard
          let facts = try spool.calls.factsIfThere(of: end.job.name, in: spool.directory(place)),
          FileKey(facts) == key
        else { continue }
        try meet(Listed(end.job.name, place, facts), time)
        break
      }
    }
  }

  /// Of several jobs of one name those that haven't ended; else the one that ended last.
  private func lives(of jobs: [Listed]) -> [Listed] {
    var byName: [Name: [Listed]] = [:]
    var order: [Name] = []
    for job in jobs {
      if byName[job.name] == nil { order.append(job.name) }
      byName[job.name, default: []].append(job)
    }
    return order.flatMap { name -> [Listed] in
      let all = byName[name] ?? []
      let live = all.filter { $0.place != .done && $0.place != .failed }
      return live.isEmpty ? all.max { $0.changed < $1.changed }.map { [$0] } ?? [] : live
    }
  }

  /// Tells of a job that ended before it was followed.
  private mutating func tell(_ listed: Listed) throws(Errno) {
    guard let report = try Report(listed, spool), FileKey(report.job) == FileKey(listed) else {
      return
    }
    if report.state != .done && report.state != .failed { return }
    var job = WatchedJob(listed)
    job.take(report)
    told(FileKey(listed), job, report, before: nil)
  }

  // MARK: Everything

  private mutating func scanEverything(now: Int64, _ time: Int64) throws(Errno) {
    // What ended is listed first: what ends while the others are listed is new then.
    if isFirst { _ = try history.fresh(spool) }
    if try history.isChanged(spool, now: now) {
      history.scan += 1
      // What waits before what runs: a job that moves on in between is found twice, not never.
      for place in [Place.pending, .active, .paused] {
        let listing = try spool.listing(of: place)
        while let names = try listing.next(spool.calls) {
          for name in names where JobName.isJob(name) {
            guard
              let facts = try spool.calls.factsIfThere(of: name, in: spool.directory(place)),
              facts.isRegular
            else { continue }
            let key = FileKey(facts)
            if known[key] == nil {
              try meet(Listed(name, place, facts), time)
            } else if known[key]?.listed.place != place {
              try check(key, time)
            }
            marks[key]?.scan = history.scan
          }
        }
      }
      var details = detailLimit
      for (key, job) in known where marks[key]?.scan != history.scan {
        guard let there = try find(key, job.listed), there.place == .done, details <= 0 else {
          details -= 1
          try check(key, time)
          continue
        }
        // Too many at once to be told of each.
        forget(key, job.state)
      }
    }
    try scanEnded()
    idleScans = try isIdle(now: now) ? idleScans + 1 : 0
  }

  private mutating func forget(_ key: FileKey, _ state: Sidecar.State) {
    (known[key], marks[key]) = (nil, nil)
    active.remove(key)
    count(state, -1)
    count(.done, 1)
    uncounted[.done, default: 0] += 1
    history.olds.insert(key)
  }

  /// Those that came and ended between two scans.
  private mutating func scanEnded() throws(Errno) {
    var details = detailLimit
    for (name, place) in try history.fresh(spool) {
      guard let facts = try spool.calls.factsIfThere(of: name, in: spool.directory(place)),
        facts.isRegular
      else { continue }
      let (job, key) = (Listed(name, place, facts), FileKey(facts))
      if known[key] != nil || ended[key] != nil || history.olds.contains(key) { continue }
      if details <= 0, place == .done {
        uncounted[.done, default: 0] += 1
        count(.done, 1)
        continue
      }
      details -= 1
      // An older job that only made room for a newer one of its name has ended long ago.
      guard let sidecar = try Report(job, spool)?.sidecar,
        (sidecar.finishedAt ?? 0) >= history.start / second * second
      else { continue }
      try tell(job)
    }
    // These are known by their names now.
    history.olds = []
    ended = ended.filter { $0.value.state == .failed }
  }

  /// Nothing runs, and nothing waits but what starts at a time of its own.
  private mutating func isIdle(now: Int64) throws(Errno) -> Bool {
    if !active.isEmpty { return false }
    for (key, job) in known where job.state == .pending {
      if try !isScheduled(key, job.listed, now: now) { return false }
    }
    return true
  }

  private mutating func isScheduled(_ key: FileKey, _ job: Listed, now: Int64) throws(Errno) -> Bool
  {
    guard let facts = try spool.calls.factsIfThere(of: job.name, in: spool.pending.raw) else {
      return false
    }
    if facts.modified > now, facts.modified > facts.changed { return true }
    if let later = marks[key]?.later, later.until > now, later.modified == facts.modified {
      return true
    }
    var until: Int64?
    if let sidecar = try Report(Listed(job.name, .pending, facts), spool)?.sidecar {
      if let wait = sidecar.wait, wait.reason == "notBefore" { until = wait.until }
    } else {
      // No worker has looked at it yet.
      until = (try? spool.peek(job.name))??.notBefore
    }
    guard let until, until > now else { return false }
    marks[key]?.later = (until, facts.modified)
    return true
  }
}

/// What the directories held at the last scan.
struct History {
  /// When the watch began; nanoseconds since 1970.
  let start: Int64
  /// The number of the last scan.
  var scan = 0
  /// Jobs in done/ and failed/ that are not to be told of.
  var olds: Set<FileKey> = []
  /// Hashes of the files in done/ and failed/.
  private var names: [Place: Set<Int>] = [:]
  private var times: [Place: Int64] = [:]

  init(since start: Int64) { self.start = start }

  func isNew(_ job: Listed) -> Bool { !olds.contains(FileKey(job)) && job.changed >= start }

  /// Whether names came to the places of jobs that haven't ended, or went.
  mutating func isChanged(_ spool: Spool, now: Int64) throws(Errno) -> Bool {
    var isChanged = false
    for place in [Place.pending, .active, .paused] {
      if try hasOtherTime(place, spool, now: now) { isChanged = true }
    }
    return isChanged
  }

  /// The names that came to done/ and failed/ since the last call.
  mutating func fresh(_ spool: Spool) throws(Errno) -> [(Name, Place)] {
    var fresh: [(Name, Place)] = []
    for place in [Place.done, .failed] {
      guard try hasOtherTime(place, spool, now: Clock.wall()) else { continue }
      let before = names[place]
      var all: Set<Int> = []
      all.reserveCapacity(before?.count ?? 0)
      let listing = try spool.listing(of: place)
      while let entries = try listing.entries(spool.calls) {
        for (inode, name) in entries where JobName.isJob(name) {
          var hasher = Hasher()
          hasher.combine(inode)
          hasher.combine(name)
          let hash = hasher.finalize()
          all.insert(hash)
          if let before, !before.contains(hash) { fresh.append((name, place)) }
        }
      }
      names[place] = all
    }
    return fresh
  }

  /// A directory's time tells of a change only when it is some ticks of the clock old.
  private mutating func hasOtherTime(_ place: Place, _ spool: Spool, now: Int64) throws(Errno)
    -> Bool
  {
    let modified = try spool.calls.facts(of: spool.directory(place)).modified
    if times[place] == modified { return false }
    times[place] =
      abs(now.subtractingReportingOverflow(modified).partialValue) > second ? modified : nil
    return true
  }
}
