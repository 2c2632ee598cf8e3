internal import Spool
internal import TestKit
internal import Testing

@testable internal import Commands

@Suite struct HelpTests {
  @Test func everyCommandExplainsItselfOnStandardOutput() {
    for command in commands {
      for words in [[command.name, "--help"], [command.name, "x", "-h"], ["help", command.name]] {
        let result = upspool(words)
        #expect(result.code == 0 && result.err.isEmpty, "\(words)")
        #expect(result.out.hasPrefix("Usage: upspool \(command.name)"), "\(words)")
        for option in command.options where !option.isLater {
          #expect(result.out.contains("--\(option.name.rawValue)"), "\(words)")
        }
        #expect(result.lines.allSatisfy { $0.displayWidth <= 80 }, "\(words)")
      }
    }
  }

  @Test func theOverviewNamesEveryCommand() {
    let asked = upspool(["--help"])
    #expect(asked.code == 0 && asked.err.isEmpty)
    for command in commands { #expect(asked.out.contains("\n  \(command.name) ")) }
    #expect(asked.lines.allSatisfy { $0.displayWidth <= 80 })
    #expect(!asked.out.contains("\u{1b}"))
    // Without any word it is an error, so it goes where errors go.
    let none = upspool([])
    #expect(none.code == 2 && none.out.isEmpty && none.err == asked.out)
    #expect(upspool(["help"]).out == asked.out)
  }

  @Test func theVersionIsOneLine() {
    for words in [["--version"], ["-V"]] {
      #expect(upspool(words).out == "upspool 0.1.0\n")
      #expect(upspool(words).code == 0)
    }
  }

  @Test func wrongCallsExitWithTwoAndSayWhatIsNearest() {
    let unknown = upspool(["statsu"])
    #expect(unknown.code == 2 && unknown.out.isEmpty)
    #expect(
      unknown.err
        == "upspool: unknown command \"statsu\"; the nearest known one is \"status\"\n"
        + "try: upspool --help\n")
    let option = upspool(["status", "--jsno"])
    #expect(option.code == 2 && option.out.isEmpty)
    #expect(
      option.err
        == "upspool status: unknown option --jsno; the nearest known one is --json\n"
        + "try: upspool status --help\n")
    for words in [
      ["--json", "status"], ["-x"], ["run", "extra"], ["submit", "--to", "x:"], ["help", "x"],
    ] {
      let result = upspool(words)
      #expect(
        result.code == 2 && result.out.isEmpty && result.err.contains("try: upspool"), "\(words)")
    }
  }

  @Test func commandsOfLaterVersionsSayHowItIsDoneByHand() throws {
    let test = try TestSpool()
    test.job("p", in: .pending)
    test.job("it's", in: .failed)
    func line(_ words: [String]) -> String {
      let result = test.run(words)
      #expect(result.code == 2 && result.out.isEmpty)
      #expect(result.err.contains("this version doesn't know it yet; do it by hand:"))
      return String(result.err.split(separator: "\n").last ?? "").trimmingPrefix(while: {
        $0 == " "
      })
      .description
    }
    #expect(line(["pause", "x"]) == "mv -n \(test.path)/active/x.json \(test.path)/paused/")
    #expect(line(["import", "a b.json"]) == "cp -n 'a b.json' \(test.path)/pending/")
    // They work as they are printed.
    #expect(shell(line(["pause", "p"])).code == 0)
    #expect(test.names(.paused) == ["p.json"])
    #expect(shell(line(["resume", "p.json"])).code == 0)
    #expect(test.names(.pending) == ["p.json"])
    #expect(shell(line(["retry", "it's"])).code == 0)
    #expect(test.names(.pending) == ["it's.json", "p.json"])
    #expect(shell(line(["pause", "--all"])).code != 0)
    #expect(shell(line(["cancel", "p"])).code == 0)
    #expect(test.names(.pending) == ["it's.json"])
  }

  @Test func holdAndReleaseTouchOneFile() throws {
    let test = try TestSpool()
    for _ in 0..<2 {
      #expect(test.run(["hold"]).code == 0)
      #expect(test.folder.exists("spool/hold"))
    }
    #expect(test.run(["status"]).out.contains("hold is there"))
    for _ in 0..<2 {
      #expect(test.run(["release"]).code == 0)
      #expect(!test.folder.exists("spool/hold"))
    }
    #expect(upspool(["hold", "--spool", test.folder.at("none")]).code == 1)
  }
}
