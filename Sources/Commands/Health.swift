internal import Glibc
internal import Jobs
internal import Spool
internal import System

/// A worker whose lock is held.
struct LiveWorker {
  var uuid: String
  /// Nil until it has written its report.
  var host: String?
  var pid: Int64?
  var running: Int64?
  /// Nanoseconds since its last heartbeat.
  var age: Int64

  /// For people.
  var text: String {
    var text = "worker \(uuid)"
    if let host { text += " on \(host.printable(limit: 255))" }
    if let pid { text += ", process \(pid)" }
    if let running { text += ", \(running) running" }
    return text + ", heartbeat \(Short.span(seconds: age / second)) ago"
  }
}

/// The live workers of a spool; nothing is written.
func liveWorkers(_ spool: Spool, _ uuids: [String], now: Int64) throws(Errno) -> [LiveWorker] {
  var all: [LiveWorker] = []
  for uuid in uuids {
    guard
      let lock = try spool.calls.factsIfThere(of: Name(uuid + ".lock"), in: spool.workers.raw)
    else { continue }
    var worker = LiveWorker(uuid: uuid, age: max(0, now - lock.modified))
    if let report = try spool.report(of: uuid, now: now),
      let json = try? JSON(parsing: report.json, lenient: true)
    {
      worker.host = json.member("host")?.string
      worker.pid = json.member("pid")?.integer
      worker.running = json.member("running")?.integer
    }
    all.append(worker)
  }
  return all
}

/// `upspool health`: exit code 0 when a worker of this spool shows that it lives.
@Sendable func health(_ invocation: Invocation, _ console: Console) throws -> ExitCode {
  let limit = try invocation.span(.maxAge) ?? 30 * second
  let spool = try invocation.openSpool(console)
  let workers: [LiveWorker]
  do throws(Errno) {
    workers = try liveWorkers(spool, try spool.otherWorkers().alive, now: Clock.wall())
  } catch {
    throw SpoolError(spool.path + "/workers", error, doing: "look for workers")
  }
  if workers.isEmpty { throw Failure("\(spool.path): no worker is alive") }
  // In a container its own worker is the question, whoever else shares the spool.
  let host = hostName()
  let own = workers.filter { $0.host == host }
  let judged = own.isEmpty ? workers : own
  guard let best = judged.min(by: { $0.age < $1.age }) else { return .failed }
  if best.age <= limit { return .fine }
  throw Failure("\(spool.path): \(best.text), more than \(Short.span(seconds: limit / second))")
}

private func hostName() -> String {
  var buffer = [CChar](repeating: 0, count: 256)
  unsafe gethostname(&buffer, 255)
  return Name(bytes: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }).description
}
