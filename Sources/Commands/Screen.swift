/// Lines at the end of a terminal's text that are drawn again in place; what is told for good goes
/// above them, into the scrollback.
///
/// It gives the text to write, and knows what it wrote last. No alternate screen: all stays when the
/// command has ended.
struct Screen {
  private var drawn: [String] = []
  private var width = 0

  static let hideCursor = "\u{1b}[?25l"
  static let showCursor = "\u{1b}[?25h"
  private static let clearLine = "\u{1b}[K"
  private static let clearBelow = "\u{1b}[J"

  /// `frame` in the place of the last one, below the lines `above`; none of them is wider than
  /// `width`, and there are fewer than `height` in `frame`. Empty when nothing is different.
  mutating func draw(_ frame: [String], above: [String], width: Int, height: Int) -> String {
    if frame == drawn, above.isEmpty, width == self.width { return "" }
    // A terminal that became narrower has wrapped what was there.
    let rows = drawn.reduce(0) { $0 + max(1, ($1.displayWidth + width - 1) / max(1, width)) }
    // Whatever was typed meanwhile stands where the cursor is.
    var out = "\r"
    let up = min(rows, max(0, height - 1))
    if up > 0 { out += "\u{1b}[\(up)A" }
    for line in above + frame {
      out += line
      // Behind a full line the cursor still stands on its last character.
      if line.displayWidth < width { out += Self.clearLine }
      out += "\n"
    }
    out += Self.clearBelow
    (drawn, self.width) = (frame, width)
    return out
  }

  /// What is there stays; the next frame goes below it.
  mutating func leave() { drawn = [] }
}
