internal import Jobs
internal import Spool
internal import System

/// The table of `status`: fixed columns, made once for a terminal's width, so that rows can be
/// written as they are read.
struct StatusTable {
  private let name: Int
  private let note: Int
  private let hasRates: Bool
  private let isColoured: Bool
  private let now: Int64
  private static let state = 7
  private static let percent = 4
  private static let size = 14
  private static let rate = 10
  private static let eta = 6
  private static let attempt = 3
  private static let gap = 2

  /// - `names`: columns of the longest name.
  /// - `hasActive`: there are running jobs, whose rate and time left are of interest.
  init(width: Int, names: Int, hasActive: Bool, isColoured: Bool, now: Int64) {
    hasRates = hasActive && width >= 90
    (self.isColoured, self.now) = (isColoured, now)
    var fixed = Self.state + Self.percent + Self.size + Self.attempt + 5 * Self.gap
    if hasRates { fixed += Self.rate + Self.eta + 2 * Self.gap }
    let room = max(16, width - fixed)
    name = max(4, min(names, room * 3 / 5))
    note = max(0, room - name)
  }

  var heading: String {
    line("STATE", "JOB", "%", "SIZE", "RATE", "LEFT", "TRY", "NOTE")
  }

  func row(_ report: Report) -> String {
    let job = report.job
    let shown = JobName.stem(job.name).printable(limit: 1024)
    let state = job.place.rawValue
    guard let sidecar = report.sidecar else {
      return line(state, shown, "", "", "", "", "", notYet(job) ?? "")
    }
    let isKnown = sidecar.bytes > 0 || sidecar.totalBytes != nil
    let rate = sidecar.bytesPerSecond.map { formatRate($0) } ?? ""
    let left = sidecar.etaSeconds.map { Short.span(seconds: $0) } ?? ""
    var notes = self.notes(report, sidecar)
    if !hasRates, !rate.isEmpty { notes.insert(rate + (left.isEmpty ? "" : ", \(left)"), at: 0) }
    return line(
      state, shown, isKnown ? "\(Int(sidecar.percent))%" : "",
      isKnown ? Short.bytes(sidecar.bytes, of: sidecar.totalBytes) : "", rate, left,
      sidecar.attempt > 0 ? String(sidecar.attempt) : "", notes.joined(separator: "; "))
  }

  /// What is to be known of a job that waits, went wrong, or else its title.
  func notes(_ report: Report, _ sidecar: Sidecar) -> [String] {
    var notes: [String] = []
    // Where nothing but a change ends the wait, the error says more than the wait's word.
    if let wait = sidecar.wait, wait.until.map({ $0 > now }) ?? (sidecar.error == nil) {
      notes.append(wait.text(now: now))
    } else if let later = notYet(report.job) {
      notes.append(later)
    }
    if let error = sidecar.error, report.job.place != .done { notes.append(error.message) }
    if let first = sidecar.duplicateOf { notes.append("the same work as \(first)") }
    if notes.isEmpty, let title = sidecar.title { notes.append(title) }
    return notes
  }

  private func notYet(_ job: Listed) -> String? {
    // A fresh drop of a clock that is ahead is due: see `Spool.Found.due`.
    guard job.place == .pending, job.modified > now, job.modified > job.changed else { return nil }
    return "starts \(Short.when(job.modified, now: now))"
  }

  private func formatRate(_ bytes: Int64) -> String { Short.bytes(bytes, of: nil) + "/s" }

  private func line(
    _ state: String, _ job: String, _ percent: String, _ size: String, _ rate: String,
    _ left: String, _ attempt: String, _ note: String
  ) -> String {
    let gap = String(repeating: " ", count: Self.gap)
    var out = coloured(state.padded(to: Self.state), state)
    out += gap + job.cut(to: name).padded(to: name)
    out += gap + percent.padded(to: Self.percent, right: true)
    out += gap + size.padded(to: Self.size, right: true)
    if hasRates {
      out += gap + rate.padded(to: Self.rate, right: true)
      out += gap + left.padded(to: Self.eta, right: true)
    }
    out += gap + attempt.padded(to: Self.attempt, right: true)
    let shown = note.printable(limit: 4096).cut(to: self.note)
    if shown.isEmpty {
      while out.utf8.last == UInt8(ascii: " ") { out.removeLast() }
      return out
    }
    return out + gap + shown
  }

  private func coloured(_ text: String, _ state: String) -> String {
    guard isColoured else { return text }
    let colour =
      switch state {
      case "active": "32"
      case "failed": "31"
      case "paused": "33"
      case "STATE": "1"
      default: ""
      }
    return colour.isEmpty ? text : "\u{1b}[\(colour)m\(text)\u{1b}[0m"
  }
}

extension Sidecar.Wait {
  /// The workers' words for why a job waits, with the time.
  func text(now: Int64) -> String {
    guard let until else { return reason }
    let time = Short.when(until, now: now)
    return switch reason {
    case "notBefore": "starts \(time)"
    case "crash": "its worker died; again \(time)"
    case "destination", "back-off": "again \(time)"
    default: "\(reason); again \(time)"
    }
  }
}
