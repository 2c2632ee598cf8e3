internal import Configuration
internal import Glibc
internal import Jobs
internal import Spool
internal import System

/// `upspool prune`: removes finished jobs that are old enough, and sidecars that no job needs, the
/// way a worker does.
@Sendable func prune(_ invocation: Invocation, _ console: Console) throws -> ExitCode {
  var retention = Configuration.Retention()
  let (done, failed) = (try age(invocation, .done), try age(invocation, .failed))
  if done == nil || failed == nil {
    retention = try invocation.loadConfiguration(console).0.retention
  }
  retention.done = done ?? retention.done
  retention.failed = failed ?? retention.failed
  let spool = try invocation.openSpool(console)
  var pruner = Pruner(
    spool: spool, retention: retention, now: Clock.wall(), isDry: invocation.has(.dryRun))
  do throws(Errno) {
    try pruner.run()
  } catch {
    throw SpoolError(
      spool.path, error, doing: "remove old jobs",
      advice: error == .denied || error == .notPermitted ? "run it as the worker's user" : nil)
  }
  let sidecars = pruner.sidecars == 1 ? "1 sidecar" : "\(Short.count(pruner.sidecars)) sidecars"
  console.out.line(
    "\(invocation.has(.dryRun) ? "would remove" : "removed") \(Short.count(pruner.done)) from done/, "
      + "\(Short.count(pruner.failed)) from failed/, \(sidecars) without a job")
  return .fine
}

private func age(_ invocation: Invocation, _ name: OptionName) throws -> Int64? {
  guard let text = try invocation.text(name) else { return nil }
  guard let span = Quantity.duration(text) else {
    throw UsageError(
      "--\(name.rawValue): must be a span of time, as 7d, 12h or 30m, or 0 for all, not \(text.quoted)"
    )
  }
  return span
}

/// One pass over what is over.
private struct Pruner {
  let spool: Spool
  let retention: Configuration.Retention
  let now: Int64
  let isDry: Bool
  var done = 0
  var failed = 0
  var sidecars = 0

  mutating func run() throws(Errno) {
    try prune(.done, before: now - retention.done) { $0.done += 1 }
    try prune(.failed, before: now - retention.failed) { $0.failed += 1 }
    let listing = try spool.listing(of: nil)
    while let names = try listing.next(spool.calls) {
      for name in names where name.bytes.first != UInt8(ascii: ".") {
        if try pruneSidecar(name) { sidecars += 1 }
      }
    }
  }

  private mutating func prune(_ place: Place, before limit: Int64, count: (inout Pruner) -> Void)
    throws(Errno)
  {
    let listing = try spool.listing(of: place)
    while let names = try listing.next(spool.calls) {
      for name in names where JobName.isJob(name) {
        let isOld =
          isDry
          ? try wouldPrune(name, place, limit)
          : try spool.prune(name, in: place, endedBefore: limit)
        if isOld { count(&self) }
      }
    }
  }

  private func wouldPrune(_ name: Name, _ place: Place, _ limit: Int64) throws(Errno) -> Bool {
    guard let facts = try spool.calls.factsIfThere(of: name, in: spool.directory(place)),
      facts.isRegular, facts.changed < limit,
      let report = try Report(Listed(name, place, facts), spool)
    else { return false }
    return (report.sidecar?.finishedAt ?? facts.changed) < limit
  }

  private func pruneSidecar(_ name: Name) throws(Errno) -> Bool {
    let over: Sidecar
    if isDry {
      guard try spool.place(of: name) == nil, let sidecar = try spool.sidecar(name),
        !sidecar.owesCleanUp
      else { return false }
      over = sidecar
    } else {
      guard case .finished(let sidecar) = try spool.orphan(name) else { return false }
      over = sidecar
    }
    let span = over.state == .done ? retention.done : retention.failed
    guard (over.finishedAt ?? over.updatedAt) < now - span else { return false }
    if !isDry { try spool.removeSidecar(name, judged: over) }
    return true
  }
}
