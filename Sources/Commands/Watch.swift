internal import CLinux
internal import Glibc
internal import Jobs
internal import Spool
internal import System

/// `upspool watch`: follows jobs until they have ended.
@Sendable func watch(_ invocation: Invocation, _ console: Console) throws -> ExitCode {
  let interval = try invocation.span(.interval) ?? 10 * second
  let spool = try invocation.openSpool(console)
  let isJSON = invocation.has(.json)
  var watcher = Watcher(
    spool, Selection(invocation.operands), follows: invocation.has(.follow),
    detailLimit: isJSON ? .max : 100)
  if isJSON {
    return try follow(&watcher, LinesOfJSON(console), console, signals: -1)
  }
  guard console.isScreen else {
    return try follow(&watcher, PlainLines(console, interval: interval), console, signals: -1)
  }
  // Blocked, so that none of them ends the process while the cursor is hidden.
  let signals = clinux_signalfd(
    [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP].reduce(0) { $0 | 1 << UInt64($1) })
  if signals < 0 { throw Failure("upspool watch: no signals to be had: \(Errno(-signals))") }
  return try follow(&watcher, Bars(console), console, signals: signals)
}

/// How what is watched is told.
protocol WatchOutput {
  mutating func show(_ watcher: Watcher, _ look: WatchLook)
  /// Nothing more comes; `isWhole`: not because of a signal or an error.
  mutating func end(_ watcher: Watcher, isWhole: Bool)
  /// After the process was stopped and goes on.
  mutating func resume()
}

/// What a look has found.
struct WatchLook {
  var news: [Watcher.News]
  /// How many ended besides those.
  var more: [Sidecar.State: Int]
  /// Nanoseconds since 1970.
  var now: Int64
  /// Monotonic.
  var time: Int64
}

private func follow(
  _ watcher: inout Watcher, _ output: some WatchOutput, _ console: Console, signals: Int32
) throws -> ExitCode {
  var output = output
  var toldMissing = false
  do {
    while true {
      let (now, time) = (Clock.wall(), Clock.monotonic())
      let found = try watcher.look(now: now, time: time)
      if !toldMissing {
        for name in watcher.missing {
          console.err.line("\(name): no such job in \(watcher.spool.path)")
        }
        console.err.flush()
        toldMissing = true
      }
      output.show(watcher, WatchLook(news: found.news, more: found.more, now: now, time: time))
      console.out.flush()
      if watcher.isOver {
        output.end(watcher, isWhole: true)
        console.out.flush()
        return watcher.hasFailed ? .failed : .fine
      }
      if let signal = rest(signals, 200) {
        output.end(watcher, isWhole: false)
        console.out.flush()
        obey(signal)
        output.resume()
      }
    }
  } catch {
    output.end(watcher, isWhole: false)
    console.out.flush()
    throw error
  }
}

/// Waits; a signal that came meanwhile.
private func rest(_ signals: Int32, _ milliseconds: Int32) -> Int32? {
  var files = [
    pollfd(fd: signals, events: Int16(POLLIN), revents: 0),
    pollfd(fd: STDOUT_FILENO, events: 0, revents: 0),
  ]
  if unsafe poll(&files, 2, milliseconds) <= 0 { return nil }
  let signal = clinux_signalfd_read(signals)
  if signal > 0 { return signal }
  // The reader of a pipe has gone: it has all that it wanted.
  if signals < 0, files[1].revents & Int16(POLLERR) != 0 { exit(ExitCode.fine.rawValue) }
  usleep(UInt32(milliseconds) * 1000)
  return nil
}

/// Does what the signal does by itself.
private func obey(_ number: Int32) {
  if number == SIGTSTP {
    raise(SIGSTOP)
    return
  }
  signal(number, SIG_DFL)
  var set = sigset_t()
  unsafe sigemptyset(&set)
  unsafe sigaddset(&set, number)
  raise(number)
  unsafe pthread_sigmask(SIG_UNBLOCK, &set, nil)
  exit(128 + number)
}
