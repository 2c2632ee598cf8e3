/// An option of some command, by its long name.
enum OptionName: String, CaseIterable, Sendable {
  case help, version
  case spool, config, root, drain, concurrency, grace, poll, durability, log
  case singleHost = "single-host"
  case to, name, title, priority, expires, attempts, parallel, method, header, field, `as`, hold, x
  case notBefore = "not-before"
  case onError = "on-error"
  case formField = "form-field"
  case param, notify, wait
  case json, repair, done, failed
  case dryRun = "dry-run"
  case maxAge = "max-age"
  case all
  case follow, interval
}

/// What a command takes: its long name, perhaps a letter, perhaps an argument, one line of help.
struct Option: Sendable {
  let name: OptionName
  var letter: Character?
  /// What stands for the argument in the help; nil: it takes none.
  var argument: String?
  /// May be given more than once; else the last one counts.
  var repeats = false
  /// Part of the contract, not of this version: it is answered with a line that says so.
  var isLater = false
  let help: String

  init(
    _ name: OptionName, _ letter: Character?, _ argument: String?,
    repeats: Bool = false, isLater: Bool = false, _ help: String
  ) {
    (self.name, self.letter, self.argument) = (name, letter, argument)
    (self.repeats, self.isLater, self.help) = (repeats, isLater, help)
  }

  /// As people type it: `--spool DIR`.
  var usage: String { "--\(name.rawValue)" + (argument.map { " \($0)" } ?? "") }
}

/// One command: what parser, help, completions and manual page are made of.
struct Command: Sendable {
  let name: String
  /// What it takes besides options, as `FILE…`; empty: nothing.
  var operands = ""
  /// Operands that it needs at least.
  var least = 0
  /// One line for the overview.
  let summary: String
  /// What the help says below the options, a paragraph each.
  var notes: [String] = []
  /// Part of the contract, not of this version.
  var isLater = false
  let options: [Option]
  let run: @Sendable (Invocation, Console) throws -> ExitCode
}
