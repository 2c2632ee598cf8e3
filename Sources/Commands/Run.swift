internal import CLinux
internal import Configuration
internal import Glibc
internal import Jobs
internal import Loop
internal import Spool
internal import System
internal import Worker

/// `upspool run`: a worker until a signal ends it, or with `--drain` until nothing is left.
@Sendable func runWorker(_ invocation: Invocation, _ console: Console) throws -> ExitCode {
  // A lease that a producer breaks sends SIGIO, which would end the process.
  signal(SIGIO, SIG_IGN)
  // Blocked before the first thread starts, since each inherits the mask: else signalfd misses
  // signals. Blocking is also what lets them reach process 1 of a container.
  let signals = clinux_signalfd([SIGTERM, SIGINT, SIGHUP].reduce(0) { $0 | 1 << UInt64($1) })
  if signals < 0 { throw Failure("upspool run: no signals to be had: \(Errno(-signals))") }

  let options = try workerOptions(invocation, console)
  try Spool.create(options.spool)
  let spool = try Spool(options.spool, durability: options.durability)
  // A newer layout gets no file of ours.
  try spool.checkFormat()
  let presence = try Presence(spool)
  do {
    let findings = try spool.selfTest(
      singleHost: options.singleHost,
      hasRoots: options.effective(options.configuration).roots != nil)
    for warning in findings.warnings { warn(warning, options.logFormat, console) }
  } catch {
    presence.leave()
    throw error
  }
  console.err.flush()

  let code = Locked<Int32>(ExitCode.failed.rawValue)
  Loop.shared.start {
    let log = Log(options.logFormat, redactor: options.configuration.redactor)
    let worker = Worker(options, spool, presence, log)
    Loop.shared.watch(signals) { obey(signals, worker) }
    let result = await worker.run()
    Loop.shared.unwatch(signals)
    code.with { $0 = result }
    Loop.shared.stop()
  }
  Loop.shared.run()
  return ExitCode(rawValue: code.with { $0 }) ?? .failed
}

/// All signals that have come.
@OnLoop private func obey(_ signals: Int32, _ worker: Worker) {
  while true {
    let number = clinux_signalfd_read(signals)
    switch number {
    case SIGTERM, SIGINT: worker.stop()
    case SIGHUP: worker.reload()
    default: if number <= 0 { return }
    }
  }
}

private func workerOptions(_ invocation: Invocation, _ console: Console) throws -> Options {
  var options = Options()
  options.version = version
  options.spool = try invocation.spoolPath(console)
  options.roots = try invocation.roots()
  options.drain = invocation.has(.drain)
  options.concurrency = try invocation.integer(.concurrency, 1...1024)
  options.grace = try invocation.span(.grace) ?? options.grace
  options.poll = try invocation.span(.poll)
  if let poll = options.poll, poll < 10 * millisecond {
    throw UsageError("--poll: must be at least 0.01 seconds")
  }
  options.singleHost = invocation.has(.singleHost)
  options.durability = try invocation.word(.durability) ?? .full
  options.logFormat = try invocation.word(.log) ?? .text
  (options.configuration, options.configurationPath) = try invocation.loadConfiguration(console)
  return options
}

/// A warning before the worker's log begins, in the log's form.
private func warn(_ text: String, _ format: Log.Format, _ console: Console) {
  switch format {
  case .text: console.err.line("warning: \(text)")
  case .json:
    var line: [UInt8] = Array("{\"time\": ".utf8)
    line.append(string: Times.format(Clock.wall()))
    line += ", \"event\": \"warning\", \"message\": ".utf8
    line.append(string: text)
    console.err.bytes(line + "}\n".utf8)
  }
}
