package import System

/// A server's answer. Redirects that aren't followed are errors, every other status is an answer.
package struct Response: Sendable {
  /// Such as 201.
  package let status: Int
  /// The first 64 KiB of the body; the rest is dropped.
  package let body: [UInt8]
  /// Body bytes of the request that went into the socket (of a form, the file's).
  package let sent: Int64
  /// Where the answer came from, after redirects.
  package let finalURL: String
  private let head: [UInt8]

  init(status: Int, head: [UInt8], body: [UInt8], sent: Int64, finalURL: String) {
    (self.status, self.head, self.body) = (status, head, body)
    (self.sent, self.finalURL) = (sent, finalURL)
  }

  /// Names in lower case and values without blanks around them, in the order of arrival.
  package var headers: [(name: String, value: String)] {
    var all: [(name: String, value: String)] = []
    eachLine { name, value in
      all.append(
        (
          String(decoding: head[name], as: UTF8.self).lowercased(),
          String(decoding: head[value], as: UTF8.self)
        ))
      return true
    }
    return all
  }
  /// The first header of that name, whatever its case.
  package func header(_ name: String) -> String? {
    var found: String?
    var wanted = name
    // Most answers are asked for headers that they don't have: no text is made of the others.
    wanted.withUTF8 { wanted in
      eachLine { name, value in
        guard name.count == wanted.count else { return true }
        for i in 0..<name.count
        where unsafe lowered(head[name.lowerBound + i]) != lowered(wanted[i]) {
          return true
        }
        found = String(decoding: head[value], as: UTF8.self)
        return false
      }
    }
    return found
  }
  /// Where each line's name and value lie; `next` returns false to stop.
  private func eachLine(_ next: (Range<Int>, Range<Int>) -> Bool) {
    var start = 0
    while start < head.count {
      var colon = -1
      var end = start
      while end < head.count, head[end] != UInt8(ascii: "\n") {
        if colon < 0, head[end] == UInt8(ascii: ":") { colon = end }
        end += 1
      }
      defer { start = end + 1 }
      if colon < 0 { continue }
      var (from, to) = (colon + 1, end)
      while from < to, isBlank(head[from]) { from += 1 }
      while from < to, isBlank(head[to - 1]) { to -= 1 }
      if !next(start..<colon, from..<to) { return }
    }
  }
  private func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 || byte == 0x0d }
  private func lowered(_ byte: UInt8) -> UInt8 {
    0x41...0x5a ~= byte ? byte | 0x20 : byte
  }
  /// 200 to 299.
  package var isSuccess: Bool { 200...299 ~= status }
}

/// Why there is no answer. `sent` is body bytes that the socket took.
package enum TransferError: Error, Equatable, Sendable {
  /// Resolving or connecting failed: nothing of the request reached the server.
  case unreachable(String)
  /// Certificate or handshake trouble: nothing of the request was sent.
  case tls(String)
  /// The connection ended within the request, or before there was a whole answer.
  case cut(String, sent: Int64)
  /// No byte moved for the progress limit while the body was being sent.
  case stalled(sent: Int64)
  /// The body is out, and the answer limit is over.
  case noAnswer(sent: Int64)
  /// The file is not what it was when it was opened: what was sent is worthless.
  case sourceChanged(String)
  /// Reading the file failed, or didn't come back within the source limit (ETIMEDOUT).
  case sourceUnreadable(Errno)
  /// A redirect that isn't followed.
  case redirected(to: String)
  /// The request can't be sent as it is.
  case invalid(String)
  /// The task was cancelled.
  case cancelled
}

extension TransferError: CustomStringConvertible {
  /// For people: what is wrong and what to do.
  package var description: String {
    switch self {
    case .unreachable(let why): "can't reach the server: \(why)"
    case .tls(let why): "no secure connection: \(why)"
    case .cut(let why, let sent): "the connection ended after \(sent) bytes: \(why)"
    case .stalled(let sent): "the server takes no more bytes after \(sent)"
    case .noAnswer(let sent): "all \(sent) bytes were sent, but the server does not answer"
    case .sourceChanged(let why): "\(why); send it again when nobody writes to it"
    case .sourceUnreadable(let errno): "can't read the file: \(errno)"
    case .redirected(let to):
      "the server redirects to \(URL.display(to)), which isn't followed; use that address if it is"
        + " right"
    case .invalid(let why): why
    case .cancelled: "cancelled"
    }
  }
}
