internal import Jobs
internal import TestKit
internal import Testing

@Suite struct JSONTests {
  private func refusal(_ text: String, quoting: Bool = true) -> JSON.Failure? {
    do throws(JSON.Failure) {
      _ = try JSON(parsing: Array(text.utf8), quoting: quoting)
      return nil
    } catch {
      return error
    }
  }

  @Test func membersKeepTheirOrder() throws {
    let json = try JSON(parsing: Array(#"{"z": 1, "a": 2, "m": [true, null, 1.5, "x"]}"#.utf8))
    #expect(json.members.map(\.key) == ["z", "a", "m"])
    #expect(json.member("a")?.integer == 2)
    let list = try #require(json.member("m"))
    #expect(list.count == 4)
    #expect((0..<4).map { list.element($0)?.kind } == [.boolean, .null, .real, .string])
    #expect(list.element(0)?.boolean == true)
    #expect(list.element(2)?.number == 1.5)
    #expect(list.element(4) == nil)
    #expect(list.element(-1) == nil)
    #expect(json.string == nil)
  }

  @Test func aValueOutlivesTheTextItCameFrom() throws {
    func inner() throws -> JSON? { try JSON(parsing: Array(#"{"a": "kept"}"#.utf8)).member("a") }
    #expect(try inner()?.string == "kept")
  }

  @Test(arguments: [
    ("", "line 1, column 1: the file is empty"),
    (" \n\t", "line 1, column 1: the file is empty"),
    ("{\"to\": \"a", "line 1, column 9: the text ends too early"),
    ("{\n  \"a\": 1,\n}", "line 3, column 1: string or '}' expected near '}'"),
    ("{} {}", "line 1, column 4: end of file expected near '{'"),
    ("\"\\ud800\"", "line 1, column 8: invalid Unicode '\\uD800' near '\"\\ud800\"'"),
    ("{\"a\": nan}", "line 1, column 9: invalid token near 'nan'"),
  ])
  func aTextThatMayStillGrowIsASyntaxError(text: String, words: String) {
    guard case .syntax(let what) = refusal(text) else {
      Issue.record("\(String(describing: refusal(text)))")
      return
    }
    #expect(what.description == words)
  }

  @Test(arguments: [
    ("{\"a\": 1,\n\"a\": 2}", "line 2, column 3: duplicate object key near '\"a\"'"),
    ("[9223372036854775808]", "line 1, column 20: too big integer near '9223372036854775808'"),
    ("[1e400]", "line 1, column 6: real number overflow near '1e400'"),
    ("[\"a\\u0000\"]", "line 1, column 10: \\u0000 is not allowed"),
  ])
  func whatNoFurtherByteCanMendIsForbidden(text: String, words: String) {
    guard case .forbidden(let what) = refusal(text) else {
      Issue.record("\(String(describing: refusal(text)))")
      return
    }
    #expect(what.description == words)
  }

  @Test func rawNULBytesAreASyntaxError() {
    for text in ["\0\0\0\0", "{\"to\": \"\0\0", "{}\0"] {
      guard case .syntax = refusal(text) else {
        Issue.record("\(text.printable())")
        continue
      }
    }
  }

  @Test func nestingWithoutEndIsRefusedAndTheDeepestAllowedIsRead() throws {
    for text in ["[", "{\"a\":"].map({ String(repeating: $0, count: 200_000) }) {
      guard case .forbidden = refusal(text) else {
        Issue.record("not refused")
        continue
      }
    }
    let deep = String(repeating: "[", count: 2000) + String(repeating: "]", count: 2000)
    #expect(try JSON(parsing: Array(deep.utf8)).compact == deep)
  }

  @Test func anErrorWithoutQuotingRepeatsNothing() {
    for text in [
      "{\"token\": \"hunter2\" \"b\": 1}", "{\"token\": \"hunter2\n\"}", "{\"token\": hunter2}",
      "{\"hunter2\": 1, \"hunter2\": 2}", "[\"hunter2", "hunter2",
    ] {
      let error = refusal(text, quoting: false)
      #expect(error != nil)
      #expect(!String(describing: error).contains("hunter"))
    }
  }

  @Test func aByteOrderMarkIsSkipped() throws {
    #expect(try JSON(parsing: [0xef, 0xbb, 0xbf] + Array("[1]".utf8)).count == 1)
    guard case .syntax = refusal("\u{feff}") else {
      Issue.record("a mark alone is no text")
      return
    }
  }

  @Test(arguments: [
    #"{"b":[1,-2,1.1,1e+300,true,false,null],"a":{"":"x"}}"#, #""ü\"\\\n\u0007\u007f\u0085""#,
    "9223372036854775807", "-9223372036854775808", "-0.0", "5e-324",
  ])
  func compactTextIsTheSameAgain(text: String) throws {
    #expect(try JSON(parsing: Array(text.utf8)).compact == text)
  }

  /// A job is read while it is being written, and by people's editors: whatever the bytes are,
  /// there is an answer.
  @Test func brokenTextsNeverCrash() {
    var random = Seeded(for: "brokenTextsNeverCrash")
    let whole = Array(
      #"{"to": "a:b/", "files": ["/ü", {"path": "/x", "as": "y"}], "x-a": [1.5e3, "\u00e9"]}"#.utf8)
    for _ in 0..<20_000 {
      var bytes = whole
      for _ in 0..<Int.random(in: 0...3, using: &random) {
        bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(
          in: 0...255, using: &random)
      }
      bytes.removeLast(Int.random(in: 0...bytes.count, using: &random))
      if let json = try? JSON(parsing: bytes) { _ = json.compact }
      _ = try? Job.decode(bytes)
      _ = Sidecar.decode(bytes)
    }
  }

  @Test func nearestFindsTheWordWithTheFewestEdits() {
    let known = ["to", "files", "notBefore", "priority"]
    #expect(nearest("notbefore", among: known) == "notBefore")
    #expect(nearest("prioirty", among: known) == "priority")
    #expect(nearest("file", among: known) == "files")
    #expect(nearest("", among: known) == "to")
    #expect(nearest("x", among: []) == nil)
    #expect(nearest(String(repeating: "x", count: 1 << 20), among: known) != nil)
  }

  @Test func printableTextCannotMoveACursor() {
    #expect("a\u{1b}[31m\n\u{85}\u{202e}b".printable() == "a\u{fffd}[31m\u{fffd}\u{fffd}\u{fffd}b")
    #expect(String(repeating: "ü", count: 200).printable(limit: 9) == "üüüü…")
    #expect("plain ü".printable() == "plain ü")
    #expect("a\u{9c}".hasControlCharacters && !"aü»".hasControlCharacters)
    #expect(!"e\u{301}".hasSameBytes(as: "\u{e9}") && "é".hasSameBytes(as: "é"))
  }
}
