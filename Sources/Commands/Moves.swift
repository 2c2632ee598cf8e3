internal import Glibc
internal import Jobs
internal import Spool
internal import System

/// What `pause`, `resume`, `cancel` and `retry` do: a rename, or an unlink, of each job's file.
private struct Move {
  var verb: String
  /// As people say it: "paused".
  var participle: String
  var from: [Place]
  /// Nil: away.
  var to: Place?
}

@Sendable func pause(_ invocation: Invocation, _ console: Console) throws -> ExitCode {
  try Mover(
    .init(verb: "pause", participle: "paused", from: [.pending, .active], to: .paused),
    invocation, console
  ).run()
}
@Sendable func resume(_ invocation: Invocation, _ console: Console) throws -> ExitCode {
  try Mover(
    .init(verb: "resume", participle: "resumed", from: [.paused], to: .pending), invocation, console
  ).run()
}
@Sendable func cancel(_ invocation: Invocation, _ console: Console) throws -> ExitCode {
  try Mover(
    .init(
      verb: "cancel", participle: "cancelled", from: [.paused, .pending, .active], to: nil),
    invocation, console
  ).run()
}
@Sendable func retry(_ invocation: Invocation, _ console: Console) throws -> ExitCode {
  let from = invocation.has(.done) ? Place.done : .failed
  return try Mover(
    .init(verb: "retry", participle: "retried", from: [from], to: .pending), invocation, console
  ).run()
}

private final class Mover {
  private let move: Move
  private let spool: Spool
  private let console: Console
  private let isQuiet: Bool
  private let group: String?
  private let destination: String?
  private let selection: Selection
  private let isAll: Bool
  private var hasFailed = false
  private var count = 0
  /// Jobs that were dealt with, or complained about, by inode.
  private var seen: Set<UInt64> = []
  private var touched: Set<Place> = []

  init(_ move: Move, _ invocation: Invocation, _ console: Console) throws {
    (self.move, self.console) = (move, console)
    isQuiet = invocation.has(.quiet)
    group = try invocation.text(.group)
    destination = try invocation.text(.destination)
    var operands = invocation.operands
    let readsInput = operands.contains(Name("-"))
    operands.removeAll { $0 == Name("-") }
    let names = readsInput ? try namesOnInput() : []
    isAll = invocation.has(.all)
    if isAll, !operands.isEmpty || readsInput {
      throw UsageError("--all means every job; leave the names out")
    }
    if operands.isEmpty, !readsInput, !isAll, group == nil, destination == nil {
      throw UsageError(
        "JOB is missing; name jobs, or say --all, --group GROUP or --destination DEST")
    }
    selection = Selection(operands, names: names)
    spool = try invocation.openSpool(console)
    isNone = readsInput && operands.isEmpty && names.isEmpty
  }
  /// Names were to come from standard input, and none came.
  private let isNone: Bool

  func run() throws -> ExitCode {
    do {
      if isNone {
        return .fine
      } else if selection.isEverything {
        try everything()
      } else {
        try selection.matches(spool) { try one($0) }
      }
    } catch let error as Errno {
      throw SpoolError(spool.path, error, doing: "read the spool")
    }
    for place in touched { try? spool.calls.sync(spool.directory(place)) }
    if count == 0, !hasFailed {
      console.err.line("upspool \(move.verb): there is no job to \(move.verb)")
      return .failed
    }
    return hasFailed ? .failed : .fine
  }

  /// Jobs move on while this runs: looked through again until nothing more is found.
  private func everything() throws(Errno) {
    for _ in 0..<3 {
      let before = count
      for place in move.from {
        let listing = try spool.listing(of: place)
        while let names = try listing.next(spool.calls) {
          for name in names where JobName.isJob(name) {
            if let facts = try spool.calls.factsIfThere(of: name, in: spool.directory(place)),
              facts.isRegular
            {
              act(Listed(name, place, facts), isNamed: false)
            }
          }
        }
      }
      if count == before || move.from.count == 1 { return }
    }
  }

