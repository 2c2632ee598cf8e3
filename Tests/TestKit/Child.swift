internal import Glibc
internal import System

/// A process that a test has started. It is ended by its id with its owner, if it still runs.
package final class Child: Sendable {
  /// Its id.
  package let pid: Int32
  private let status = Locked<Int32?>(nil)

  fileprivate init(_ pid: Int32) { self.pid = pid }
  deinit {
    if isRunning {
      send(SIGKILL)
      _ = wait()
    }
  }

  /// Sends a signal, as long as the process hasn't been waited for.
  package func send(_ signal: Int32) {
    status.with { if $0 == nil { _ = kill(pid, signal) } }
  }
  /// Whether it hasn't ended yet.
  package var isRunning: Bool { poll() == nil }

  /// Its exit code, or 128 + the signal that ended it, as a shell says; waits for it.
  @discardableResult
  package func wait() -> Int32 {
    while true {
      if let code = poll() { return code }
      usleep(2_000)
    }
  }
  /// The same; nil when `seconds` are over and it still runs.
  package func wait(seconds: Double) -> Int32? {
    let end = Clock.monotonic() + Int64(seconds * 1e9)
    while true {
      if let code = poll() { return code }
      if Clock.monotonic() > end { return nil }
      usleep(2_000)
    }
  }
  private func poll() -> Int32? {
    status.with { status in
      if let status { return status }
      var raw: Int32 = 0
      if unsafe waitpid(pid, &raw, WNOHANG) != pid { return nil }
      let code = raw & 0x7f == 0 ? (raw >> 8) & 0xff : 128 + (raw & 0x7f)
      status = code
      return code
    }
  }
  /// User and system time that it and its waited-for children have used, in nanoseconds
  /// (proc(5), fields 14 to 17); 0 when it has gone.
  package var cpuTime: Int64 {
    guard let file = try? Calls.live.open(Name("/proc/\(pid)/stat"), O_RDONLY),
      let bytes = try? Calls.live.read(file.raw, upTo: 4096),
      let end = bytes.lastIndex(of: UInt8(ascii: ")"))
    else { return 0 }
    let fields = bytes[(end + 2)...].split(separator: 0x20)
    let ticks = fields[11...14].compactMap { Int64(String(decoding: $0, as: UTF8.self)) }
    return ticks.reduce(0, +) * (second / Int64(sysconf(Int32(_SC_CLK_TCK))))
  }
}

private let spawning = Locked(())

/// Opens what no program that another test starts in the same moment may inherit: a connection that is
/// cut, or a pipe that is closed, would stay open with it. The descriptor is close-on-exec afterwards.
package func withoutSpawning<T: Sendable>(_ body: () -> T) -> T { spawning.with { _ in body() } }

/// Starts a program.
///
/// `environment` is added to this process's; a value of nil takes a variable away. `directory` is
/// where it starts. Its standard output and error are appended to the file `output`, or go where
/// this process's go; `errors` takes its standard error alone.
package func spawn(
  _ arguments: [String], environment: [String: String?] = [:], directory: String? = nil,
  output: String? = nil, errors: String? = nil
) -> Child {
  var words = arguments
  if directory != nil || !environment.isEmpty {
    var before = ["/usr/bin/env"]
    if let directory { before += ["-C", directory] }
    for (name, value) in environment where value == nil { before += ["-u", name] }
    for (name, value) in environment {
      if let value { before.append("\(name)=\(value)") }
    }
    words = before + words
  }
  var argv = unsafe words.map { unsafe strdup($0) }
  unsafe argv.append(nil)
  defer { while let p = unsafe argv.popLast() { unsafe free(p) } }

  var actions = unsafe posix_spawn_file_actions_t()
  unsafe posix_spawn_file_actions_init(&actions)
  defer { unsafe posix_spawn_file_actions_destroy(&actions) }
  let append = O_WRONLY | O_CREAT | O_APPEND
  if let output {
    unsafe posix_spawn_file_actions_addopen(&actions, 1, output, append, 0o644)
    if errors == nil { unsafe posix_spawn_file_actions_adddup2(&actions, 1, 2) }
  }
  if let errors { unsafe posix_spawn_file_actions_addopen(&actions, 2, errors, append, 0o644) }

  // Neither blocked nor ignored signals of this process are handed down.
  var attributes = posix_spawnattr_t()
  unsafe posix_spawnattr_init(&attributes)
  defer { unsafe posix_spawnattr_destroy(&attributes) }
  var none = sigset_t()
  unsafe sigemptyset(&none)
  var all = sigset_t()
  unsafe sigfillset(&all)
  unsafe posix_spawnattr_setsigmask(&attributes, &none)
  unsafe posix_spawnattr_setsigdefault(&attributes, &all)
  unsafe posix_spawnattr_setflags(
    &attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))

  var pid: pid_t = 0
  let code = withoutSpawning {
    unsafe posix_spawn(&pid, words[0], &actions, &attributes, argv, environ)
  }
  precondition(code == 0, "can't start \(words[0]): \(Errno(code))")
  return Child(pid)
}

/// Runs a program to its end and gives its exit code and its output.
package func run(
  _ arguments: [String], environment: [String: String?] = [:], directory: String? = nil
) -> (code: Int32, output: String) {
  let folder = Folder()
  let child = spawn(
    arguments, environment: environment, directory: directory, output: folder.at("output"))
  let code = child.wait()
  return (code, folder.text("output") ?? "")
}
