internal import Jobs
internal import Spool
internal import System

/// Follows jobs from one look to the next. It only reads.
///
/// The jobs that run or are few are looked at each time, by their names. The directories are listed
/// at most once a second, and so seldom that a long queue costs little.
struct Watcher {
  let spool: Spool
  /// Nil: everything there is.
  let selection: Selection?
  /// Whether those that come later are followed, too.
  let follows: Bool
  /// So many ends are told one by one in a look, the others are only counted.
  let detailLimit: Int
  /// So many jobs are looked at each time, and no more except for running ones.
  static let nearLimit = 300

  /// Those that haven't ended, and only those.
  var known: [FileKey: WatchedJob] = [:]
  var active: Set<FileKey> = []
  /// By state; those that ended count from the beginning.
  var counts: [Sidecar.State: Int] = [:]
  /// Bytes of those that ended since something last began.
  var endedBytes: Int64 = 0
  /// Those that ended: they may be moved back.
  var ended: [FileKey: (job: Listed, state: Sidecar.State)] = [:]
  /// Names that nothing bears.
  var missing: [String] = []
  var workers: [String] = []
  var circuits: [OpenCircuit] = []
  var isHeld = false

  var marks: [FileKey: Mark] = [:]
  var news: [News] = []
  var uncounted: [Sidecar.State: Int] = [:]
  /// Monotonic.
  var nextScan: Int64 = 0
  /// The number of this look.
  var turn = 0
  /// How often in a row there was nothing left to wait for.
  var idleScans = 0
  var history: History

  /// What a look has found of one job.
  struct News {
    var job: WatchedJob
    var report: Report
    /// Nil: seen for the first time.
    var before: Sidecar.State?
    /// It is in another state than before, or waits for another reason.
    var isTurn: Bool
  }

  /// When a job was looked at, and at what.
  struct Mark {
    /// Of its sidecar.
    var inode: UInt64?
    var modified: Int64 = 0
    /// The next time (monotonic) that its sidecar is read: seldom if that takes long.
    var readAfter: Int64 = 0
    /// When it was first found nowhere (monotonic).
    var missingSince: Int64?
    /// Until when it waits by its `notBefore`, for that mtime of its file.
    var later: (until: Int64, modified: Int64)?
    /// The scan that met it last.
    var scan = 0
  }

  var isFirst: Bool { turn == 0 }

  init(_ spool: Spool, _ selection: Selection, follows: Bool, detailLimit: Int = 100) {
    self.spool = spool
    self.selection = selection.isEverything ? nil : selection
    (self.follows, self.detailLimit) = (follows, detailLimit)
    history = History(since: Clock.wall())
  }

  var isEverything: Bool { selection == nil }

  /// Nothing is left to wait for.
  var isOver: Bool {
    if follows { return false }
    // While people move files a single look is often wrong.
    return isEverything ? idleScans >= 2 : known.isEmpty
  }

  /// A watched job failed, or isn't there.
  var hasFailed: Bool { !missing.isEmpty || ended.values.contains { $0.state == .failed } }

  /// What is new, and how many more have ended. `now` is nanoseconds since 1970, `time` monotonic.
  mutating func look(now: Int64, time: Int64) throws -> (news: [News], more: [Sidecar.State: Int]) {
    (news, uncounted) = ([], [:])
    var isStale = false
    do throws(Errno) {
      for key in known.count <= Self.nearLimit ? Array(known.keys) : Array(active) {
        try check(key, time)
      }
      if isEverything, !isFirst {
        for job in try list(.active) where known[FileKey(job)] == nil { try meet(job, time) }
      }
      if time >= nextScan {
        isStale = !spool.replacedDirectories().isEmpty
        if !isStale { try scan(now: now, time: time) }
      }
    } catch {
      throw SpoolError(spool.path, error, doing: "read the spool")
    }
    if isStale {
      throw SpoolError("\(spool.path): its directories were removed or replaced; watch it again")
    }
    turn += 1
    return (news, uncounted)
  }

  func list(_ place: Place) throws(Errno) -> [Listed] {
    var jobs: [Listed] = []
    try each(place, spool) { jobs.append($0) }
    return jobs
  }
}

/// Looking at one job.
extension Watcher {
  /// Takes up a job that wasn't followed.
  mutating func meet(_ listed: Listed, _ time: Int64) throws(Errno) {
    let key = FileKey(listed)
    guard known[key] == nil else { return }
    // Moved back after its end.
    let before = ended.removeValue(forKey: key)?.state
    if let before { count(before, -1) }
    if listed.place == .active, active.isEmpty, before == nil { endedBytes = 0 }
    var job = WatchedJob(listed)
    job.turn = turn
    (known[key], marks[key]) = (job, Mark())
    count(job.state, 1)
    if job.state == .active { active.insert(key) }
    if job.state == .active || known.count <= Self.nearLimit || detailLimit == .max {
      try read(key, listed, before: before, isTurn: true, time)
    }
  }

