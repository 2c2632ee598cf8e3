internal import Glibc
internal import Jobs
internal import Spool
internal import System

/// `upspool hold`: spool/hold comes into being.
@Sendable func hold(_ invocation: Invocation, _ console: Console) throws -> ExitCode {
  let spool = try invocation.openSpool(console)
  do throws(Errno) {
    let file = try spool.calls.open(Name("hold"), in: spool.root.raw, O_WRONLY | O_CREAT)
    try file.close()
  } catch {
    throw SpoolError(spool.path + "/hold", error, doing: "create the file")
  }
  return .fine
}

/// `upspool release`: spool/hold goes; nothing happens when it isn't there.
@Sendable func release(_ invocation: Invocation, _ console: Console) throws -> ExitCode {
  let spool = try invocation.openSpool(console)
  do throws(Errno) {
    try spool.calls.unlink(Name("hold"), in: spool.root.raw)
  } catch {
    if error == .missing { return .fine }
    throw SpoolError(spool.path + "/hold", error, doing: "remove the file")
  }
  return .fine
}

private func notYet(_ invocation: Invocation) -> String {
  "upspool \(invocation.command): this version doesn't know it yet; do it by hand:"
}

/// `upspool import`, by hand.
@Sendable func importByHand(_ invocation: Invocation, _ console: Console) throws -> ExitCode {
  let path = try invocation.spoolPath(console)
  let files =
    invocation.operands.isEmpty
    ? "JOB.json" : invocation.operands.map { shellQuoted($0.description) }.joined(separator: " ")
  throw Failure(
    "\(notYet(invocation))\n  cp -n \(files) \(shellQuoted(path + "/pending/"))", .wrongCall)
}

/// The file that a person means by a job's name with or without `.json`.
func fileName(of operand: Name) -> Name {
  let suffix = Array(".json".utf8)
  if operand.bytes.suffix(suffix.count).elementsEqual(suffix) { return operand }
  return Name(bytes: Array(operand.bytes) + suffix)
}
