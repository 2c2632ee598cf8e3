internal import Glibc
internal import Jobs
internal import Spool
internal import System
internal import TestKit
internal import Testing

@testable internal import Commands

@Suite struct LayoutTests {
  @Test func widthsAreThoseOfATerminal() {
    #expect("abc".displayWidth == 3)
    #expect("写真集".displayWidth == 6)
    #expect("한글".displayWidth == 4)
    #expect("e\u{301}".displayWidth == 1)
    #expect("\u{fffd}".displayWidth == 1)
    #expect("\u{7}".displayWidth == 0)
  }

  @Test func textsAreCutAndPaddedByColumns() {
    #expect("写真集".cut(to: 6) == "写真集")
    #expect("写真集".cut(to: 5) == "写真…")
    #expect("写真集".cut(to: 4) == "写…")
    #expect("abc".cut(to: 0) == "")
    #expect("写".padded(to: 4) == "写  ")
    #expect("写".padded(to: 4, right: true) == "  写")
    let seed = UInt64.random(in: .min ... .max)
    print("seed \(seed)")
    var random = Seeded(seed)
    for _ in 0..<2000 {
      let text = String(
        (0..<Int.random(in: 0...30, using: &random)).map { _ in
          "aé写한e\u{301}\u{200b}🙂ﬁ".randomElement(using: &random)!
        })
      let columns = Int.random(in: 1...40, using: &random)
      let cut = text.cut(to: columns)
      #expect(cut.displayWidth <= columns)
      #expect(text.displayWidth > columns || cut.hasSameBytes(as: text))
      #expect(cut.padded(to: columns).displayWidth == columns)
    }
  }

  @Test func sizesShareAUnit() {
    #expect(Short.bytes(0, of: nil) == "0 B")
    #expect(Short.bytes(5, of: 76) == "5/76 B")
    #expect(Short.bytes(437_253_120, of: 1_048_576_000) == "0.4/1.0 GB")
    #expect(Short.bytes(437_253_120, of: 999_000_000) == "437.2/999.0 MB")
    #expect(Short.bytes(999_999, of: 1_000_000) == "0.9/1.0 MB")
    #expect(Short.bytes(1_000_000, of: 1_000_000) == "1.0 MB")
    #expect(Short.bytes(7, of: 0) == "7 B")
    // What was sent of a file that shrank.
    #expect(Short.bytes(2000, of: 1000) == "2.0 kB")
    for total in [0, 1, 999, 1000, 999_949, 999_950, 999_999_999_999, Int64.max / 2] {
      #expect(Short.bytes(total / 2, of: total).count <= 14 || total > 1_000_000_000_000_000)
    }
  }

