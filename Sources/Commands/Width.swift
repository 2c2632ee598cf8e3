internal import CLinux

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

extension Unicode.Scalar {
  /// Columns; a control character counts as none.
  var displayWidth: Int {
    0x20...0x7e ~= value ? 1 : max(0, Int(clinux_character_width(value)))
  }
}
