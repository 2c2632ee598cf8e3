internal import Glibc
internal import Loop
package import System

/// The process's loop on a thread of its own, started once.
private let loopIsRunning: Bool = {
  signal(SIGPIPE, SIG_IGN)
  return startThread {
    while true {
      Loop.shared.run()
      runs.with { $0 += 1 }
    }
  }
}()
private let runs = Locked(0)
/// How often the loop has been stopped; it is run again at once.
package var loopStops: Int { runs.with { $0 } }

/// Runs a body on the loop, as the product does, and gives its result.
package func onTheLoop<T: Sendable>(
  _ body: @escaping @Sendable @OnLoop () async throws -> T
) async throws -> T {
  precondition(loopIsRunning)
  return try await Loop.shared.start { try await body() }.value
}

/// A directory that is removed with its owner.
package final class Folder: Sendable {
  /// Absolute, without a slash at its end.
  package let path: String

  /// Below `parent`; /dev/shm for a tmpfs.
  package init(in parent: String = "/tmp") {
    var template = Array("\(parent)/upspool-test.XXXXXX".utf8CString)
    precondition(unsafe mkdtemp(&template) != nil, "can't make a folder in \(parent)")
    unsafe chmod(&template, 0o755)
    path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
  deinit { clear() }
  /// Removes it and all that lies in it.
  package func clear() { _ = spawn(["/bin/rm", "-rf", path]).wait() }

  /// The path of what lies in it.
  package func at(_ name: String) -> String { "\(path)/\(name)" }
  /// Makes a directory in it, with those above.
  @discardableResult
  package func makeDirectory(_ name: String) -> String {
    var part = path
    for piece in name.split(separator: "/") {
      part += "/\(piece)"
      unsafe mkdir(part, 0o777)
    }
    return part
  }
  /// Writes a whole file, and its time (nanoseconds since 1970) when one is given.
  @discardableResult
  package func write(_ name: String, _ bytes: [UInt8], modified: Int64? = nil) -> String {
    let fd = unsafe open(at(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
    precondition(fd >= 0, "can't write \(at(name))")
    defer { close(fd) }
    var done = 0
    while done < bytes.count {
      let n = unsafe bytes.withUnsafeBytes {
        unsafe Glibc.write(fd, $0.baseAddress! + done, $0.count - done)
      }
      precondition(n > 0, "can't write \(at(name))")
      done += n
    }
    if let modified {
      let time = timespec(tv_sec: Int(modified / second), tv_nsec: Int(modified % second))
      precondition(unsafe futimens(fd, [time, time]) == 0, "can't set the time of \(at(name))")
    }
    return at(name)
  }
  /// Writes a whole file.
  @discardableResult
  package func write(_ name: String, _ text: String, modified: Int64? = nil) -> String {
    write(name, Array(text.utf8), modified: modified)
  }
  /// A whole file; nil when it isn't there.
  package func read(_ name: String) -> [UInt8]? {
    do throws(Errno) {
      let file = try Calls.live.open(Name(at(name)), O_RDONLY)
      return try Calls.live.read(file.raw, upTo: Int(try Calls.live.facts(of: file.raw).size))
    } catch {
      return nil
    }
  }
  /// A whole file as text; nil when it isn't there.
  package func text(_ name: String) -> String? {
    read(name).map { String(decoding: $0, as: UTF8.self) }
  }
  /// Whether something bears that name.
  package func exists(_ name: String) -> Bool { facts(name) != nil }
  /// What statx(2) says; nil when there is nothing.
  package func facts(_ name: String) -> Facts? { try? Calls.live.facts(of: Name(at(name))) }
  /// The names in a directory of it, sorted; none when it isn't there.
  package func names(_ directory: String = ".") -> [String] {
    guard let open = try? Calls.live.openDirectory(Name(at(directory))) else { return [] }
    return ((try? Calls.live.names(in: open.raw)) ?? []).map(\.description).sorted()
  }
  /// Corresponds to rename(2); false when it fails.
  @discardableResult
  package func move(_ name: String, to other: String) -> Bool {
    unsafe rename(at(name), at(other)) == 0
  }
  /// Corresponds to unlink(2); false when it fails.
  @discardableResult
  package func remove(_ name: String) -> Bool { unsafe unlink(at(name)) == 0 }
}

/// What is to be done when the test process ends, since globals are never released.
private let endings: Locked<[@Sendable () -> Void]> = {
  atexit {
    for body in endings.with({ $0 }).reversed() { body() }
  }
  return Locked([])
}()

/// Runs `body` when the test process ends.
package func atTheEnd(_ body: @escaping @Sendable () -> Void) {
  endings.with { $0.append(body) }
}

/// The build's folder, where the binary under test lies beside the tests.
package let products: String = {
  var buffer = [CChar](repeating: 0, count: 4096)
  let n = unsafe readlink("/proc/self/exe", &buffer, 4095)
  let exe = String(decoding: buffer[..<max(0, n)].map { UInt8(bitPattern: $0) }, as: UTF8.self)
  return exe.lastIndex(of: "/").map { String(exe[..<$0]) } ?? "."
}()

/// Bytes that look random and are the same for the same seed.
package func noise(_ count: Int, seed: UInt64 = 1) -> [UInt8] {
  var bytes = [UInt8](repeating: 0, count: count)
  var x = seed &* 0x9e37_79b9_7f4a_7c15 | 1
  var i = 0
  while i < count {
    x ^= x << 13
    x ^= x >> 7
    x ^= x << 17
    var word = x
    for j in i..<min(i + 8, count) {
      bytes[j] = UInt8(truncatingIfNeeded: word)
      word >>= 8
    }
    i += 8
  }
  return bytes
}

/// Looks every few milliseconds until `condition` holds; false when `seconds` are over first.
package func eventually(_ seconds: Double = 10, _ condition: () -> Bool) async -> Bool {
  let end = Clock.monotonic() + Int64(seconds * 1e9)
  while !condition() {
    if Clock.monotonic() > end { return false }
    try? await Task.sleep(nanoseconds: 2_000_000)
  }
  return true
}
