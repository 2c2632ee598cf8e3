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

/// The command that does a gesture by hand: verb, the job's directory, and where it goes ("" for
/// nowhere).
typealias ByHand = @Sendable (Spool?, Name?) -> (verb: String, from: String, to: String)

/// A job that runs is paused in active/, one that waits in pending/.
@Sendable func byHandPause(_ spool: Spool?, _ job: Name?) -> (String, String, String) {
  ("mv -n", place(of: job, in: spool, among: [.active, .pending]) ?? "active", "paused/")
}
/// A job is cancelled where it lies.
@Sendable func byHandCancel(_ spool: Spool?, _ job: Name?) -> (String, String, String) {
  ("rm", place(of: job, in: spool, among: [.active, .pending, .paused]) ?? "active", "")
}

private func place(of job: Name?, in spool: Spool?, among places: [Place]) -> String? {
  guard let job, let spool else { return nil }
  return places.first { place in
    (try? spool.calls.factsIfThere(of: job, in: spool.directory(place))) != nil
  }?.rawValue
}

/// What to type instead of a command that this version doesn't have.
func gestureByHand(_ invocation: Invocation, _ console: Console, _ byHand: ByHand) -> Failure {
  let path = (try? invocation.spoolPath(console)) ?? "spool"
  let spool = try? Spool(path)
  var lines = [notYet(invocation)]
  func add(_ job: Name?, _ shown: String) {
    let (verb, from, to) = byHand(spool, job)
    let target = to.isEmpty ? "" : " \(shellQuoted("\(path)/\(to)"))"
    lines.append(
      "  \(verb) \(shown.isEmpty ? "" : shellQuoted("\(path)/\(from)/"))\(shown)\(target)")
  }
  if invocation.has(.all) {
    add(nil, "*.json")
  } else if invocation.operands.isEmpty {
    add(nil, "JOB.json")
  }
  for operand in invocation.operands.prefix(20) {
    let name = fileName(of: operand)
    add(name, shellQuoted(name.description))
  }
  return Failure(lines.joined(separator: "\n"), .wrongCall)
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
