internal import CLinux
internal import Glibc
internal import Jobs
internal import Spool
internal import System

/// `upspool watch`: follows jobs until they have ended. It only reads.
@Sendable func watch(_ invocation: Invocation, _ console: Console) throws -> ExitCode {
  let interval = try invocation.span(.interval) ?? 10 * second
  let spool = try invocation.openSpool(console)
  let watching = Watching(
    spool, console, interval: interval, isJSON: invocation.has(.json),
    follows: invocation.has(.follow))
  do throws(Errno) {
    let selection = Selection(invocation.operands)
    if !selection.isEverything {
      try watching.follow(try selection.jobs(spool) { watching.isMissing($0) })
    } else {
      try watching.followEverything()
    }
    return try watching.run() ? .fine : .failed
  } catch {
    throw SpoolError(spool.path, error, doing: "read the spool")
  }
}

private final class Watching {
  private struct Followed {
    var job: Listed
    var report: Report?
    /// Never back within a run.
    var percent = 0.0
    var run = 1
    var state: String
    var isOver = false
  }

  private let spool: Spool
  private let console: Console
  private let interval: Int64
  private let isJSON: Bool
  private let follows: Bool
  private let isTerminal: Bool
  /// By inode; a job keeps it through all its moves.
  private var jobs: [UInt64: Followed] = [:]
  private var isEverything = false
  private var hasFailed = false
  private var ended = 0
  // Everything: what the directories hold, looked through now and then.
  private var counts: [Place: Int] = [:]
  private var knownFailed: Set<UInt64> = []
  private var doneAtStart: Int?
  private var nextCount: Int64 = 0
  private var nextProgress: Int64 = 0
  private var drawn = 0
  private var onlyScheduled = false

  init(_ spool: Spool, _ console: Console, interval: Int64, isJSON: Bool, follows: Bool) {
    (self.spool, self.console, self.interval) = (spool, console, interval)
    (self.isJSON, self.follows) = (isJSON, follows)
    isTerminal = !isJSON && isatty(STDOUT_FILENO) == 1
  }

  func isMissing(_ name: String) {
    hasFailed = true
    console.err.line("\(name): no such job in \(spool.path)")
  }

  func follow(_ list: [Listed]) throws(Errno) {
    // A name may stand in more than one directory: what waits or runs is what is meant.
    let live = Set(list.filter { $0.place != .done && $0.place != .failed }.map(\.name))
    for job in list where !live.contains(job.name) || ![.done, .failed].contains(job.place) {
      add(job)
    }
  }

  func followEverything() throws(Errno) {
    isEverything = true
    try each(.failed, spool) { knownFailed.insert($0.inode) }
  }

  private func add(_ job: Listed) {
    jobs[job.inode] = Followed(job: job, state: "")
  }

  /// False when one of them failed.
  func run() throws(Errno) -> Bool {
    while true {
      let now = Clock.monotonic()
      if isEverything { try lookAround(now) }
      var news: [String] = []
      for inode in jobs.keys.sorted() { try look(inode, &news) }
      let isOver = try isOver()
      if isTerminal {
        try draw(news, last: isOver)
      } else {
        tell(news, now)
      }
      console.out.flush()
      if isOver { return !hasFailed }
      usleep(200_000)
    }
  }

  private func isOver() throws(Errno) -> Bool {
    if follows { return false }
    if !isEverything { return jobs.values.allSatisfy(\.isOver) }
    guard counts[.active] == 0, !jobs.values.contains(where: { !$0.isOver }) else { return false }
    if counts[.pending] == 0 { return true }
    return onlyScheduled
  }

  // MARK: Looking

  /// All that runs, and how many wait.
  private func lookAround(_ now: Int64) throws(Errno) {
    var active = 0
    try each(.active, spool) { job in
      active += 1
      if jobs[job.inode] == nil || jobs[job.inode]?.isOver == true { add(job) }
    }
    counts[.active] = active
    guard now >= nextCount else { return }
    for place in [Place.pending, .paused, .done] {
      var count = 0
      let listing = try spool.listing(of: place)
      while let names = try listing.next(spool.calls) {
        count += names.count { JobName.isJob($0) }
      }
      counts[place] = count
    }
    // Those that ran too briefly to be seen running.
    var failed = 0
    try each(.failed, spool) { job in
      failed += 1
      if knownFailed.insert(job.inode).inserted, jobs[job.inode] == nil { add(job) }
    }
    counts[.failed] = failed
    doneAtStart = doneAtStart ?? counts[.done]
    onlyScheduled = active == 0 ? try isAllScheduled() : false
    let took = Clock.monotonic() - now
    nextCount = now + max(second, 20 * took)
  }

  /// Whether all that waits does so for a time of its own choice, or for a person.
  private func isAllScheduled() throws(Errno) -> Bool {
    guard let count = counts[.pending], count <= 1000 else { return false }
    var isAll = true
    let now = Clock.wall()
    var waiting: [Listed] = []
    try each(.pending, spool) { waiting.append($0) }
    for job in waiting where isAll {
      if job.modified > now && job.modified > job.changed { continue }
      let wait = try Report(job, spool)?.sidecar?.wait
      isAll = wait.map { $0.until == nil || $0.reason == "notBefore" } ?? false
    }
    return isAll
  }

