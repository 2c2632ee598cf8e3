internal import Jobs
internal import Spool
internal import System

/// Bars on a terminal, and above them what has ended.
struct Bars: WatchOutput {
  private let console: Console
  private var screen = Screen()
  private var isHidden = false

  init(_ console: Console) { self.console = console }

  mutating func show(_ watcher: Watcher, _ look: WatchLook) {
    let size = console.screen
    let frame = WatchView(watcher, now: look.now)
      .lines(width: size.width, height: size.height, now: look.now)
    draw(frame, above: lasting(look, watcher, size.width), size)
  }

  private mutating func draw(_ frame: [String], above: [String], _ size: (width: Int, height: Int))
  {
    let text = screen.draw(frame, above: above, width: size.width, height: size.height)
    if text.isEmpty { return }
    if !isHidden { console.out.bytes(Screen.hideCursor.utf8) }
    isHidden = true
    console.out.bytes(text.utf8)
  }

  private func lasting(_ look: WatchLook, _ watcher: Watcher, _ width: Int) -> [String] {
    var lines: [String] = []
    for one in look.news where one.isTurn {
      let isNamed = !watcher.isEverything || one.before != nil
      guard one.job.state.isFinal || one.job.state == .paused && isNamed else { continue }
      lines += one.job.news(now: look.now)
    }
    return (lines + look.moreLines).flatMap { $0.folded(to: width) }
  }

  mutating func end(_ watcher: Watcher, isWhole: Bool) {
    if isWhole {
      // One job's end has been told above.
      let view = WatchView(watcher, now: 0)
      let isAlone = !watcher.isEverything && view.whole.counts.reduce(0) { $0 + $1.count } <= 1
      let size = console.screen
      draw(isAlone ? [] : [view.summary(size.width)], above: [], size)
    }
    if isHidden { console.out.bytes(Screen.showCursor.utf8) }
    isHidden = false
  }

  mutating func resume() { screen.leave() }
}

/// A line for each start, change of state and end, and progress now and then.
struct PlainLines: WatchOutput {
  private let console: Console
  /// Nanoseconds between two lines on one job's progress.
  private let interval: Int64
  private var told: [FileKey: Int64] = [:]
  private var circuits: [String: OpenCircuit] = [:]
  private var concerns: [String] = []
  private var isFirst = true

  init(_ console: Console, interval: Int64) {
    (self.console, self.interval) = (console, interval)
  }

  mutating func show(_ watcher: Watcher, _ look: WatchLook) {
    for one in look.news where one.isTurn {
      let job = one.job
      if job.state == .active { told[FileKey(job.listed)] = look.time }
      let isNamed = !watcher.isEverything
      switch job.state {
      case .active where isFirst: console.out.line("running \(job.progressLine)")
      case .pending where one.before == nil && !isNamed: continue
      case .paused where one.before == nil && !isNamed: continue
      default: for line in job.news(now: look.now) { console.out.line(line) }
      }
    }
    for line in look.moreLines { console.out.line(line) }
    progress(watcher, look)
    notices(watcher, look)
    isFirst = false
  }

  private mutating func progress(_ watcher: Watcher, _ look: WatchLook) {
    var due: [String] = []
    for key in watcher.active {
      guard let job = watcher.known[key] else { continue }
      if look.time - (told[key] ?? look.time) >= interval {
        due.append(job.progressLine)
        told[key] = look.time
      } else if told[key] == nil {
        told[key] = look.time
      }
    }
    if told.count > watcher.active.count {
      told = told.filter { watcher.active.contains($0.key) }
    }
    for line in due.sorted() { console.out.line(line) }
  }

