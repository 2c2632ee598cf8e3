internal import CLinux
internal import Jobs

extension StringProtocol {
  /// Columns that it takes on a terminal: two for CJK characters and the like, none for combining
  /// marks (wcwidth(3)).
  var displayWidth: Int { unicodeScalars.reduce(0) { $0 + $1.displayWidth } }

  /// With spaces up to so many columns.
  func padded(to columns: Int, right: Bool = false) -> String {
    let spaces = String(repeating: " ", count: Swift.max(0, columns - displayWidth))
    return right ? spaces + self : self + spaces
  }

  /// Cut to so many columns, with an ellipsis where something was cut.
  func cut(to columns: Int) -> String {
    if utf8.count <= columns || displayWidth <= columns { return String(self) }
    var out = String.UnicodeScalarView()
    var used = 0
    for scalar in unicodeScalars {
      let width = scalar.displayWidth
      if used + width > columns - 1 { break }
      used += width
      out.append(scalar)
    }
    return columns > 0 ? String(out) + "…" : ""
  }
}

extension String {
  /// Printable, and without characters whose width nobody knows: what comes of it takes as many
  /// columns as `displayWidth` says.
  func shown(limit: Int = 1024) -> String {
    let text = printable(limit: limit)
    if text.utf8.allSatisfy({ $0 < 0x80 }) { return text }
    var out = String.UnicodeScalarView()
    for scalar in text.unicodeScalars {
      out.append(clinux_character_width(scalar.value) < 0 ? "\u{fffd}" : scalar)
    }
    return String(out)
  }

  /// In lines of at most so many columns, broken at spaces, longer words anywhere; all but the
  /// first are indented.
  func folded(to columns: Int) -> [String] {
    if displayWidth <= columns { return [self] }
    let indent = columns >= 20 ? "  " : ""
    var lines: [String] = []
    // Its own indent stays.
    var line = columns >= 20 ? String(prefix { $0 == " " }.prefix(columns / 2)) : ""
    let start = line
    func room() -> Int { columns - line.displayWidth }
    for word in split(separator: " ") {
      let gap = line.isEmpty || line == indent || lines.isEmpty && line == start ? "" : " "
      if gap.count + word.displayWidth <= room() {
        line += gap + word
        continue
      }
      if !gap.isEmpty {
        lines.append(line)
        line = indent
      }
      for scalar in word.unicodeScalars {
        if scalar.displayWidth > room(), line != indent, !line.isEmpty {
          lines.append(line)
          line = indent
        }
        line.unicodeScalars.append(scalar)
      }
    }
    return lines + [line]
  }
}

extension Unicode.Scalar {
  /// Columns; a control character counts as none.
  var displayWidth: Int {
    0x20...0x7e ~= value ? 1 : max(0, Int(clinux_character_width(value)))
  }
}
