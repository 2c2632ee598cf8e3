internal import Configuration
internal import Glibc
internal import Jobs
internal import Loop
internal import Scheduling
internal import Spool
internal import System

/// What this worker says of itself: workers/UUID.json for people and `status`, UUID.prom for
/// monitoring, and its heartbeat.
extension Worker {
  func reportSoon() { reportIsDue = true }

  func report() {
    reportIsDue = false
    lastReport = Clock.monotonic()
    presence.beat()
    // A full disk gets no more files from here.
    guard hasRoom else { return }
    presence.publish(json(), suffix: ".json")
    presence.publish(metrics(), suffix: ".prom")
  }

  private func json() -> [UInt8] {
    var out: [UInt8] = []
    func line(_ key: String, _ value: String, last: Bool = false) {
      out += "  ".utf8
      out.append(string: key)
      out += ": \(value)\(last ? "" : ",")\n".utf8
    }
    func quoted(_ text: String) -> String {
      var bytes: [UInt8] = []
      bytes.append(string: text)
      return String(decoding: bytes, as: UTF8.self)
    }
    out += "{\n".utf8
    line("worker", quoted(spool.uuid))
    line("host", quoted(host))
    line("pid", String(getpid()))
    line("version", quoted(options.version))
    line("startedAt", quoted(Times.format(startedAt)))
    line("updatedAt", quoted(Times.format(Clock.wall())))
    line("state", quoted(isStopping ? "stopping" : isHeld ? "held" : hasRoom ? "working" : "full"))
    line("running", String(running.count))
    line("concurrency", String(configuration.concurrency))
    line("done", String(doneCount))
    line("failed", String(failedCount))
    if let space {
      line(
        "space",
        "{\"freeBytes\": \(space.freeBytes), \"freeInodes\": \(space.freeInodes), "
          + "\"enough\": \(hasRoom)}")
    }
    var destinations: [String] = []
    for (number, circuit) in circuits.sorted(by: { $0.key < $1.key }) {
      guard let opening = circuit.opening else { continue }
      destinations.append(
        "    {\"name\": \(quoted(lines.name(number))), \"state\": \"open\", "
          + "\"reason\": \"\(opening.trouble.rawValue)\", "
          + "\"since\": \"\(Times.format(opening.since))\", "
          + "\"until\": \"\(Times.format(opening.until))\", \"failures\": \(opening.failures), "
          + "\"running\": \(limits.running(to: number))}")
    }
    let list =
      destinations.isEmpty ? "[]" : "[\n" + destinations.joined(separator: ",\n") + "\n  ]"
    line("destinations", list, last: true)
    out += "}\n".utf8
    return out
  }

  private func metrics() -> [UInt8] {
    let open = circuits.values.count { $0.isOpen }
    let rows: [(String, String, String, Int64)] = [
      ("upspool_jobs_done_total", "counter", "Jobs done by this worker.", Int64(doneCount)),
      ("upspool_jobs_failed_total", "counter", "Jobs failed by this worker.", Int64(failedCount)),
      ("upspool_bytes_sent_total", "counter", "Bytes of files that were sent.", bytesSent),
      ("upspool_jobs_running", "gauge", "Jobs that run now.", Int64(running.count)),
      (
        "upspool_jobs_queued", "gauge", "Jobs in pending/ that are kept in mind.",
        Int64(queue.count)
      ),
      ("upspool_circuits_open", "gauge", "Destinations whose jobs wait.", Int64(open)),
      ("upspool_spool_free_bytes", "gauge", "Room in the spool.", space?.freeBytes ?? -1),
    ]
    var out: [UInt8] = []
    for (name, type, help, value) in rows {
      out += "# HELP \(name) \(help)\n# TYPE \(name) \(type)\n\(name) \(value)\n".utf8
    }
    return out
  }
}
