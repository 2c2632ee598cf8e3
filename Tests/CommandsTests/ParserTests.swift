internal import System
internal import TestKit
internal import Testing

@testable internal import Commands

/// Serialised: getopt_long keeps its place in globals.
@Suite(.serialized) struct ParserTests {
  private func call(_ words: [String], _ command: String = "submit") throws -> Invocation {
    let command = try #require(commands.first { $0.name == command })
    return try parse(words.map { Name($0) }, command.options + [helpOption])
  }
  private func fault(_ words: [String], _ command: String = "submit") -> String? {
    do {
      _ = try call(words, command)
      return nil
    } catch {
      return (error as? UsageError)?.text
    }
  }

  @Test func optionsAndOperandsStandInAnyOrder() throws {
    for words in [
      ["a", "--to", "x:", "b", "-p", "3"], ["--to=x:", "a", "-p3", "b"],
      ["-tx:", "-p", "3", "a", "b"],
      ["--to", "x:", "-p3", "--", "a", "b"],
    ] {
      let invocation = try call(words)
      #expect(invocation.operands == [Name("a"), Name("b")])
      #expect(try invocation.text(.to) == "x:")
      #expect(try invocation.integer(.priority, 0...9) == 3)
      #expect(!invocation.has(.hold))
    }
  }

  @Test func whatFollowsTwoDashesIsNoOption() throws {
    let invocation = try call(["--hold", "--", "--to", "-x"])
    #expect(invocation.operands == [Name("--to"), Name("-x")])
    #expect(invocation.has(.hold) && !invocation.has(.to))
  }

  @Test func theLastOfSeveralCountsAndListsKeepTheirOrder() throws {
    let invocation = try call(["--to", "a:", "--x", "k=1", "--to", "b:", "--x", "l=2", "--name="])
    #expect(try invocation.text(.to) == "b:")
    #expect(try invocation.texts(.x) == ["k=1", "l=2"])
    #expect(try invocation.text(.name) == "")
  }

  @Test func noOptionMayBeAbbreviated() {
    for command in commands {
      let names = (command.options + [helpOption]).map { $0.name.rawValue }
      for option in command.options + [helpOption] {
        let name = option.name.rawValue
        for length in 1..<max(2, name.count) where !names.contains(String(name.prefix(length))) {
          let short = "--" + name.prefix(length)
          for words in option.argument == nil ? [[short]] : [[short, "1"], ["\(short)=1"]] {
            #expect(
              fault(words, command.name)?.hasPrefix("unknown option \(short)") == true,
              "\(command.name) \(words)")
          }
        }
      }
    }
  }

  @Test func anUnknownOptionNamesTheNearest() {
    #expect(
      fault(["--prioirty", "3"]) == "unknown option --prioirty; the nearest known one is --priority"
    )
    #expect(fault(["--nam=x"]) == "unknown option --nam; the nearest known one is --name")
    #expect(fault(["-hZ"]) == "unknown option -Z")
    #expect(fault(["-é"])?.hasPrefix("unknown option -\\xc3") == true)
  }

  @Test func argumentsThatAreMissingOrTooManyAreTold() {
    #expect(fault(["--to"]) == "\"--to\" needs an argument")
    #expect(fault(["f", "-t"]) == "\"-t\" needs an argument")
    #expect(fault(["--hold=yes"])?.hasPrefix("--hold takes no argument") == true)
  }

  @Test func optionsOfLaterVersionsAreToldApartFromUnknownOnes() {
    for words in [["--param", "a=b"], ["--notify=http://x/"], ["--wait"]] {
      #expect(fault(words)?.hasSuffix("this version doesn't know this option yet") == true)
    }
  }

  @Test func valuesThatDoNotFitAreToldWithTheirOption() throws {
    let invocation = try call(["-p", "12", "--on-error", "go", "--to", "\u{1}"])
    #expect(throws: UsageError("--priority: must be a whole number from 0 to 9, not \"12\"")) {
      try invocation.integer(.priority, 0...9)
    }
    let spans = try call(["--grace", "soon"], "run")
    #expect(throws: UsageError.self) { try spans.span(.grace) }
    #expect(try call(["--grace", "1.5"], "run").span(.grace) == 1_500_000_000)
    #expect(try call(["--grace", "2m"], "run").span(.grace) == 120 * second)
  }

  @Test func anyBytesAreParsedWithoutHarmAndOperandsKeepTheirs() throws {
    let seed = UInt64.random(in: .min ... .max)
    print("seed \(seed)")
    var random = Seeded(seed)
    let pieces: [[UInt8]] = [
      Array("--".utf8), Array("-".utf8), Array("--to".utf8), Array("=".utf8), Array("-p".utf8),
      Array("--hold".utf8), Array("--field=".utf8),
    ]
    for _ in 0..<3000 {
      let words = (0..<Int.random(in: 0...6, using: &random)).map { _ -> Name in
        var bytes: [UInt8] = []
        for _ in 0..<Int.random(in: 0...3, using: &random) {
          if Bool.random(using: &random) {
            bytes += pieces.randomElement(using: &random)!
          } else {
            bytes += (0..<Int.random(in: 0...4, using: &random)).map { _ in
              UInt8.random(in: 1...255, using: &random)
            }
          }
        }
        return Name(bytes: bytes)
      }
      let command = commands.randomElement(using: &random)!
      _ = try? parse(words, command.options + [helpOption])
      let behind = try parse([Name("--")] + words, command.options)
      #expect(behind.operands == words)
    }
  }

  @Test func theTableHasNothingTwice() {
    #expect(Set(commands.map(\.name)).count == commands.count)
    for command in commands {
      let options = command.options + [helpOption]
      #expect(Set(options.map(\.name)).count == options.count, "\(command.name)")
      let letters = options.compactMap(\.letter)
      #expect(Set(letters).count == letters.count, "\(command.name)")
      #expect(options.allSatisfy { $0.isLater || !$0.help.isEmpty }, "\(command.name)")
      // What the C side has room for.
      #expect(options.count <= 64 && options.map(\.usage).joined().utf8.count < 2000)
    }
  }
}
