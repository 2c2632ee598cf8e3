internal import Jobs
internal import System
internal import Worker

/// What is to be seen of the watched jobs at one moment; a terminal's lines are made of it alone.
struct WatchView {
  /// A job of the list.
  struct Row {
    var name: String
    /// Nil: not known yet.
    var percent: Double?
    var bytes: Int64 = 0
    var total: Int64?
    var rate: Int64?
    var left: Int64?
    var attempt = 1
    /// Why it isn't running; the numbers don't count then.
    var waits: String?

    init(_ name: String) { self.name = name }
  }

  /// All watched jobs together.
  struct Whole {
    /// By state, those that there are.
    var counts: [(state: Sidecar.State, count: Int)] = []
    var bytes: Int64 = 0
    /// Of the jobs whose size is known.
    var total: Int64?
    var rate: Int64?
    /// There are jobs that wait whose size isn't known: it takes longer than the numbers say.
    var isLeast = false

    var isMoving: Bool { counts.contains { $0.state == .active } }

    /// Seconds to the end of what is known.
    var left: Int64? {
      guard let total, let rate, rate > 0, total > bytes else { return nil }
      return (total - bytes - 1) / rate + 1
    }
    /// 100 only when nothing runs any more.
    var percent: Int? {
      guard let total, total > 0 else { return nil }
      let all = Int(Double(min(bytes, total)) * 100 / Double(total))
      return bytes < total || isMoving ? min(all, 99) : all
    }
  }

  /// Running ones first.
  var rows: [Row] = []
  var whole = Whole()
  var circuits: [OpenCircuit] = []
  /// Other lines of concern: a hold, no worker.
  var concerns: [String] = []

  /// Lines for a terminal, none wider than `width`, fewer than `height` together; `now` is
  /// nanoseconds since 1970.
  func lines(width: Int, height: Int, now: Int64) -> [String] {
    let room = max(1, height - 1)
    var below: [String] = []
    for circuit in circuits { below += circuit.text(now: now).shown().folded(to: width) }
    for concern in concerns { below += concern.shown(limit: 4096).folded(to: width) }
    // At most a third of the screen, so that there is room for jobs.
    let most = room < 3 ? room - 1 : max(1, room / 3)
    if below.count > most {
      let kept = max(0, most - 1)
      below = Array(below.prefix(kept)) + (most > 0 ? ["…"] : [])
    }
    let free = room - 1 - below.count
    let isCut = rows.count > free
    let shown = Array(rows.prefix(isCut && free > 1 ? free - 1 : free))
    let layout = WatchLayout(shown, width: width)
    var lines = shown.map(layout.line)
    if isCut, free > 1 { lines.append("and \(Short.count(rows.count - shown.count)) more") }
    return (lines + [summary(width)] + below).map { $0.cut(to: width) }
  }

  /// "2 active, 5 pending".
  var counts: String {
    if whole.counts.isEmpty { return "nothing to watch" }
    return whole.counts.map { "\(Short.count($0.count)) \($0.state.rawValue)" }
      .joined(separator: ", ")
  }

  /// The line for the whole: what doesn't fit is left out, the least important first.
  func summary(_ width: Int) -> String {
    let gap = WatchLayout.gap(width)
    let size = whole.total.map { Short.bytes(whole.bytes, of: $0) } ?? ""
    let rate = whole.rate.map { formatBytes($0) + "/s" } ?? ""
    let left = whole.left.map { (whole.isLeast ? ">" : "") + Short.span(seconds: $0) + " left" }
    // Cells keep their columns, whatever is in them: else all would jump to and fro.
    let percent = gap + (whole.percent.map { "\($0)%" } ?? "").padded(to: 4, right: true)
    let cells = (
      size: gap + size.padded(to: 14, right: true), rate: gap + rate.padded(to: 10, right: true),
      left: gap + (left ?? "").padded(to: 12, right: true)
    )
    // The best first.
    let choices: [(hasBar: Bool, tail: String)] =
      if whole.isMoving {
        [
          (true, percent + cells.size + cells.rate + cells.left),
          (true, percent + cells.rate + cells.left), (true, percent + cells.left),
          (false, percent + cells.rate + cells.left), (false, percent + cells.left),
          (true, percent), (false, percent),
        ]
      } else {
        whole.percent == nil ? [] : [(false, percent + gap + size), (false, percent)]
      }
    for choice in choices + [(false, "")] {
      let free = width - counts.displayWidth - choice.tail.displayWidth
      if free < (choice.hasBar ? gap.count + 8 : 0) { continue }
      var line = counts
      if choice.hasBar {
        line += gap + progressBar(min(30, free - gap.count), Double(whole.percent ?? 0))
      }
      line += choice.tail
      while line.utf8.last == UInt8(ascii: " ") { line.removeLast() }
      return line
    }
    return counts.cut(to: width)
  }
}