  /// Looks where a followed job is, and reads what its sidecar says if that is another one.
  mutating func check(_ key: FileKey, _ time: Int64) throws(Errno) {
    guard let job = known[key], let mark = marks[key] else { return }
    guard let there = try find(key, job.listed) else { return try miss(key, time) }
    if mark.missingSince != nil { marks[key]?.missingSince = nil }
    if there.place == job.listed.place, there.name == job.listed.name {
      known[key]?.listed = there
      if time < mark.readAfter { return }
      let facts = try spool.calls.factsIfThere(of: there.name, in: spool.progress.raw)
      let isTouched = there.modified != job.listed.modified
      if !isTouched, facts?.inode == mark.inode, (facts?.modified ?? 0) == mark.modified { return }
      try read(key, there, before: job.state, isTurn: false, time)
    } else {
      try read(key, there, before: job.state, isTurn: there.place != job.listed.place, time)
    }
  }

  /// Where the file is now: in the order in which jobs move on, so that one on its way is met.
  func find(_ key: FileKey, _ job: Listed) throws(Errno) -> Listed? {
    func look(_ name: Name, _ place: Place) throws(Errno) -> Listed? {
      guard let facts = try spool.calls.factsIfThere(of: name, in: spool.directory(place)),
        FileKey(facts) == key
      else { return nil }
      return Listed(name, place, facts)
    }
    if let there = try look(job.name, job.place) { return there }
    for place in [Place.pending, .active, .paused, .failed, .done] where place != job.place {
      if let there = try look(job.name, place) { return there }
    }
    if job.place != .paused { return nil }
    // Its name was wanted by a newer job.
    for n in 1...9 {
      if let there = try look(JobName.stepAside(job.name, n), .paused) { return there }
    }
    return nil
  }

  /// Its file was found nowhere: twice, a second apart, it is gone, unless its sidecar says so.
  private mutating func miss(_ key: FileKey, _ time: Int64) throws(Errno) {
    guard let job = known[key] else { return }
    let since = marks[key]?.missingSince ?? time
    marks[key]?.missingSince = since
    var report = try Report(gone: job.listed, as: .cancelled, id: job.said?.sidecar.id, spool)
    let last = report.lastWord
    guard last == .cancelled || time - since >= second else { return }
    // It may have been pruned after its end.
    if let last, last.isFinal { report.end = last }
    end(key, job, report)
  }

  private mutating func read(
    _ key: FileKey, _ listed: Listed, before: Sidecar.State?, isTurn: Bool, _ time: Int64
  ) throws(Errno) {
    guard var job = known[key] else { return }
    let start = Clock.monotonic()
    // Before it is read: what is written meanwhile is seen the next time.
    let facts = try spool.calls.factsIfThere(of: listed.name, in: spool.progress.raw)
    // Another file bears its name by now, or none: the next look finds out.
    guard let report = try Report(listed, spool), FileKey(report.job) == key else { return }
    marks[key]?.inode = facts?.inode
    marks[key]?.modified = facts?.modified ?? 0
    let took = Clock.monotonic() - start
    if took > 5 * millisecond { marks[key]?.readAfter = time + 20 * took }
    let (was, reason) = (job.state, job.reason(now: nil))
    job.take(report)
    if job.state == .done || job.state == .failed { return end(key, job, report) }
    known[key] = job
    if was != job.state {
      count(was, -1)
      count(job.state, 1)
    }
    if job.state == .active {
      if active.isEmpty { endedBytes = 0 }
      if active.insert(key).inserted { known[key]?.turn = turn }
    } else {
      active.remove(key)
    }
    let isOther = job.state == .pending && reason != job.reason(now: nil)
    news.append(
      News(job: job, report: report, before: before, isTurn: isTurn || isOther || was != job.state))
  }

  private mutating func end(_ key: FileKey, _ job: WatchedJob, _ report: Report) {
    var job = job
    let before = known[key]?.state
    job.take(report)
    if before != nil { count(before ?? .pending, -1) }
    (known[key], marks[key]) = (nil, nil)
    active.remove(key)
    told(key, job, report, before: before)
  }

  /// Tells of a job that has ended.
  mutating func told(_ key: FileKey, _ job: WatchedJob, _ report: Report, before: Sidecar.State?) {
    count(job.state, 1)
    endedBytes = endedBytes.adding(job.said?.sidecar.bytes ?? 0)
    ended[key] = (job.listed, job.state)
    news.append(News(job: job, report: report, before: before, isTurn: true))
  }

  mutating func count(_ state: Sidecar.State, _ change: Int) {
    counts[state, default: 0] += change
  }
}

extension Int64 {
  /// The sum, or the largest number there is: sizes come from files that anybody may have written.
  func adding(_ other: Int64) -> Int64 {
    let (sum, overflow) = addingReportingOverflow(other)
    return overflow ? .max : sum
  }
}
