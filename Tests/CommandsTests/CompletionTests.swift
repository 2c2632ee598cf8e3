internal import Glibc
internal import Spool
internal import TestKit
internal import Testing

@testable internal import Commands

/// Completions and the manual page are made from the table that the parser uses.
@Suite struct CompletionTests {
  /// What bash offers for the words of a command line, the last of which is being typed.
  private func offers(_ words: [String], in directory: String) -> [String] {
    let list = words.map { "'\($0)'" }.joined(separator: " ")
    let script = """
      source <('\(binary)' completion bash); cd '\(directory)'; unset UPSPOOL
      COMP_WORDS=(\(list)); COMP_CWORD=\(words.count - 1); _upspool; printf '%s\\n' "${COMPREPLY[@]}"
      """
    let result = run(["/bin/bash", "-c", script])
    return result.output.split(separator: "\n").map(String.init).filter { !$0.contains("compopt") }
  }

  @Test func bashOffersCommandsOptionsAndJobs() throws {
    let test = try TestSpool()
    test.job("nightly", in: .active)
    test.job("night two", in: .pending)
    test.job("over", in: .done)
    let folder = test.folder.path
    #expect(offers(["upspool", "pa"], in: folder) == ["pause"])
    #expect(offers(["upspool", ""], in: folder).count == commands.count { !$0.isLater } + 3)
    #expect(offers(["upspool", "pause", "ni"], in: folder) == ["night two", "nightly"])
    #expect(offers(["upspool", "status", ""], in: folder) == ["nightly", "night two", "over"])
    #expect(
      offers(["upspool", "status", "--spool", "\(folder)/spool", "o"], in: "/") == ["over"])
    #expect(offers(["upspool", "run", "--dur"], in: folder) == ["--durability"])
    #expect(offers(["upspool", "run", "--durability", ""], in: folder) == ["full", "process"])
    #expect(offers(["upspool", "run", "--spool", "sp"], in: folder) == ["spool"])
    #expect(offers(["upspool", "completion", "z"], in: folder) == ["zsh"])
  }

  @Test(arguments: ["zsh", "fish"]) func otherShellsTakeTheirScripts(_ shell: String) {
    let text = upspool(["completion", shell]).out
    for command in commands where !command.isLater {
      #expect(text.contains(command.name), "\(command.name)")
      for option in command.options where !option.isLater {
        #expect(text.contains(option.name.rawValue), "\(option.name)")
      }
    }
    guard let program = ["/usr/bin/\(shell)", "/bin/\(shell)"].first(where: isProgram) else {
      return
    }
    let folder = Folder()
    folder.write("script", text)
    let result = run([program, "-n", folder.at("script")])
    #expect(result.code == 0, "\(result.output)")
  }

  private func isProgram(_ path: String) -> Bool { unsafe access(path, X_OK) == 0 }

  @Test func theManualPageHasAllAndNothingThatTroffTakesForItsOwn() {
    let result = upspool(["manual"])
    #expect(result.code == 0)
    let requests = [".TH", ".SH", ".SS", ".TP", ".PP", ".br"]
    for line in result.lines where line.hasPrefix(".") || line.hasPrefix("'") {
      #expect(requests.contains { line.hasPrefix($0) }, "\(line)")
    }
    for command in commands where !command.isLater {
      #expect(result.out.contains("upspool \(command.name)"), "\(command.name)")
      for option in command.options where !option.isLater {
        let escaped = option.name.rawValue.split(separator: "-").joined(separator: "\\-")
        #expect(result.out.contains("\\-\\-\(escaped)"), "\(option.name)")
      }
    }
    if isProgram("/usr/bin/groff") {
      let folder = Folder()
      folder.write("page", result.out)
      let check = run(["/usr/bin/groff", "-man", "-Tutf8", "-ww", "-z", folder.at("page")])
      #expect(check.code == 0 && check.output == "", "\(check.output)")
    }
  }
}
