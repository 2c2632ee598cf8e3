extension Job {
  /// Where a job's files go.
  package enum Destination: Equatable, Sendable {
    /// An absolute URL (http, https or file) without fragment, spaces and control characters.
    case url(String)
    /// A destination of the configuration and a path below its url: without `.` and `..` segments
    /// and control characters, not beginning with `/`, possibly empty.
    case named(String, path: String)

    /// Takes `to` apart; an error's path is empty, since a command calls it otherwise.
    package init(_ text: String) throws(Malformed) {
      if text.isEmpty { throw Malformed("", "must not be empty; write a URL or NAME:PATH") }
      if text.utf8.count > 8192 { throw Malformed("", "is longer than 8,192 bytes") }
      if text.hasControlCharacters { throw Malformed("", "has a control character in it") }
      if let parts = URLParts(text) {
        try Self.check(text, parts)
        self = .url(text)
        return
      }
      let parts = text.utf8.split(
        separator: UInt8(ascii: ":"), maxSplits: 1, omittingEmptySubsequences: false)
      let name = String(Substring(parts[0]))
      guard parts.count == 2, isDestinationName(name) else {
        throw Malformed(
          "",
          "\(text.quoted) is neither a URL (https://…) nor NAME:PATH with a destination of the "
            + "configuration (A-Z, a-z, 0-9, _ and -, up to 64)")
      }
      if isScheme(name) {
        throw Malformed("", "\(text.quoted) isn't a URL; write \(name.lowercased())://…")
      }
      if parts[1].first == slash {
        throw Malformed(
          "",
          "the path after \"\(name):\" must not begin with \"/\"; it is below the destination's own "
            + "url")
      }
      if parts[1].split(separator: slash).contains(where: isDots) {
        throw Malformed("", "the path after \"\(name):\" must not have \".\" or \"..\" in it")
      }
      self = .named(name, path: String(Substring(parts[1])))
    }

    /// Whether each file's name is appended: the path ends in `/` or is empty. (A URL's query is
    /// not its path.)
    package var takesNames: Bool {
      switch self {
      case .named(_, let path): path.isEmpty || path.utf8.last == slash
      case .url(let text):
        URLParts(text).map { $0.path.isEmpty || $0.path.utf8.last == slash } ?? false
      }
    }

    private static func check(_ url: String, _ parts: URLParts) throws(Malformed) {
      guard isScheme(parts.scheme) else {
        throw Malformed(
          "",
          "this version sends to http://, https:// and file:// URLs, not to "
            + "\((parts.scheme + "://").quoted)")
      }
      if url.utf8.contains(UInt8(ascii: " ")) {
        throw Malformed("", "has a space in it; write %20")
      }
      if url.utf8.contains(UInt8(ascii: "#")) {
        throw Malformed("", "has a \"#\" in it, which never reaches a server; write %23")
      }
      if parts.scheme == "file" {
        guard parts.authority.isEmpty || parts.authority == "localhost", !parts.path.isEmpty else {
          throw Malformed("", "a file URL has three slashes, as in file:///srv/in/")
        }
      } else if parts.host.isEmpty {
        throw Malformed("", "the URL names no host")
      }
    }
  }
}

/// The parts of a URL that begins with `scheme://`, as they are written: for checks that need no
/// network library.
package struct URLParts: Equatable, Sendable {
  /// Lower-case.
  package var scheme: String
  /// User, host and port.
  package var authority: String
  /// Up to the query or the fragment.
  package var path: String

  /// Nil without `://`.
  package init?(_ text: String) {
    guard let mark = text.firstBytes("://") else { return nil }
    let rest = text.utf8[mark.upperBound...]
    let authority = rest[..<(rest.firstIndex { $0 == slash || endsPath($0) } ?? rest.endIndex)]
    let tail = rest[authority.endIndex...]
    scheme = text[..<mark.lowerBound].lowercased()
    self.authority = String(Substring(authority))
    path = String(Substring(tail[..<(tail.firstIndex(where: endsPath) ?? tail.endIndex)]))
  }

  /// User and password before the `@`, nil without one.
  package var userInfo: String? {
    authority.utf8.lastIndex(of: UInt8(ascii: "@")).map { String(authority[..<$0]) }
  }
  /// Without user and port; an IPv6 address with its brackets.
  package var host: String {
    var host = authority.utf8[...]
    if let at = host.lastIndex(of: UInt8(ascii: "@")) { host = host[host.index(after: at)...] }
    if host.first == UInt8(ascii: "["), let end = host.firstIndex(of: UInt8(ascii: "]")) {
      return String(Substring(host[...end]))
    }
    return String(Substring(host.prefix { $0 != UInt8(ascii: ":") }))
  }
}

private func endsPath(_ byte: UInt8) -> Bool {
  byte == UInt8(ascii: "?") || byte == UInt8(ascii: "#")
}

/// Whether a destination of the configuration may be called so: [A-Za-z0-9_-]{1,64}.
package func isDestinationName(_ name: String) -> Bool {
  1...64 ~= name.utf8.count
    && name.utf8.allSatisfy { isAlphanumeric($0) || $0 == 0x5f || $0 == 0x2d }
}

/// Whether it is a URL scheme that this version sends to, in any case.
package func isScheme(_ name: String) -> Bool {
  ["http", "https", "file"].contains(name.lowercased())
}

func isAlphanumeric(_ byte: UInt8) -> Bool {
  switch byte {
  case 0x30...0x39, 0x41...0x5a, 0x61...0x7a: true
  default: false
  }
}
