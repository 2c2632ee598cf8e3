internal import Glibc
internal import Jobs
internal import Spool
package import System

/// Runs the program with the words behind its own name, and gives its exit code.
///
/// Data goes to standard output, messages to standard error.
package func runCommandLine(_ arguments: [Name], _ console: Console = Console()) -> Int32 {
  // A reader that goes away is told by EPIPE, and must not end a worker.
  signal(SIGPIPE, SIG_IGN)
  let code = dispatch(arguments, console)
  console.out.flush()
  console.err.flush()
  return code.rawValue
}

private func dispatch(_ arguments: [Name], _ console: Console) -> ExitCode {
  guard let first = arguments.first else {
    console.err.line(Help.overview)
    return .wrongCall
  }
  if first.bytes.first == UInt8(ascii: "-") { return programOptions(arguments, console) }
  let word = first.description
  if word == "help" { return help(arguments.dropFirst().first, console) }
  guard let command = commands.first(where: { $0.name == word }) else {
    return unknownCommand(word, console)
  }
  do throws(UsageError) {
    var invocation = try parse(
      Array(arguments.dropFirst()), command.options + [helpOption])
    invocation.command = command.name
    if invocation.has(.help) {
      console.out.line(Help.text(command))
      return .fine
    }
    try checkOperands(invocation, command)
    return perform(command, invocation, console)
  } catch {
    return wrongCall(error, command.name, console)
  }
}

private func checkOperands(_ invocation: Invocation, _ command: Command) throws(UsageError) {
  if command.operands.isEmpty, let first = invocation.operands.first {
    throw UsageError("takes no operand, so \(first.description.quoted) has no meaning here")
  }
  if invocation.operands.count < command.least {
    throw UsageError("\(command.operands.filter { $0 != "…" }) is missing")
  }
}

private func perform(_ command: Command, _ invocation: Invocation, _ console: Console) -> ExitCode {
  do {
    return try command.run(invocation, console)
  } catch let error as UsageError {
    return wrongCall(error, command.name, console)
  } catch let error as Failure {
    console.err.line(error.text)
    return error.code
  } catch let error as SpoolError {
    console.err.line(error.description)
    return .failed
  } catch {
    console.err.line("upspool \(command.name): \(error)")
    return .failed
  }
}

private func wrongCall(_ error: UsageError, _ command: String, _ console: Console) -> ExitCode {
  console.err.line("upspool \(command): \(error.text)")
  console.err.line("try: upspool \(command) --help")
  return .wrongCall
}

private func unknownCommand(_ word: String, _ console: Console) -> ExitCode {
  let hint = nearest(word, among: commands.map(\.name))
  console.err.line(
    "upspool: unknown command \(word.quoted)"
      + (hint.map { "; the nearest known one is \"\($0)\"" } ?? ""))
  console.err.line("try: upspool --help")
  return .wrongCall
}

/// Options before a command: only those of the program itself.
private func programOptions(_ arguments: [Name], _ console: Console) -> ExitCode {
  do throws(UsageError) {
    let invocation = try parse(arguments, [helpOption, versionOption], stopsAtOperand: true)
    if invocation.has(.version) {
      console.out.line("upspool \(version)")
      return .fine
    }
    if !invocation.has(.help) { throw UsageError("a command is missing") }
    return help(invocation.operands.first, console)
  } catch {
    console.err.line("upspool: \(error.text)")
    console.err.line("A command comes first, its options behind it. try: upspool --help")
    return .wrongCall
  }
}

private func help(_ name: Name?, _ console: Console) -> ExitCode {
  guard let word = name?.description, word.first != "-" else {
    console.out.line(Help.overview)
    return .fine
  }
  guard let command = commands.first(where: { $0.name == word }) else {
    return unknownCommand(word, console)
  }
  console.out.line(Help.text(command))
  return .fine
}

/// The words behind the program's name as the kernel gave them: bytes, which `CommandLine.arguments`
/// would take for UTF-8.
package func arguments() -> [Name] {
  (1..<max(1, Int(CommandLine.argc))).compactMap { i in
    unsafe CommandLine.unsafeArgv[i].map { unsafe Name(cString: $0) }
  }
}
