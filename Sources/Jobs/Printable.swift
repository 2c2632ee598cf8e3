/// Text of others, made fit for one line of a terminal or a log.
extension String {
  /// Control characters become U+FFFD; after `limit` bytes it is cut, with an ellipsis.
  package func printable(limit: Int = 200) -> String {
    // Nearly always there is nothing to do.
    if utf8.count <= limit, utf8.allSatisfy({ 0x20..<0x7f ~= $0 }) { return self }
    var out = String.UnicodeScalarView()
    var bytes = 0
    for scalar in unicodeScalars {
      bytes += UTF8.width(scalar)
      if bytes > limit {
        out.append("…")
        break
      }
      let isControl = scalar.value < 0x20 || 0x7f...0x9f ~= scalar.value
      // Line and paragraph separators and the marks that turn the writing direction.
      let isTrick =
        0x2028...0x202e ~= scalar.value || 0x2066...0x2069 ~= scalar.value
      out.append(isControl || isTrick ? "\u{fffd}" : scalar)
    }
    return String(out)
  }

  /// Printable, cut at 80 bytes, in double quotes.
  package var quoted: String { "\"\(printable(limit: 80))\"" }

  /// Whether a C0 or C1 control character (or DEL) is in it.
  package var hasControlCharacters: Bool {
    var previous: UInt8 = 0
    for byte in utf8 {
      if byte < 0x20 || byte == 0x7f || (previous == 0xc2 && byte < 0xa0) { return true }
      previous = byte
    }
    return false
  }

  /// Byte for byte, as file systems and servers compare. (`==` is by canonical equivalence: it
  /// takes a composed and a decomposed é for the same name.)
  package func hasSameBytes(as other: String) -> Bool { utf8.elementsEqual(other.utf8) }
}

extension StringProtocol {
  /// Where the bytes of `mark` stand first, however they combine with what follows. (The searches
  /// of `String` look at whole characters: to them a slash with a combining accent is no slash.)
  package func firstBytes(_ mark: String) -> Range<String.Index>? {
    var from = utf8.startIndex
    while from < utf8.endIndex {
      if utf8[from...].starts(with: mark.utf8) {
        return from..<utf8.index(from, offsetBy: mark.utf8.count)
      }
      from = utf8.index(after: from)
    }
    return nil
  }
}
