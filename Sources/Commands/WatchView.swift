internal import Jobs
internal import System

/// What `watch` shows of one moment: values only, so that any width and height can be tried.
struct WatchFrame {
  struct Row {
    var name: String
    var percent: Double
    var bytes: Int64 = 0
    var totalBytes: Int64?
    var rate: Int64?
    /// Seconds.
    var eta: Int64?
    var attempt = 1
  }
  var running: [Row] = []
  /// Jobs by state.
  var counts: [(Place: String, count: Int)] = []
  /// 0 to 100 of all that is watched; nil when nothing is known of it.
  var percent: Double?
  /// Hold, no worker, destinations in trouble.
  var notices: [String] = []

  /// Lines of at most `width` columns, at most `height` of them.
  func lines(width: Int, height: Int) -> [String] {
    let below = min(notices.count, max(0, height - 3)) + 2
    let room = max(1, height - below)
    let shown = running.count > room ? max(0, room - 1) : running.count
    let names = min(
      max(3, running.prefix(shown).map { $0.name.displayWidth }.max() ?? 3), max(3, width * 3 / 10))
    let layout = Layout(width: width, name: names)
    var out = running.prefix(shown).map { layout.line($0) }
    if shown < running.count { out.append("and \(running.count - shown) more".cut(to: width)) }
    let rate = running.compactMap(\.rate).reduce(0, +)
    out.append(
      layout.line(
        Row(
          name: "all", percent: percent ?? 0, rate: rate > 0 ? rate : nil,
          eta: running.count == 1 ? running[0].eta : nil)))
    out.append(
      counts.map { "\(Short.count($0.count)) \($0.Place)" }.joined(separator: ", ").cut(to: width))
    out += notices.prefix(below - 2).map { $0.printable(limit: 1000).cut(to: width) }
    return out
  }

  /// Columns by what fits: the percentage always, then the time left, the rate, the size; the bar
  /// takes what is left.
  private struct Layout {
    let name: Int
    private let bar: Int
    private let hasEta: Bool
    private let hasRate: Bool
    private let hasSize: Bool
    private let width: Int

    init(width: Int, name: Int) {
      (self.width, self.name) = (width, name)
      hasEta = width >= 36
      hasRate = width >= 52
      hasSize = width >= 76
      let fields = 5 + (hasEta ? 8 : 0) + (hasRate ? 12 : 0) + (hasSize ? 16 : 0)
      let left = width - name - fields - 1
      bar = left >= 5 ? min(left, 60) : 0
    }

    func line(_ row: Row) -> String {
      var out = row.name.printable(limit: 1024).cut(to: name).padded(to: name)
      if bar > 0 { out += " " + Self.bar(row.percent, bar) }
      out += " " + "\(Int(row.percent))%".padded(to: 4, right: true)
      if hasSize {
        let size = row.totalBytes == nil && row.bytes == 0
        out +=
          "  "
          + (size ? "" : Short.bytes(row.bytes, of: row.totalBytes)).padded(to: 14, right: true)
      }
      if hasRate {
        out +=
          "  "
          + (row.rate.map { Short.bytes($0, of: nil) + "/s" } ?? "").padded(to: 10, right: true)
      }
      if hasEta {
        out += "  " + (row.eta.map { Short.span(seconds: $0) } ?? "").padded(to: 6, right: true)
      }
      if row.attempt > 1, width - out.displayWidth >= 8 { out += "  try \(row.attempt)" }
      while out.utf8.last == UInt8(ascii: " ") { out.removeLast() }
      return out.cut(to: width)
    }

    private static func bar(_ percent: Double, _ columns: Int) -> String {
      let inner = columns - 2
      let full = percent >= 100 ? inner : min(inner - 1, Int(percent * Double(inner) / 100))
      let filled = String(repeating: "=", count: max(0, full))
      let head = full < inner && percent > 0 ? ">" : ""
      return "[" + (filled + head).padded(to: inner) + "]"
    }
  }
}

/// The line that stays when a watched job comes to a state.
func watchLine(_ name: String, _ sidecar: Sidecar?, _ state: String) -> String {
  var text = "\(state) \(name)"
  guard let sidecar else { return text.printable(limit: 4096) }
  switch state {
  case "done":
    if let first = sidecar.duplicateOf {
      text += ": the same work as \(first)"
    } else {
      let files = sidecar.files.count == 1 ? "1 file" : "\(sidecar.files.count) files"
      text += ": \(files), \(Short.bytes(sidecar.bytes, of: nil))"
      if let start = sidecar.startedAt, let end = sidecar.finishedAt {
        text += " in \(Short.span(seconds: max(0, end - start) / second))"
      }
    }
  case "failed":
    if let error = sidecar.error {
      text += ": \(error.message)"
      if let advice = error.advice { text += "; \(advice)" }
    }
  case "pending":
    if let error = sidecar.error { text += ": \(error.message)" }
  case "paused": text += " at \(Int(sidecar.percent))%"
  default: break
  }
  return text.printable(limit: 4096)
}

/// A running job in a line, where there is no terminal to draw bars on.
func watchProgress(_ row: WatchFrame.Row) -> String {
  var text = "active \(row.name): \(Int(row.percent))%"
  if row.totalBytes != nil { text += ", \(Short.bytes(row.bytes, of: row.totalBytes))" }
  if let rate = row.rate { text += ", \(Short.bytes(rate, of: nil))/s" }
  if let eta = row.eta { text += ", \(Short.span(seconds: eta)) left" }
  return text.printable(limit: 4096)
}
