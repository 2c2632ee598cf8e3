internal import Glibc
internal import System

/// A loopback HTTP server that does what no honest one would: each connection is served by a
/// closure on a thread of its own, byte by byte. It ends with its owner.
package final class FaultServer: Sendable {
  /// Where it listens on 127.0.0.1.
  package let port: Int
  private let listener: Int32
  private let accepted = Locked(0)
  private let isStopped = Locked(false)

  /// Listens on `port`, or a free one; the connection is closed when `serve` returns.
  /// `receiveBuffer` bytes (SO_RCVBUF) make the client feel at once how fast it reads.
  package init(
    port: Int = 0, receiveBuffer: Int32? = nil,
    _ serve: @escaping @Sendable (Connection) -> Void
  ) {
    let (fd, port) = listenOnLoopback(port)
    if var size = receiveBuffer {
      unsafe setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, 4)
    }
    (listener, self.port) = (fd, port)
    startThread { [accepted] in
      while true {
        var entry = pollfd(fd: fd, events: Int16(POLLIN), revents: 0)
        unsafe poll(&entry, 1, -1)
        let (client, error) = withoutSpawning {
          let client = accept(fd, nil, nil)
          let error = errno
          if client >= 0 { _ = fcntl(client, F_SETFD, FD_CLOEXEC) }
          return (client, error)
        }
        if client < 0 {
          // Shut down; all else passes, such as too many open files.
          if error == EINVAL || error == EBADF {
            close(fd)
            return
          }
          usleep(1_000)
          continue
        }
        let number = accepted.with { count in
          count += 1
          return count
        }
        startThread {
          let connection = Connection(client, number)
          serve(connection)
          connection.close()
        }
      }
    }
  }
  deinit { stop() }

  /// "http://127.0.0.1:PORT"
  package var url: String { "http://127.0.0.1:\(port)" }
  /// Connections up to now.
  package var connections: Int { accepted.with { $0 } }
  /// No further connections; those that are open go on.
  package func stop() {
    // Once: afterwards the number is another server's.
    let isFirst = isStopped.with { isStopped in
      defer { isStopped = true }
      return !isStopped
    }
    if isFirst { shutdown(listener, Int32(SHUT_RDWR)) }
  }

  /// What a request's head says.
  package struct Head: Sendable {
    /// From the request line to the empty line, as it came.
    package let text: String
    /// The first word of the request line.
    package var method: String { words.first ?? "" }
    /// Its second word.
    package var target: String { words.count > 1 ? words[1] : "" }
    private var words: [String] {
      (text.split(separator: "\r\n").first ?? "").split(separator: " ").map(String.init)
    }
    /// A header's value, whatever the case of its name.
    package func header(_ name: String) -> String? {
      for line in text.split(separator: "\r\n").dropFirst() {
        let parts = line.split(separator: ":", maxSplits: 1)
        if parts.count == 2, parts[0].lowercased() == name.lowercased() {
          return String(parts[1].drop { $0 == " " })
        }
      }
      return nil
    }
    /// Content-Length; 0 when there is none.
    package var length: Int { header("content-length").flatMap { Int($0) } ?? 0 }
  }

  /// One accepted connection, used by one thread.
  package final class Connection: @unchecked Sendable {
    private var fd: Int32
    private var buffer: [UInt8] = []
    /// 1 for the server's first connection, and so on.
    package let number: Int

    fileprivate init(_ fd: Int32, _ number: Int) { (self.fd, self.number) = (fd, number) }

    /// A request's head; nil when the client has gone.
    package func readHead() -> Head? {
      let end = Array("\r\n\r\n".utf8)
      while true {
        for i in buffer.indices.dropLast(3) where buffer[i] == 13 && buffer[i..<i + 4] == end[...] {
          let text = String(decoding: buffer[..<(i + 4)], as: UTF8.self)
          buffer.removeFirst(i + 4)
          return Head(text: text)
        }
        if !more(1 << 16) { return nil }
      }
    }
    /// `count` bytes of the body, or fewer when the client ends before.
    package func read(_ count: Int) -> [UInt8] {
      while buffer.count < count, more(min(1 << 20, count - buffer.count)) {}
      let bytes = Array(buffer.prefix(count))
      buffer.removeFirst(bytes.count)
      return bytes
    }
    /// Reads and answers one request with `status`, as an honest server would; nil at the end of
    /// the connection. `seen` is called before the answer goes out.
    @discardableResult
    package func answer(
      _ status: String, _ headers: String = "", seen: ((Head, [UInt8]) -> Void)? = nil
    ) -> (Head, [UInt8])? {
      guard let head = readHead() else { return nil }
      let body = read(head.length)
      if body.count < head.length { return nil }
      seen?(head, body)
      send("HTTP/1.1 \(status)\r\n\(headers)Content-Length: 0\r\n\r\n")
      return (head, body)
    }
    /// False when the client has gone.
    @discardableResult
    package func send(_ text: String) -> Bool {
      let bytes = Array(text.utf8)
      var done = 0
      while done < bytes.count {
        let n = unsafe bytes.withUnsafeBytes {
          unsafe Glibc.send(
            fd, $0.baseAddress! + done, $0.count - done, Int32(MSG_NOSIGNAL))
        }
        if n <= 0 { return false }
        done += n
      }
      return true
    }
    /// Waits until the client closes or resets, dropping what it still sends; the number of bytes
    /// dropped, or nil when `seconds` are over first.
    package func waitForEnd(seconds: Double) -> Int? {
      let end = Clock.monotonic() + Int64(seconds * 1e9)
      var dropped = buffer.count
      while true {
        let left = (end - Clock.monotonic()) / millisecond
        if left <= 0 { return nil }
        var entry = pollfd(fd: fd, events: Int16(POLLIN), revents: 0)
        if unsafe poll(&entry, 1, Int32(left)) <= 0 { continue }
        buffer = []
        if !more(1 << 20) { return dropped }
        dropped += buffer.count
      }
    }
    /// Ends it with a RST instead of a FIN.
    package func reset() {
      var linger = linger(l_onoff: 1, l_linger: 0)
      unsafe setsockopt(
        fd, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<Glibc.linger>.size))
      close()
    }
    /// Ends it; what hasn't been read makes the kernel send a RST.
    package func close() {
      if fd >= 0 { Glibc.close(fd) }
      fd = -1
    }
    private func more(_ count: Int) -> Bool {
      if fd < 0 { return false }
      var bytes = [UInt8](repeating: 0, count: count)
      let n = unsafe recv(fd, &bytes, count, 0)
      if n <= 0 { return false }
      buffer += bytes[..<n]
      return true
    }
  }
}