  private func one(_ match: Selection.Match) throws {
    let fitting = match.jobs.filter { move.from.contains($0.place) }
    for job in fitting { act(job, isNamed: !match.isPattern) }
    // A pattern before this name meant it, too.
    if match.jobs.contains(where: { seen.contains($0.inode) }) { return }
    if !fitting.isEmpty || (match.isPattern && !match.jobs.isEmpty) { return }
    hasFailed = true
    let state = match.jobs.map { "in \($0.place.rawValue)/" }.joined(separator: " and ")
    console.err.line(
      match.jobs.isEmpty
        ? "\(match.shown): no such job in \(spool.path)"
        : "\(match.shown): is \(state); nothing to \(move.verb)")
  }

  private func act(_ job: Listed, isNamed: Bool) {
    guard fits(job), seen.insert(job.inode).inserted else { return }
    let shown = JobName.stem(job.name).printable()
    var place: Place? = job.place
    // It may be claimed, or come back, between the look and the move.
    for _ in 0..<5 {
      guard let from = place else { break }
      do throws(Errno) {
        guard
          let there = try spool.calls.factsIfThere(of: job.name, in: spool.directory(from)),
          there.inode == job.inode
        else {
          place = try whereabouts(job)
          continue
        }
        if let to = move.to {
          try spool.calls.move(job.name, from: spool.directory(from), to: spool.directory(to))
          touched.insert(to)
        } else {
          try spool.calls.unlink(job.name, in: spool.directory(from))
        }
        touched.insert(from)
        count += 1
        if !isQuiet { console.out.line("\(move.participle) \(shown)") }
        return
      } catch {
        if error == .missing { continue }
        return fail(shown, from, error)
      }
    }
    // Gone, or where this gesture means nothing: it ended meanwhile.
    guard isNamed else { return }
    hasFailed = true
    console.err.line("\(shown): it ended, or was moved, in the same moment; nothing was done")
  }

  private func whereabouts(_ job: Listed) throws(Errno) -> Place? {
    for place in move.from {
      if let there = try spool.calls.factsIfThere(of: job.name, in: spool.directory(place)),
        there.inode == job.inode
      {
        return place
      }
    }
    return nil
  }

  private func fail(_ shown: String, _ from: Place, _ error: Errno) {
    hasFailed = true
    let to = move.to?.rawValue ?? ""
    switch error {
    case .exists:
      console.err.line(
        "\(shown): \(spool.path)/\(to) has another job of that name; move or remove that one first")
    case .denied, .notPermitted:
      console.err.line(
        "\(shown): this user may not take it out of \(spool.path)/\(from.rawValue)"
          + (to.isEmpty ? "" : " and put it into \(to)/") + "; the worker's user may")
    default: console.err.line("\(shown): can't \(move.verb) it: \(error)")
    }
  }

  /// Whether its file says the group and destination that are wanted.
  private func fits(_ job: Listed) -> Bool {
    if group == nil && destination == nil { return true }
    guard let bytes = try? spool.jobBytes(job.name, in: job.place),
      let text = try? Job.decode(bytes)
    else { return false }
    if let group, text.group.map({ $0.hasSameBytes(as: group) }) != true { return false }
    guard let destination else { return true }
    return switch text.destination {
    case .named(let name, _): name == destination
    case .url(let url): destination.utf8.contains(UInt8(ascii: ":")) && starts(url, destination)
    }
  }

  private func starts(_ url: String, _ prefix: String) -> Bool {
    guard url.utf8.starts(with: prefix.utf8) else { return false }
    // "https://a.example" doesn't mean "https://a.example.net/".
    let rest = url.utf8.dropFirst(prefix.utf8.count)
    return prefix.utf8.last == UInt8(ascii: "/") || rest.isEmpty || "/?".utf8.contains(rest.first!)
  }
}

/// Names from standard input: one a line, or NUL-terminated.
private func namesOnInput() throws -> [Name] {
  var bytes: [UInt8] = []
  var buffer = [UInt8](repeating: 0, count: 1 << 16)
  while true {
    let n = unsafe read(STDIN_FILENO, &buffer, buffer.count)
    if n < 0 && errno == EINTR { continue }
    if n < 0 { throw Failure("standard input can't be read: \(Errno(errno))") }
    if n == 0 { break }
    bytes += buffer[..<n]
    if bytes.count > 1 << 28 { throw Failure("more than 256 MiB of names on standard input") }
  }
  let separator: UInt8 = bytes.contains(0) ? 0 : 0x0a
  return bytes.split(separator: separator).map { Name(bytes: Array($0)) }
}
