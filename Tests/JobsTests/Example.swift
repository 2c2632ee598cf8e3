/// A text and what is said of it.
struct Example: Sendable, CustomStringConvertible {
  var text: String
  var words: String
  var description: String { text }
}

/// From a table: each text on a line, below it the words, further in.
func examples(_ table: String) -> [Example] {
  let lines = table.split(separator: "\n").map(String.init)
  return stride(from: 0, to: lines.count - 1, by: 2).map {
    precondition(!lines[$0].hasPrefix("  ") && lines[$0 + 1].hasPrefix("  "), lines[$0])
    return Example(text: lines[$0], words: String(lines[$0 + 1].dropFirst(2)))
  }
}
