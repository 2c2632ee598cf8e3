internal import Jobs
internal import System
internal import TestKit
internal import Testing

@testable internal import Commands

@Suite struct WatchViewTests {
  private func row(
    _ name: String, _ percent: Double?, _ bytes: Int64, of total: Int64?, rate: Int64? = nil,
    left: Int64? = nil, attempt: Int = 1
  ) -> WatchView.Row {
    var row = WatchView.Row(name)
    (row.percent, row.bytes, row.total) = (percent, bytes, total)
    (row.rate, row.left, row.attempt) = (rate, left, attempt)
    return row
  }
  private func waiting(_ name: String, _ reason: String) -> WatchView.Row {
    var row = WatchView.Row(name)
    row.waits = "waits: \(reason)"
    return row
  }
  /// Two that run, one that waits, one whose size nobody knows yet.
  private var example: WatchView {
    var view = WatchView()
    view.rows = [
      row("nightly", 41.7, 417_000_000, of: 999_000_000, rate: 52_428_800, left: 12),
      row("写真集-november", 5, 5_000_000, of: 100_000_000, rate: 10_000_000, left: 10, attempt: 3),
      row("begins", nil, 0, of: nil),
      waiting("later", "again in 4 s; HTTP 500"),
    ]
    view.whole.counts = [(.active, 3), (.pending, 1), (.done, 12)]
    (view.whole.bytes, view.whole.total) = (422_000_000, 1_099_000_000)
    (view.whole.rate, view.whole.isLeast) = (62_428_800, true)
    let now = 1_000_000 * second
    view.circuits = [
      OpenCircuit(
        destination: "nas", reason: "unreachable", since: now, until: now + 5 * second, failures: 2)
    ]
    return view
  }
  private func lines(_ view: WatchView, _ width: Int, _ height: Int = 24) -> [String] {
    view.lines(width: width, height: height, now: 1_000_000 * second)
  }
  /// A clock's time depends on where the test runs.
  private func withoutTimes(_ lines: [String]) -> [String] {
    lines.map { line in
      line.split(separator: " ", omittingEmptySubsequences: false).map { word in
        word.utf8.count == 6
          && word.utf8.dropLast().elementsEqual("00:00".utf8) { a, b in
            b == 0x30 ? 0x30...0x39 ~= a : a == b
          } ? "hh:mm;" : String(word)
      }.joined(separator: " ")
    }
  }