/// The columns of the rows, made once for a terminal's width.
struct WatchLayout {
  private var name: Int
  private var bar: Int?
  private var hasLeft = true
  private var hasRate = true
  private var hasSize = true
  private var attempt: Int
  private let gap: String
  private let width: Int

  private static let percent = 4
  private static let left = 6
  private static let rate = 10
  private static let size = 14
  private static let leastBar = 8
  private static let widestBar = 30

  /// Between two cells.
  static func gap(_ width: Int) -> String { width < 60 ? " " : "  " }

  init(_ rows: [WatchView.Row], width: Int) {
    self.width = width
    gap = Self.gap(width)
    let longest = rows.map(\.name.displayWidth).max() ?? 0
    name = max(1, min(longest, 12))
    bar = Self.leastBar
    attempt =
      rows.map { $0.waits == nil && $0.attempt > 1 ? "try \($0.attempt)".count : 0 }.max() ?? 0
    // What doesn't fit goes, the least important first.
    if fixed > width { hasSize = false }
    if fixed > width { hasRate = false }
    if fixed > width { attempt = 0 }
    if fixed > width { hasLeft = false }
    if fixed > width { bar = nil }
    var spare = max(0, width - fixed)
    let more = min(max(0, longest - name), bar == nil ? spare : spare * 2 / 3)
    name += more
    spare -= more
    if let bar { self.bar = min(Self.widestBar, bar + spare) }
    // Narrower than any name.
    if bar == nil { name = max(1, min(name, width - Self.percent - gap.count)) }
  }

  private var fixed: Int {
    var columns = [name, Self.percent]
    if let bar { columns.append(bar) }
    if hasLeft { columns.append(Self.left) }
    if hasRate { columns.append(Self.rate) }
    if hasSize { columns.append(Self.size) }
    if attempt > 0 { columns.append(attempt) }
    return columns.reduce(0, +) + (columns.count - 1) * gap.count
  }

  func line(_ row: WatchView.Row) -> String {
    let head = row.name.cut(to: name).padded(to: name)
    if let waits = row.waits {
      // There is room for a few words only.
      let start = width < 60 ? row.name.cut(to: name) : head
      return (start + gap + waits).cut(to: width)
    }
    var cells = [head]
    if let bar { cells.append(progressBar(bar, row.percent ?? 0)) }
    let isKnown = row.percent != nil
    cells.append((isKnown ? "\(Int(row.percent ?? 0))%" : "").padded(to: Self.percent, right: true))
    if hasSize {
      let text = isKnown || row.bytes > 0 ? Short.bytes(row.bytes, of: row.total) : ""
      cells.append(text.padded(to: Self.size, right: true))
    }
    if hasRate {
      cells.append(
        (row.rate.map { formatBytes($0) + "/s" } ?? "").padded(to: Self.rate, right: true))
    }
    if hasLeft {
      cells.append(
        (row.left.map { Short.span(seconds: $0) } ?? "").padded(to: Self.left, right: true))
    }
    if attempt > 0, row.attempt > 1 { cells.append("try \(row.attempt)") }
    var line = cells.joined(separator: gap)
    while line.utf8.last == UInt8(ascii: " ") { line.removeLast() }
    return line
  }
}

/// "[=====>    ]" of so many columns, which are at least 3.
func progressBar(_ columns: Int, _ percent: Double) -> String {
  let inner = max(1, columns - 2)
  let filled = min(inner, max(0, Int(Double(inner) * percent / 100)))
  let head = filled < inner && percent > 0 ? ">" : ""
  let rest = inner - filled - head.utf8.count
  return "[" + String(repeating: "=", count: filled) + head
    + String(repeating: " ", count: rest) + "]"
}