  @Test func spansAreRoundedUp() {
    #expect(Short.span(seconds: -5) == "0 s")
    #expect(Short.span(seconds: 99) == "99 s")
    #expect(Short.span(seconds: 100) == "2 min")
    #expect(Short.span(seconds: 5940) == "99 min")
    #expect(Short.span(seconds: 5941) == "2 h")
    #expect(Short.span(seconds: 172_800) == "48 h")
    #expect(Short.span(seconds: 172_801) == "3 d")
    #expect(Short.span(seconds: .max).hasSuffix(" d"))
    #expect(
      Short.count(0) == "0" && Short.count(999) == "999" && Short.count(1_234_567) == "1,234,567")
  }

  @Test func timesNearByAreShort() {
    let now = Clock.wall()
    #expect(Short.when(now + 12 * second, now: now) == "in 12 s")
    #expect(Short.when(now + 700 * second, now: now).count == "at 20:05".count)
    #expect(Short.when(now + 86400 * second, now: now).count == "at 2026-12-01 20:05".count)
    #expect(Short.when(.max, now: 0).hasPrefix("at 2262-"))
    #expect(Short.when(.min, now: .max).hasPrefix("at 1677-"))
  }

  @Test func timesAsPeopleGiveThem() {
    #expect(parseTime("+2h", now: 5) == 7200 * second + 5)
    #expect(parseTime("+30m", now: 0) == 1800 * second)
    #expect(parseTime("+3d", now: 0) == 259_200 * second)
    #expect(parseTime("1970-01-01T00:00:01Z", now: 0) == second)
    for wrong in ["", "+", "2h", "+-2h", "++2h", "+2w", "tomorrow", "2026-12-01"] {
      #expect(parseTime(wrong, now: 0) == nil, "\(wrong)")
    }
    #expect(parseTime("+1s", now: .max) == nil)
  }

  @Test func defaultNamesSortByTimeAndDiffer() {
    let names = (0..<500).map { defaultName(Int64($0) * 3_600_000 * second) }
    #expect(names == names.sorted())
    #expect(defaultName(0).hasPrefix("19700101-000000-") && defaultName(0).utf8.count == 22)
    #expect(Set((0..<1000).map { _ in defaultName(0) }).count > 990)
    #expect(names.allSatisfy { JobName.isJob(Name($0 + ".json")) })
  }

  @Test func pathsAreMadeAbsoluteWithoutResolvingLinks() throws {
    var buffer = [CChar](repeating: 0, count: 4097)
    let directory = try #require(unsafe getcwd(&buffer, 4096).map { unsafe String(cString: $0) })
    #expect(try absolutePath("a") == directory + "/a")
    #expect(try absolutePath("./a//b/./c") == directory + "/a/b/c")
    #expect(try absolutePath(".") == directory)
    #expect(try absolutePath("a/../b") == directory + "/a/../b")
    #expect(try absolutePath("/x/./y//z") == "/x/y/z")
    #expect(try absolutePath("/") == "/")
    #expect(try absolutePath("/../a/") == "/a/")
    let up = String(directory[..<directory.lastIndex(of: "/")!])
    #expect(try absolutePath("../a") == up + "/a")
    #expect(try absolutePath(String(repeating: "../", count: 50) + "a") == "/a")
    // To a string a slash with a combining accent is no slash.
    #expect(try absolutePath("x/\u{301}") == directory + "/x/\u{301}")
  }

  @Test func wordsAreQuotedForAShell() {
    for word in ["plain-1.json", "a b", "it's", "$(x)", "", "写真", "a\nb", "*"] {
      #expect(shell("printf %s \(shellQuoted(word))").out == word)
    }
  }

  @Test func aTableKeepsToItsWidth() throws {
    let now = Clock.wall()
    let test = try TestSpool()
    let long = String(repeating: "写", count: 60)
    test.job(long, in: .active)
    try test.sidecar(long, of: .active) {
      $0.title = String(repeating: "title ", count: 40)
      ($0.bytes, $0.totalBytes, $0.bytesPerSecond, $0.etaSeconds) = (
        5_000_000, 10_000_000, 999_900_000, 12
      )
      ($0.percent, $0.attempt) = (50, 3)
    }
    let name = Name(long + ".json")
    let facts = try test.spool.calls.facts(of: name, in: test.spool.active.raw)
    let report = try #require(try Report(Listed(name, .active, facts), test.spool))
    for width in 60...240 {
      let table = StatusTable(
        width: width, names: 120, hasActive: true, isColoured: false, now: now)
      #expect(table.row(report).displayWidth <= width)
      #expect(table.heading.displayWidth <= width)
      #expect(table.row(report).contains("50%") && table.row(report).contains("5.0/10.0 MB"))
    }
    let wide = StatusTable(width: 120, names: 40, hasActive: true, isColoured: true, now: now)
    #expect(wide.row(report).hasPrefix("\u{1b}[32mactive \u{1b}[0m"))
    #expect(wide.row(report).contains("999.9 MB/s") && wide.row(report).contains("12 s"))
  }

  @Test func temporariesAreToldByTheirNames() {
    let uuid = newUUID()
    #expect(Spool.temporaryOwner(Name(".\(uuid).12")) == uuid)
    #expect(Spool.temporaryOwner(Name(".\(uuid).probe")) == uuid)
    for other in ["\(uuid).lock", ".\(uuid)", ".\(uuid.uppercased())x.1", ".x.json", ""] {
      #expect(Spool.temporaryOwner(Name(other)) == nil, "\(other)")
    }
  }
}