/// A listening socket on 127.0.0.1; port 0 takes a free one.
private func listenOnLoopback(_ port: Int) -> (fd: Int32, port: Int) {
  let fd = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
  var yes: Int32 = 1
  unsafe setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, 4)
  var address = sockaddr_in()
  address.sin_family = sa_family_t(AF_INET)
  address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
  address.sin_port = UInt16(port).bigEndian
  var length = socklen_t(MemoryLayout<sockaddr_in>.size)
  let bound = unsafe withUnsafeMutablePointer(to: &address) { pointer in
    unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { raw in
      let code = unsafe bind(fd, raw, length)
      _ = unsafe getsockname(fd, raw, &length)
      return code
    }
  }
  precondition(bound == 0 && listen(fd, 128) == 0, "can't listen on port \(port)")
  return (fd, Int(UInt16(bigEndian: address.sin_port)))
}

/// A loopback port on which nobody listens right now.
package func freePort() -> Int {
  let (fd, port) = listenOnLoopback(0)
  close(fd)
  return port
}

/// Whether somebody listens on a loopback port.
package func isListening(_ port: Int) -> Bool {
  let fd = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
  defer { close(fd) }
  var address = sockaddr_in()
  address.sin_family = sa_family_t(AF_INET)
  address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
  address.sin_port = UInt16(port).bigEndian
  return unsafe withUnsafePointer(to: &address) { pointer in
    unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
      unsafe connect(fd, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
    }
  }
}
