internal import CLinux
internal import Glibc
internal import System

/// A stream that text goes to by write(2), in pieces of up to 64 KiB.
///
/// A reader that has gone away (EPIPE) ends the process quietly: it has all that it wanted.
package final class Output {
  private let fd: Int32
  private var buffer: [UInt8] = []

  /// Doesn't own `fd`.
  package init(_ fd: Int32) { self.fd = fd }

  /// One line; the newline is added.
  package func line(_ text: String = "") {
    buffer += text.utf8
    buffer.append(UInt8(ascii: "\n"))
    flushIfLong()
  }
  /// Bytes as they are.
  package func bytes(_ bytes: some Sequence<UInt8>) {
    buffer += bytes
    flushIfLong()
  }
  private func flushIfLong() {
    if buffer.count >= 64 << 10 { flush() }
  }

  /// Writes what is left. A stream that can't be written (a full disk) ends the process with exit
  /// code 1, after a line on standard error.
  package func flush() {
    defer { buffer.removeAll(keepingCapacity: true) }
    if buffer.isEmpty { return }
    do throws(Errno) {
      try Calls.live.write(fd, buffer)
    } catch {
      if error.code == EPIPE { exit(ExitCode.fine.rawValue) }
      if fd != STDERR_FILENO {
        try? Calls.live.write(
          STDERR_FILENO, Array("upspool: cannot write the output: \(error)\n".utf8))
      }
      exit(ExitCode.failed.rawValue)
    }
  }
}

/// Where a command reads its surroundings and writes to.
package final class Console {
  /// Data.
  package let out: Output
  /// Messages.
  package let err: Output
  /// Columns of a table.
  let width: Int
  /// Whether words may be coloured.
  let isColoured: Bool
  private let environment: (String) -> String?

  /// The process's own streams and environment.
  package convenience init() {
    let variable = { (name: String) in unsafe getenv(name).map { unsafe String(cString: $0) } }
    let columns = Int(clinux_terminal_width(STDOUT_FILENO))
    let isTerminal = isatty(STDOUT_FILENO) == 1
    self.init(
      out: Output(STDOUT_FILENO), err: Output(STDERR_FILENO),
      // A terminal of unknown or hardly any width is taken for a common one.
      width: !isTerminal ? 100 : columns >= 40 ? columns : 80,
      // no-color.org: set and not empty.
      isColoured: isTerminal && (variable("NO_COLOR") ?? "").isEmpty && variable("TERM") != "dumb",
      environment: variable)
  }
  init(
    out: Output, err: Output, width: Int, isColoured: Bool,
    environment: @escaping (String) -> String?
  ) {
    (self.out, self.err, self.width) = (out, err, width)
    (self.isColoured, self.environment) = (isColoured, environment)
  }

  /// Whether lines may be drawn in place.
  var isScreen: Bool { isatty(STDOUT_FILENO) == 1 && variable("TERM") != "dumb" }
  /// The terminal's columns and lines as they are now; 80 and 24 where it doesn't know.
  var screen: (width: Int, height: Int) {
    let columns = Int(clinux_terminal_width(STDOUT_FILENO))
    let lines = Int(clinux_terminal_height(STDOUT_FILENO))
    return (columns > 0 ? columns : 80, lines > 0 ? lines : 24)
  }

  /// A variable of the environment; one that is empty counts as not set.
  func variable(_ name: String) -> String? {
    environment(name).flatMap { $0.isEmpty ? nil : $0 }
  }
}
