/// How a command ended, for the shell.
package enum ExitCode: Int32, Sendable {
  /// What was asked for is done.
  case fine = 0
  /// The call was right, the work failed.
  case failed = 1
  /// The call was wrong.
  case wrongCall = 2
}

/// The call was wrong: exit code 2, with a hint at the command's help.
struct UsageError: Error, Equatable, Sendable {
  /// What is wrong and what would be right.
  var text: String
  init(_ text: String) { self.text = text }
}

/// The work failed, or the call leads nowhere: lines for a person and the exit code.
struct Failure: Error, Equatable, Sendable {
  /// One or more lines without a newline at the end.
  var text: String
  var code: ExitCode
  init(_ text: String, _ code: ExitCode = .failed) { (self.text, self.code) = (text, code) }
}

/// This program's version.
package let version = "0.1.0"
