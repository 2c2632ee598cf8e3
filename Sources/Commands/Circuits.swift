internal import Jobs
internal import Spool
internal import System

/// A destination that a worker waits for, as workers/UUID.json has it.
struct OpenCircuit: Equatable {
  var destination: String
  /// A word of the workers', such as `unreachable`.
  var reason: String
  /// Nanoseconds since 1970.
  var since: Int64?
  /// When it is tried again.
  var until: Int64?
  var failures: Int64?

  /// For people, in one line.
  func text(now: Int64) -> String {
    let what =
      switch reason {
      case "unreachable": "can't be reached"
      case "throttled": "asks for fewer requests"
      case "signIn": "refuses the sign-in"
      case "full": "has no space left"
      default: reason
      }
    var text = "destination \(destination) \(what)"
    if let since { text += " since \(Short.time(since, now: now))" }
    if let until { text += "; next try \(Short.when(until, now: now))" }
    if let failures { text += " (\(failures) failed)" }
    return text
  }

  /// Those in a worker's report; none in one that can't be read.
  static func all(in report: [UInt8]) -> [OpenCircuit] {
    guard let json = try? JSON(parsing: report, lenient: true),
      let list = json.member("destinations")
    else { return [] }
    func time(_ json: JSON?) -> Int64? { json?.string.flatMap(Times.parse) }
    return (0..<list.count).compactMap { index in
      guard let one = list.element(index), one.member("state")?.string == "open",
        let name = one.member("name")?.string
      else { return nil }
      return OpenCircuit(
        destination: name, reason: one.member("reason")?.string ?? "isn't available",
        since: time(one.member("since")), until: time(one.member("until")),
        failures: one.member("failures")?.integer)
    }
  }
}

/// One for each destination, of all live workers: the earliest next try.
func openCircuits(_ spool: Spool, _ workers: [String], now: Int64) throws(Errno) -> [OpenCircuit] {
  var all: [String: OpenCircuit] = [:]
  for worker in workers {
    guard let report = try spool.report(of: worker, now: now) else { continue }
    for circuit in OpenCircuit.all(in: report.json) {
      if let there = all[circuit.destination],
        (there.until ?? .max) <= (circuit.until ?? .max)
      {
        continue
      }
      all[circuit.destination] = circuit
    }
  }
  return all.values.sorted { $0.destination < $1.destination }
}