  /// What concerns more than one job, when it comes and when it goes.
  private mutating func notices(_ watcher: Watcher, _ look: WatchLook) {
    var now: [String: OpenCircuit] = [:]
    for circuit in watcher.circuits {
      now[circuit.destination] = circuit
      if circuits[circuit.destination]?.reason != circuit.reason {
        console.out.line(circuit.text(now: look.now).shown())
      }
    }
    for (name, _) in circuits.sorted(by: { $0.key < $1.key }) where now[name] == nil {
      console.out.line("destination \(name.shown()) is tried again")
    }
    circuits = now
    let all = WatchView(watcher, now: look.now).concerns
    for concern in all where !concerns.contains(concern) { console.out.line(concern.shown()) }
    concerns = all
  }

  mutating func end(_ watcher: Watcher, isWhole: Bool) {
    if isWhole, watcher.isEverything { console.out.line(WatchView(watcher, now: 0).counts) }
  }

  mutating func resume() {}
}

/// A job's line as `status --json` has it, at each change.
struct LinesOfJSON: WatchOutput {
  private let console: Console
  init(_ console: Console) { self.console = console }

  mutating func show(_ watcher: Watcher, _ look: WatchLook) {
    for one in look.news { console.out.bytes(one.report.line + [UInt8(ascii: "\n")]) }
  }
  mutating func end(_ watcher: Watcher, isWhole: Bool) {}
  mutating func resume() {}
}

extension WatchLook {
  /// "and 900 more done".
  fileprivate var moreLines: [String] {
    more.sorted { $0.key.rawValue < $1.key.rawValue }
      .map { "and \(Short.count($0.value)) more \($0.key.rawValue)" }
  }
}

extension WatchView {
  /// What is to be seen of them at `now`.
  init(_ watcher: Watcher, now: Int64) {
    let isNear = watcher.known.count <= Watcher.nearLimit
    let jobs =
      isNear ? Array(watcher.known.values) : watcher.active.compactMap { watcher.known[$0] }
    (whole.bytes, whole.total) = (watcher.endedBytes, watcher.endedBytes)
    whole.isLeast = !isNear && (watcher.counts[.pending] ?? 0) > 0
    for job in jobs {
      guard let sidecar = job.said?.sidecar, let total = sidecar.totalBytes else {
        if job.state != .paused { whole.isLeast = true }
        continue
      }
      whole.bytes = whole.bytes.adding(min(sidecar.bytes, total))
      whole.total = whole.total?.adding(total)
      if job.state == .active, let rate = sidecar.bytesPerSecond {
        whole.rate = (whole.rate ?? 0).adding(rate)
      }
    }
    whole.counts = [.active, .pending, .paused, .done, .failed, .cancelled].compactMap { state in
      watcher.counts[state].flatMap { $0 > 0 ? (state, $0) : nil }
    }
    let running = jobs.filter { $0.state == .active }.sorted {
      ($0.turn, $0.listed.name) < ($1.turn, $1.listed.name)
    }
    rows = running.map(Row.init)
    let waiting = jobs.filter { $0.state == .pending }.sorted { $0.listed.name < $1.listed.name }
    for job in waiting {
      guard let reason = job.reason(now: now) else { continue }
      var row = Row(job.name)
      row.waits = "waits: \(reason)"
      rows.append(row)
    }
    circuits = watcher.circuits
    if watcher.isHeld {
      concerns.append("\(watcher.spool.path)/hold is there: nothing runs until it is removed")
    }
    if watcher.workers.isEmpty, !watcher.known.isEmpty {
      concerns.append(
        "no worker runs here; start one: upspool run --spool \(shellQuoted(watcher.spool.path))")
    }
  }
}

extension WatchView.Row {
  /// A running job's.
  init(_ job: WatchedJob) {
    self.init(job.name)
    guard let sidecar = job.said?.sidecar else { return }
    (bytes, total, attempt) = (sidecar.bytes, sidecar.totalBytes, sidecar.attempt)
    percent = total == nil ? nil : sidecar.percent
    (rate, left) = (sidecar.bytesPerSecond, sidecar.etaSeconds)
  }
}
