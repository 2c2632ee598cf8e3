internal import Configuration
internal import Glibc
internal import Jobs
internal import Spool
internal import System
internal import Worker

/// `upspool check`: tries what a start tries, and looks for what went wrong; one line each.
@Sendable func check(_ invocation: Invocation, _ console: Console) throws -> ExitCode {
  let findings = Findings(console)
  let (configuration, isRead) = try checkConfiguration(invocation, console, findings)
  let path = try invocation.spoolPath(console)
  do {
    let spool = try Spool(path)
    let roots = try invocation.roots()
    let hasRoots = !isRead || configuration.roots != nil || !roots.isEmpty
    checkStart(spool, singleHost: invocation.has(.singleHost), hasRoots: hasRoots, findings)
    // A newer layout is nothing to look through, let alone to repair.
    try spool.checkFormat()
    let look = Checkup(
      spool: spool, configuration: configuration, repairs: invocation.has(.repair),
      now: Clock.wall(), findings: findings)
    do throws(Errno) {
      try look.run()
    } catch {
      findings.trouble("\(path): cannot look through the spool: \(error)")
    }
  } catch let error as SpoolError {
    findings.trouble(error.description)
    if error.errno == .missing {
      findings.note("`upspool run --spool \(shellQuoted(path))` creates what is missing")
    }
  }
  return findings.troubles == 0 ? .fine : .failed
}

/// What a check has to say: a line each, to standard output.
final class Findings {
  private let console: Console
  private(set) var troubles = 0
  private var told: Set<String> = []

  init(_ console: Console) { self.console = console }

  func fine(_ text: String) { say("fine   ", text, colour: "32") }
  /// Nothing wrong, but good to know.
  func note(_ text: String) { say("note   ", text, colour: "33") }
  /// The same trouble is told once.
  func trouble(_ text: String) {
    guard told.insert(text).inserted else { return }
    troubles += 1
    say("trouble", text, colour: "31")
  }
  private func say(_ word: String, _ text: String, colour: String) {
    let shown = console.isColoured ? "\u{1b}[\(colour)m\(word)\u{1b}[0m" : word
    console.out.line("\(shown)  \(text.printable(limit: 8192))")
  }
}

/// The self-test of a start, as the worker does it.
private func checkStart(
  _ spool: Spool, singleHost: Bool, hasRoots: Bool, _ findings: Findings
) {
  do throws(SpoolError) {
    let result = try spool.selfTest(singleHost: singleHost, hasRoots: hasRoots)
    let type = (try? spool.calls.filesystemType(spool.pending.raw))?.name ?? "unknown"
    findings.fine("format: this version knows it")
    findings.fine("filesystem: \(spool.path) is on one, of type \(type)")
    findings.fine("owners: what is believed is this user's (\(geteuid())) alone to write")
    findings.fine("probe: written, locked, renamed through every directory, nothing overwritten")
    for warning in result.warnings { findings.note(warning) }
  } catch {
    findings.trouble(error.description)
  }
}

/// The configuration, and what it names on this machine. `isRead`: it can be relied on.
private func checkConfiguration(
  _ invocation: Invocation, _ console: Console, _ findings: Findings
) throws -> (Configuration, isRead: Bool) {
  guard let path = try invocation.configurationPath(console) else {
    findings.note("configuration: none, so the defaults hold")
    try checkRoots(invocation.roots(), "--root", findings)
    return (Configuration(), true)
  }
  let configuration: Configuration
  do throws(Malformed) {
    configuration = try Configuration.load(path)
  } catch {
    findings.trouble("\(path): \(error)")
    return (Configuration(), false)
  }
  let count = configuration.destinations.count
  findings.fine(
    "configuration: \(path), \(count == 1 ? "1 destination" : "\(count) destinations")")
  try checkRoots(invocation.roots(), "--root", findings)
  checkRoots(configuration.roots ?? [], "\(path): roots", findings)
  checkRoots(configuration.writeRoots ?? [], "\(path): writeRoots", findings)
  for (name, destination) in configuration.destinations.sorted(by: { $0.key < $1.key }) {
    checkFiles(of: destination, "\(path): destinations.\(name)", findings)
  }
  return (configuration, true)
}

private func checkRoots(_ roots: [String], _ what: String, _ findings: Findings) {
  for root in roots {
    do throws(Errno) {
      _ = try Calls.live.openDirectory(Name(root))
      findings.fine("\(what): \(root) is there")
    } catch {
      findings.trouble("\(what): cannot open the directory \(root): \(error)")
    }
  }
}

private func checkFiles(
  of destination: Configuration.Destination, _ what: String, _ findings: Findings
) {
  let files = [("ca", destination.ca), ("cert", destination.cert), ("key", destination.key)]
  for (key, path) in files {
    guard let path else { continue }
    do throws(Errno) {
      let file = try Calls.live.open(Name(path), O_RDONLY | O_NONBLOCK)
      guard try Calls.live.facts(of: file.raw).isRegular else { throw .invalid }
      findings.fine("\(what).\(key): \(path) can be read")
    } catch {
      findings.trouble("\(what).\(key): cannot read \(path): \(error)")
    }
  }
  guard destination.kind == .file else { return }
  do throws(Errno) {
    _ = try Calls.live.openDirectory(Name(destination.path))
    findings.fine("\(what).path: \(destination.path) is there")
  } catch {
    if error == .missing {
      findings.note("\(what).path: \(destination.path) isn't there; the first job creates it")
      return
    }
    findings.trouble("\(what).path: cannot open the directory \(destination.path): \(error)")
  }
}
