internal import Jobs
internal import Spool
internal import System
internal import Worker

/// A file, whatever its name is by now.
struct FileKey: Hashable {
  private let inode: UInt64
  private let born: Int64?

  init(_ job: Listed) { (inode, born) = (job.inode, job.born) }
  init(_ facts: Facts) { (inode, born) = (facts.inode, facts.born) }
}

/// A job that is followed, as the last look at it found it.
struct WatchedJob {
  var listed: Listed
  /// As the directory has it.
  var state: Sidecar.State
  /// The look that found it running: the order of the bars, in which nothing jumps.
  var turn = 0
  /// Nil as long as it has none that speaks for it.
  var said: Standing?

  init(_ listed: Listed) {
    self.listed = listed
    state = Sidecar.State(rawValue: listed.place.rawValue) ?? .pending
  }

  /// Its name for people.
  var name: String { JobName.stem(listed.name).shown() }
  private var sidecar: Sidecar? { said?.sidecar }

  /// Takes over what a look at it has found.
  mutating func take(_ report: Report) {
    (listed, state) = (report.job, report.state)
    said = report.sidecar.map { Standing($0, after: said) }
  }

  /// Why it waits, or what went wrong; nil where there is nothing to say.
  ///
  /// Without `now` it is the same for the same reason, whenever the next try may be.
  func reason(now: Int64?) -> String? {
    var parts: [String] = []
    if let wait = sidecar?.wait, state == .pending {
      if let now {
        // Where nothing but a change ends the wait, the error says more than the wait's word.
        if wait.until.map({ $0 > now }) ?? (sidecar?.error == nil) {
          parts.append(wait.text(now: now))
        }
      } else {
        parts.append(wait.reason)
      }
    }
    if let error = sidecar?.error { parts.append(error.message) }
    return parts.isEmpty ? nil : parts.joined(separator: "; ").shown(limit: 4096)
  }

  /// One or two lines for its state, as it has just become.
  func news(now: Int64) -> [String] {
    switch state {
    case .active:
      let attempt = sidecar.map(\.attempt) ?? 0
      return ["started \(name)" + (attempt > 1 ? ", attempt \(attempt)" : "")]
    case .pending: return ["waiting \(name)" + (reason(now: now).map { ": \($0)" } ?? "")]
    case .paused: return ["paused \(name)"]
    case .cancelled: return ["cancelled \(name)"]
    case .done: return ["done \(name)" + (result.map { ": \($0)" } ?? "")]
    case .failed:
      let lines = ["failed \(name)" + (reason(now: now).map { ": \($0)" } ?? "")]
      return lines + (sidecar?.error?.advice.map { ["  → \($0.shown(limit: 4096))"] } ?? [])
    }
  }

  /// "3 files, 1.2 GB in 40 s".
  private var result: String? {
    guard let said else { return nil }
    if let first = said.sidecar.duplicateOf { return "the same work as \(first.shown())" }
    let size = formatBytes(max(said.sidecar.bytes, said.sidecar.totalBytes ?? 0))
    let files = said.files == 1 ? "1 file" : "\(Short.count(said.files)) files"
    guard let start = said.sidecar.startedAt, let end = said.sidecar.finishedAt else {
      return "\(files), \(size)"
    }
    // The text of a sidecar has whole seconds.
    let span = (end &- start) / second
    return "\(files), \(size) in \(span < 1 ? "a second" : Short.span(seconds: span))"
  }

  /// "nightly 41% 417.0 MB of 1.0 GB, 52.4 MB/s, 12 s left".
  var progressLine: String {
    guard let sidecar, sidecar.bytes > 0 || sidecar.totalBytes != nil else {
      return "\(name): nothing sent yet"
    }
    var parts = [formatBytes(sidecar.bytes)]
    var line = name
    if let total = sidecar.totalBytes {
      line += " \(Int(sidecar.percent))%"
      parts[0] += " of \(formatBytes(total))"
    }
    if let rate = sidecar.bytesPerSecond { parts.append("\(formatBytes(rate))/s") }
    if let left = sidecar.etaSeconds { parts.append("\(Short.span(seconds: left)) left") }
    if sidecar.attempt > 1 { parts.append("attempt \(sidecar.attempt)") }
    return "\(line) \(parts.joined(separator: ", "))"
  }
}

/// What a job's sidecar said last.
final class Standing {
  /// Without its list of files, which may be long.
  let sidecar: Sidecar
  /// How many files.
  let files: Int

  /// The percentage never goes back within a run.
  init(_ sidecar: Sidecar, after before: Standing?) {
    files = sidecar.files.count
    var sidecar = sidecar
    sidecar.files = []
    sidecar.resume = []
    if let before = before?.sidecar, before.id == sidecar.id, before.run == sidecar.run {
      sidecar.percent = max(sidecar.percent, before.percent)
      sidecar.bytes = max(sidecar.bytes, before.bytes)
    }
    self.sidecar = sidecar
  }
}