  @Test func eightyColumnsHoldEverything() {
    #expect(
      withoutTimes(lines(example, 80)) == [
        "nightly          [=====>      ]   41%  417.0/999.0 MB   52.4 MB/s    12 s",
        "写真集-november  [>           ]    5%    5.0/100.0 MB   10.0 MB/s    10 s  try 3",
        "begins           [            ]",
        "later            waits: again in 4 s; HTTP 500",
        "3 active, 1 pending, 12 done  [======>         ]   38%   62.4 MB/s    >11 s left",
        "destination nas can't be reached since hh:mm; next try in 5 s (2 failed)",
      ])
  }

  @Test func fortyColumnsHoldTheBarAndTheTimeLeft() {
    #expect(
      withoutTimes(lines(example, 40)) == [
        "nightly      [==>    ]  41%   12 s",
        "写真集-nove… [>      ]   5%   10 s try 3",
        "begins       [       ]",
        "later waits: again in 4 s; HTTP 500",
        "3 active, 1 pending, 12 done  38%",
        "destination nas can't be reached since",
        "  hh:mm; next try in 5 s (2 failed)",
      ])
  }

  @Test func twentyColumnsHoldNameAndPercentage() {
    #expect(
      withoutTimes(lines(example, 20)) == [
        "nightly          41%",
        "写真集-november   5%",
        "begins",
        "later waits: again …",
        "3 active, 1 pending…",
        "destination nas",
        "  can't be reached",
        "  since hh:mm; next",
        "  try in 5 s (2",
        "  failed)",
      ])
  }

  @Test func noLineIsEverWiderThanTheTerminalOrHigher() {
    let seed = UInt64.random(in: .min ... .max)
    print("seed \(seed)")
    var random = Seeded(seed)
    func name() -> String {
      String(
        (0..<Int.random(in: 0...40, using: &random)).map { _ in
          ["a", "-", "写", "한", "e\u{301}", "\u{200b}", "🙂", "ﬁ", "\u{1b}", "\n", "\u{e000}"]
            .randomElement(using: &random)!
        }.joined()
      ).shown()
    }
    func number() -> Int64 {
      [0, 1, 999, 999_949, 999_950, 5_000_000_000, .max / 4, .max].randomElement(using: &random)!
    }
    func maybe(_ number: Int64) -> Int64? { Bool.random(using: &random) ? number : nil }
    for _ in 0..<1500 {
      var view = WatchView()
      for _ in 0..<Int.random(in: 0...30, using: &random) {
        if Int.random(in: 0...3, using: &random) == 0 {
          view.rows.append(waiting(name(), name() + " " + name()))
        } else {
          view.rows.append(
            row(
              name(),
              Bool.random(using: &random) ? Double.random(in: 0...100, using: &random) : nil,
              number(), of: maybe(number()), rate: maybe(number()), left: maybe(number()),
              attempt: Int.random(in: 0...1200, using: &random)))
        }
      }
      for state in Sidecar.State.allCases where Bool.random(using: &random) {
        view.whole.counts.append((state, Int.random(in: 1...100_000, using: &random)))
      }
      view.whole.bytes = number()
      view.whole.total = maybe(number())
      view.whole.rate = maybe(number())
      for _ in 0..<Int.random(in: 0...4, using: &random) { view.concerns.append(name()) }
      let width = Int.random(in: 1...120, using: &random)
      let height = Int.random(in: 1...40, using: &random)
      let lines = view.lines(width: width, height: height, now: 0)
      #expect(lines.allSatisfy { $0.displayWidth <= width }, "\(width): \(lines)")
      #expect(lines.count <= max(1, height - 1), "\(height): \(lines)")
      #expect(lines.allSatisfy { line in !line.hasControlCharacters })
      if width >= 20, let first = view.rows.first, first.waits == nil, height > 12 {
        if let percent = first.percent {
          #expect(lines[0].contains("\(Int(percent))%"), "\(lines)")
        }
      }
    }
  }

  @Test func combiningNamesStandInColumns() {
    var view = WatchView()
    view.rows = [
      row("e\u{301}tude", 50, 1, of: 2), row("étude", 50, 1, of: 2), row("한글", 50, 1, of: 2),
      row(String(repeating: "写", count: 50), 50, 1, of: 2),
    ]
    view.whole.counts = [(.active, 4)]
    for width in [30, 40, 80, 200] {
      let bars = lines(view, width).dropLast().map { line in
        line[..<(line.firstIndex(of: "[") ?? line.startIndex)].displayWidth
      }
      #expect(Set(bars).count == 1, "\(bars)")
    }
  }

  @Test func aJobOfNoBytesAndOneOfUnknownSizeHaveNoWrongNumbers() {
    var view = WatchView()
    view.rows = [
      row("empty", 0, 0, of: 0), row("unknown", nil, 5_000_000, of: nil, rate: 1_000_000),
    ]
    view.whole.counts = [(.active, 2)]
    view.whole.total = 0
    view.whole.isLeast = true
    #expect(
      lines(view, 80) == [
        "empty    [                           ]    0%             0 B",
        "unknown  [                           ]                5.0 MB    1.0 MB/s",
        "2 active  [                    ]                   0 B",
      ])
  }

  @Test func thirtyJobsInTenRowsAreCutWithTheirNumber() {
    var view = WatchView()
    view.rows = (0..<30).map { row("job-\($0)", Double($0), 1, of: 100) }
    view.whole.counts = [(.active, 30)]
    view.concerns = ["no worker runs here"]
    let lines = lines(view, 40, 10)
    #expect(lines.count == 9)
    #expect(lines[5].hasPrefix("job-5 ") && lines[6] == "and 24 more")
    #expect(lines[7].hasPrefix("30 active") && lines[8] == "no worker runs here")
    // What fits exactly isn't cut.
    view.rows.removeLast(23)
    #expect(self.lines(view, 40, 10)[6].hasPrefix("job-6 "))
    // Hardly a screen at all.
    #expect(self.lines(view, 40, 2).count == 1)
    #expect(self.lines(view, 40, 1).count == 1)
  }

  @Test func theTimeLeftOfTheWholeIsForWhatIsKnown() {
    var whole = WatchView.Whole()
    #expect(whole.left == nil && whole.percent == nil)
    (whole.bytes, whole.total, whole.rate) = (999, 1000, 10)
    #expect(whole.left == 1 && whole.percent == 99)
    whole.bytes = 1000
    #expect(whole.left == nil && whole.percent == 100)
    // Only what is over looks like all of it.
    whole.counts = [(.active, 1)]
    #expect(whole.percent == 99)
    (whole.bytes, whole.total, whole.rate) = (0, .max, .max)
    #expect(whole.left == 1)
    #expect(Int64.max.adding(1) == .max)
  }

  @Test func longTextsAreFoldedAtSpacesAndLongWordsAnywhere() {
    #expect("short".folded(to: 20) == ["short"])
    #expect(
      "failed nightly: the server answered 500".folded(to: 20) == [
        "failed nightly: the", "  server answered", "  500",
      ])
    #expect(
      ("see http://" + String(repeating: "写", count: 12)).folded(to: 20) == [
        "see", "  http://写写写写写", "  写写写写写写写",
      ])
    #expect(
      "  → the server knows who asks".folded(to: 20) == ["  → the server knows", "  who asks"])
    for width in 1...60 {
      for text in ["→ a \(String(repeating: "e\u{301}", count: 90)) b", "写真 集", " ", ""] {
        #expect(text.folded(to: width).allSatisfy { $0.displayWidth <= max(2, width) })
      }
    }
  }

  @Test func namesWithoutAKnownWidthBecomeAMark() {
    #expect("a\u{1b}[2Jb".shown() == "a\u{fffd}[2Jb")
    #expect("写e\u{301}".shown() == "写e\u{301}")
    #expect("\u{e0080}x".shown() == "\u{fffd}x")
  }

  // MARK: The screen

  /// A terminal of some columns and lines, as far as it takes for what `Screen` writes.
  private struct Terminal {
    var lines: [[Character]] = [[]]
    var row = 0
    var column = 0
    mutating func write(_ text: String) {
      var rest = Substring(text)
      while let character = rest.first {
        rest = rest.dropFirst()
        switch character {
        case "\r": column = 0
        case "\n":
          (row, column) = (row + 1, 0)
          if row == lines.count { lines.append([]) }
        case "\u{1b}":
          let end = rest.firstIndex { $0.isLetter }!
          let number = Int(rest[rest.index(after: rest.startIndex)..<end]) ?? 0
          switch rest[end] {
          case "A": row = max(0, row - number)
          case "K": lines[row] = Array(lines[row].prefix(column))
          case "J":
            lines = Array(lines.prefix(row + 1))
            lines[row] = Array(lines[row].prefix(column))
          default: break
          }
          rest = rest[rest.index(after: end)...]
        default:
          while lines[row].count < column { lines[row].append(" ") }
          if column < lines[row].count {
            lines[row][column] = character
          } else {
            lines[row].append(character)
          }
          column += 1
        }
      }
    }
    var text: [String] { lines.map { String($0) } }
  }

  @Test func aFrameIsDrawnInPlaceAndEndsStayAbove() {
    var screen = Screen()
    var terminal = Terminal()
    terminal.write("$ upspool watch\n")
    func draw(_ frame: [String], above: [String] = []) {
      terminal.write(screen.draw(frame, above: above, width: 10, height: 24))
    }
    draw(["one 10%", "two 10%", "whole"])
    draw(["one 20%", "two 1%", "0123456789"])
    #expect(terminal.text == ["$ upspool watch", "one 20%", "two 1%", "0123456789", ""])
    draw(["two 50%", "w"], above: ["done one"])
    #expect(terminal.text == ["$ upspool watch", "done one", "two 50%", "w", ""])
    // Something typed meanwhile, as ^C.
    terminal.write("^C")
    draw(["w"], above: ["done two: a", "  b"])
    #expect(terminal.text == ["$ upspool watch", "done one", "done two: a", "  b", "w", ""])
    #expect(screen.draw(["w"], above: [], width: 10, height: 24).isEmpty)
    draw([])
    #expect(terminal.text.last == "" && terminal.text.count == 5)
  }

  @Test func aTerminalThatBecameNarrowerIsClearedOfWrappedLines() {
    var screen = Screen()
    _ = screen.draw(["0123456789", "01234"], above: [], width: 10, height: 24)
    // The first takes two rows now.
    #expect(screen.draw(["a"], above: [], width: 5, height: 24).hasPrefix("\r\u{1b}[3A"))
    // Never above the top of the screen.
    _ = screen.draw(["0123456789", "01234"], above: [], width: 10, height: 24)
    #expect(screen.draw(["a"], above: [], width: 1, height: 8).hasPrefix("\r\u{1b}[7A"))
    screen.leave()
    #expect(screen.draw(["a"], above: [], width: 5, height: 8).hasPrefix("\ra"))
  }
}
