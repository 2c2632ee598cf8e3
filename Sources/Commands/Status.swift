internal import Glibc
internal import Jobs
internal import Spool
internal import System

/// So many finished jobs are shown unless they are named.
private let newestDone = 20

/// `upspool status`: where the jobs stand, for people or, with `--json`, for programs.
@Sendable func status(_ invocation: Invocation, _ console: Console) throws -> ExitCode {
  let spool = try invocation.openSpool(console)
  let selection = Selection(invocation.operands)
  do throws(Errno) {
    if selection.isEverything {
      if invocation.has(.json) {
        try everythingAsJSON(spool, console)
      } else {
        try everything(spool, console)
      }
      return .fine
    }
    return try named(selection, spool, console, json: invocation.has(.json)) ? .fine : .failed
  } catch {
    throw SpoolError(spool.path, error, doing: "read the spool")
  }
}

/// The order of the table: running ones, the queue in its order, paused, failed, done.
private let order: [Place] = [.active, .pending, .paused, .failed, .done]

private func sorted(_ jobs: [Listed], in place: Place) -> [Listed] {
  switch place {
  case .pending: jobs.sorted { ($0.modified, $0.name) < ($1.modified, $1.name) }
  case .active, .paused: jobs.sorted { $0.name < $1.name }
  case .failed, .done: jobs.sorted { ($0.changed, $1.name) > ($1.changed, $0.name) }
  }
}

private func everything(_ spool: Spool, _ console: Console) throws(Errno) {
  var jobs: [Place: [Listed]] = [:]
  var isSeen: Set<UInt64> = []
  // What waits before what runs: a job that is claimed in between is found twice, not never.
  for place in [Place.pending, .active, .paused, .failed] {
    try each(place, spool) { jobs[place, default: []].append($0) }
  }
  for job in jobs[.active] ?? [] { isSeen.insert(job.inode) }
  jobs[.pending]?.removeAll { isSeen.contains($0.inode) }
  var done = Newest(limit: newestDone)
  try each(.done, spool) { if !isSeen.contains($0.inode) { done.add($0) } }
  jobs[.done] = done.sorted

  let table = table(jobs.values.joined(), console)
  var isEmpty = true
  for place in order {
    for job in sorted(jobs[place] ?? [], in: place) {
      guard let report = try Report(job, spool) else { continue }
      if isEmpty { console.out.line(table.heading) }
      isEmpty = false
      console.out.line(table.row(report))
    }
  }
  if done.count > newestDone {
    console.out.line("and \(Short.count(done.count - newestDone)) more in done/")
  }
  if !isEmpty { console.out.line() }
  var counts = order.map { (place: Place) -> String in
    let n = place == .done ? done.count : jobs[place]?.count ?? 0
    return "\(Short.count(n)) \(place.rawValue)"
  }
  let workers = try spool.otherWorkers().alive
  counts.append(workers.count == 1 ? "1 worker" : "\(workers.count) workers")
  console.out.line(counts.joined(separator: ", "))
  try notices(spool, workers, console)
}

/// What concerns more than one job.
private func notices(_ spool: Spool, _ workers: [String], _ console: Console) throws(Errno) {
  if spool.isHeld() {
    console.out.line("\(spool.path)/hold is there: nothing runs until it is removed")
  }
  if workers.isEmpty {
    console.out.line(
      "no worker runs here; start one: upspool run --spool \(shellQuoted(spool.path))")
  }
  let now = Clock.wall()
  for circuit in try openCircuits(spool, workers, now: now) {
    console.out.line(circuit.text(now: now).printable(limit: 1000).cut(to: console.width))
  }
}

private func table(_ jobs: some Sequence<Listed>, _ console: Console) -> StatusTable {
  var names = 3
  var hasActive = false
  for job in jobs {
    if job.place == .active { hasActive = true }
    // Columns are at most bytes: most names needn't be measured.
    if job.name.count - 5 > names {
      names = max(names, JobName.stem(job.name).printable(limit: 1024).displayWidth)
    }
  }
  return StatusTable(
    width: console.width, names: names, hasActive: hasActive, isColoured: console.isColoured,
    now: Clock.wall())
}

private func everythingAsJSON(_ spool: Spool, _ console: Console) throws(Errno) {
  var active: Set<UInt64> = []
  var waiting: [Listed] = []
  var running: [Listed] = []
  try each(.pending, spool) { waiting.append($0) }
  try each(.active, spool) { running.append($0) }
  for job in running { active.insert(job.inode) }
  func write(_ jobs: [Listed]) throws(Errno) {
    for job in jobs {
      if let report = try Report(job, spool) { console.out.bytes(report.line + [0x0a]) }
    }
  }
  try write(sorted(running, in: .active))
  try write(sorted(waiting.filter { !active.contains($0.inode) }, in: .pending))
  // Written as they are found: there may be a million of them.
  for place in [Place.paused, .failed, .done] {
    let listing = try spool.listing(of: place)
    while let names = try listing.next(spool.calls) {
      var jobs: [Listed] = []
      for name in names where JobName.isJob(name) {
        if let facts = try spool.calls.factsIfThere(of: name, in: spool.directory(place)),
          facts.isRegular, !active.contains(facts.inode)
        {
          jobs.append(Listed(name, place, facts))
        }
      }
      try write(jobs)
    }
  }
}

/// False when a name isn't there.
private func named(_ selection: Selection, _ spool: Spool, _ console: Console, json: Bool)
  throws(Errno) -> Bool
{
  var isThere = true
  let jobs = try selection.jobs(spool) { name in
    isThere = false
    console.err.line("\(name): no such job in \(spool.path)")
  }
  let table = table(jobs, console)
  if !json, !jobs.isEmpty { console.out.line(table.heading) }
  for place in order {
    for job in sorted(jobs.filter { $0.place == place }, in: place) {
      guard let report = try Report(job, spool) else { continue }
      if json {
        console.out.bytes(report.line + [0x0a])
      } else {
        console.out.line(table.row(report))
        details(report, table, console)
      }
    }
  }
  return isThere
}

/// What the table had to cut, for a job that somebody asks for by its name.
private func details(_ report: Report, _ table: StatusTable, _ console: Console) {
  guard let sidecar = report.sidecar else { return }
  func say(_ text: String) {
    let indent = String(repeating: " ", count: 9)
    for line in Help.wrap(text.printable(limit: 4096), max(20, console.width - 9)) {
      console.out.line(indent + line)
    }
  }
  for note in table.notes(report, sidecar) { say(note) }
  if let advice = sidecar.error?.advice, report.job.place != .done { say("→ \(advice)") }
  for file in sidecar.files.prefix(5) {
    if let error = file.error {
      say("\(file.path): \(error)")
    } else if let url = file.url {
      say("\(file.path) → \(url)")
    }
  }
  if sidecar.files.count > 5 { say("and \(sidecar.files.count - 5) more files") }
}