  /// One job: where it is now, what is said of it.
  private func look(_ inode: UInt64, _ news: inout [String]) throws(Errno) {
    guard var it = jobs[inode], !it.isOver || it.state.isEmpty else { return }
    var place: Place?
    for candidate in [it.job.place, .active, .done, .failed, .pending, .paused, .active] {
      if let facts = try spool.calls.factsIfThere(
        of: it.job.name, in: spool.directory(candidate)), facts.inode == inode
      {
        it.job = Listed(it.job.name, candidate, facts)
        place = candidate
        break
      }
    }
    let before = it.state
    if place != nil {
      it.report = try Report(it.job, spool)
      it.state = it.job.place.rawValue
    } else {
      it.state = "cancelled"
    }
    let sidecar = it.report?.sidecar
    if let sidecar {
      if sidecar.run != it.run { (it.run, it.percent) = (sidecar.run, 0) }
      it.percent = max(it.percent, sidecar.percent)
    }
    it.isOver =
      place == nil || place == .done || place == .failed || (isEverything && place == .paused)
      || (isEverything && place == .pending)
    if it.isOver && place != .pending {
      ended += 1
      if place == .failed { hasFailed = true }
    }
    if before != it.state {
      if isJSON {
        if let line = it.report?.line { news.append(String(decoding: line, as: UTF8.self)) }
      } else if place != .active || !isTerminal {
        news.append(watchLine(JobName.stem(it.job.name), sidecar, it.state))
      }
    }
    // Of the many that ended only the count is kept.
    jobs[inode] = isEverything && it.isOver ? nil : it
    if isEverything, place == .failed { knownFailed.insert(inode) }
  }

  // MARK: Showing

  private func row(_ it: Followed) -> WatchFrame.Row {
    var row = WatchFrame.Row(name: JobName.stem(it.job.name).printable(), percent: it.percent)
    if let sidecar = it.report?.sidecar {
      (row.bytes, row.totalBytes) = (sidecar.bytes, sidecar.totalBytes)
      (row.rate, row.eta) = (sidecar.bytesPerSecond, sidecar.etaSeconds)
      row.attempt = sidecar.attempt
    }
    return row
  }

  private var running: [WatchFrame.Row] {
    jobs.values.filter { $0.job.place == .active && !$0.isOver }
      .sorted { $0.job.name < $1.job.name }.map(row)
  }

  private func frame() throws(Errno) -> WatchFrame {
    var frame = WatchFrame(running: running)
    let parts = jobs.values.reduce(0.0) { $0 + ($1.isOver ? 100 : $1.percent) }
    if isEverything {
      let done = max(ended, (counts[.done] ?? 0) - (doneAtStart ?? 0))
      let all = done + jobs.count + (counts[.pending] ?? 0)
      if all > 0 { frame.percent = (Double(done) * 100 + parts) / Double(all) }
      for place in [Place.active, .pending, .paused, .failed, .done] {
        frame.counts.append((place.rawValue, counts[place] ?? 0))
      }
    } else {
      if !jobs.isEmpty { frame.percent = parts / Double(jobs.count) }
      for state in ["active", "pending", "paused", "failed", "done", "cancelled"] {
        let count = jobs.values.count { $0.state == state }
        if count > 0 { frame.counts.append((state, count)) }
      }
    }
    let workers = try spool.otherWorkers().alive
    if spool.isHeld() { frame.notices.append("\(spool.path)/hold is there: nothing runs") }
    if workers.isEmpty { frame.notices.append("no worker runs here") }
    let now = Clock.wall()
    for circuit in try openCircuits(spool, workers, now: now) {
      frame.notices.append(circuit.text(now: now))
    }
    return frame
  }

  private func draw(_ news: [String], last: Bool) throws(Errno) {
    let columns = Int(clinux_terminal_width(STDOUT_FILENO))
    let width = columns >= 20 ? columns : 80
    let rows = Int(clinux_terminal_height(STDOUT_FILENO))
    let lines = try frame().lines(width: width, height: rows >= 4 ? rows - 1 : 23)
    var out = ""
    if drawn > 0 { out += "\u{1b}[\(drawn)A\r" }
    for line in news { out += "\(line)\u{1b}[K\n" }
    for line in lines { out += "\(line)\u{1b}[K\n" }
    out += "\u{1b}[J"
    drawn = lines.count
    console.out.bytes(Array(out.utf8))
  }

  private func tell(_ news: [String], _ now: Int64) {
    for line in news { console.out.line(line) }
    guard now >= nextProgress else { return }
    if nextProgress > 0, !isJSON {
      for row in running { console.out.line(watchProgress(row)) }
    }
    nextProgress = now + interval
  }
}
