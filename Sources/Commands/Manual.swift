internal import System

/// `upspool manual`: the manual page upspool(1) as man(7) wants it, made from the one table.
@Sendable func manual(_ invocation: Invocation, _ console: Console) throws -> ExitCode {
  var page = ManualPage()
  page.line(".TH UPSPOOL 1 \"\" \"upspool \(version)\" \"User Commands\"")
  page.section("NAME")
  page.text("upspool - an upload queue that you can see all of")
  page.section("SYNOPSIS")
  page.text("upspool COMMAND [OPTION]…")
  page.section("DESCRIPTION")
  page.text(
    "A job is a JSON file; the directory of the spool that it lies in is its state: pending, active, "
      + "paused, done or failed. A worker (upspool run) sends the files that it names over libcurl, and "
      + "moves it on. Every command does what could be done by hand with cp, mv, rm and cat.")
  page.section("COMMANDS")
  for command in commands where !command.isLater {
    let operands = command.operands.isEmpty ? "" : " \(command.operands)"
    page.line(".SS \"" + ManualPage.escaped("upspool \(command.name)\(operands)") + "\"")
    page.text(command.summary)
    for option in command.options + [helpOption] where !option.isLater {
      let letter = option.letter.map { "-\($0), " } ?? ""
      page.item(letter + option.usage, option.help)
    }
    for note in command.notes { page.paragraph(note) }
  }
  page.section("EXIT STATUS")
  page.item("0", "fine")
  page.item("1", "the work failed")
  page.item("2", "the call was wrong")
  page.section("ENVIRONMENT")
  page.item("UPSPOOL", "the spool, where --spool isn't given; else ./spool")
  page.item("UPSPOOL_CONFIG", "the configuration, where --config isn't given")
  page.item("NO_COLOR", "set and not empty: no colours")
  page.section("FILES")
  page.item("/etc/upspool.json", "the configuration, if nothing else names one")
  page.item("SPOOL/pending/NAME.json", "a job that waits; its mtime is the earliest time to run it")
  page.item("SPOOL/progress/NAME.json", "the sidecar: what the workers say of it")
  page.item("SPOOL/hold", "while it is there nothing runs")
  page.section("SIGNALS")
  page.item(
    "SIGTERM, SIGINT",
    "a worker starts nothing more, gives what runs the grace time, and ends; a second one: at once")
  page.item("SIGHUP", "a worker reads its configuration again; transfers go on")
  page.section("EXAMPLES")
  page.text("upspool submit backup.tar --to nas: --name nightly")
  page.line(".br")
  page.text("mv -n spool/active/nightly.json spool/paused/")
  page.line(".br")
  page.text("upspool resume nightly && upspool watch nightly")
  console.out.bytes(Array(page.out.utf8))
  return .fine
}

private struct ManualPage {
  var out = ""

  mutating func line(_ text: String) { out += text + "\n" }
  mutating func section(_ title: String) { line(".SH \"\(title)\"") }
  mutating func text(_ text: String) { line(Self.escaped(text)) }
  mutating func paragraph(_ text: String) {
    line(".PP")
    self.text(text)
  }
  mutating func item(_ name: String, _ text: String) {
    line(".TP")
    line("\\fB\(Self.escaped(name))\\fR")
    self.text(text)
  }

  /// No character of a text means anything to troff (groff(7)).
  static func escaped(_ text: String) -> String {
    var out = ""
    if let first = text.utf8.first, first == 0x2e || first == 0x27 { out = "\\&" }
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\\": out += "\\e"
      case "-": out += "\\-"
      case "\"": out += "\\(dq"
      case "'": out += "\\(aq"
      case "…": out += "..."
      default: out.unicodeScalars.append(scalar)
      }
    }
    return out
  }
}
