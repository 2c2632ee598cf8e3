internal import CCurl

/// An http or https URL (RFC 3986), parsed by libcurl, the same code that will use it.
package struct URL: Sendable, Equatable {
  /// "http" or "https".
  package let scheme: String
  /// Decoded; nil when there is none.
  package let user: String?
  /// Decoded; nil when there is none.
  package let password: String?
  /// In lower case; an IPv6 address with its brackets.
  package let host: String
  /// The scheme's default when none is given.
  package let port: Int
  /// Percent-encoded, from the first slash on.
  package let path: String
  /// Percent-encoded, without the question mark; nil when there is none.
  package let query: String?
  /// "user:password@" as it was written, or nothing.
  private let credentials: String

  /// Parses; blanks and other bytes that a URL may not hold are percent-encoded, a fragment is
  /// dropped. `.invalid` with a text that names what is wrong but not the URL's secrets.
  package init(_ text: String) throws(TransferError) {
    if text.utf8.contains(where: { $0 < 0x20 || $0 == 0x7f }) {
      throw .invalid("the URL holds a control character")
    }
    guard let handle = unsafe curl_url() else { throw .invalid("out of memory") }
    defer { unsafe curl_url_cleanup(handle) }
    let code = unsafe curl_url_set(
      handle, CURLUPART_URL, text,
      UInt32(CURLU_URLENCODE | CURLU_PATH_AS_IS | CURLU_NON_SUPPORT_SCHEME))
    if code != CURLUE_OK {
      let why = unsafe String(cString: curl_url_strerror(code))
      throw .invalid("not a URL (\(why)): it must be like https://host/path/")
    }
    func part(_ what: CURLUPart, _ flags: Int32 = 0) -> String? {
      var value: UnsafeMutablePointer<CChar>?
      guard unsafe curl_url_get(handle, what, &value, UInt32(flags)) == CURLUE_OK,
        let found = unsafe value
      else { return nil }
      defer { unsafe curl_free(found) }
      return unsafe String(cString: found)
    }
    scheme = part(CURLUPART_SCHEME)?.lowercased() ?? ""
    guard scheme == "http" || scheme == "https" else {
      throw .invalid("URLs with \(scheme):// can't be used here, only http:// and https://")
    }
    host = part(CURLUPART_HOST)?.lowercased() ?? ""
    if host.isEmpty { throw .invalid("the URL names no host") }
    port = part(CURLUPART_PORT, CURLU_DEFAULT_PORT).flatMap { Int($0) } ?? 0
    path = part(CURLUPART_PATH) ?? "/"
    query = part(CURLUPART_QUERY)
    user = part(CURLUPART_USER, CURLU_URLDECODE)
    password = part(CURLUPART_PASSWORD, CURLU_URLDECODE)
    let raw = (part(CURLUPART_USER), part(CURLUPART_PASSWORD))
    credentials = raw.0.map { "\($0)\(raw.1.map { ":\($0)" } ?? "")@" } ?? ""
  }

  private init(_ other: URL, path: String) {
    scheme = other.scheme
    user = other.user
    password = other.password
    host = other.host
    port = other.port
    query = other.query
    credentials = other.credentials
    self.path = path
  }

  /// The whole URL, for the wire; with its secrets.
  package var text: String {
    "\(scheme)://\(credentials)\(authority)\(path)\(query.map { "?\($0)" } ?? "")"
  }
  /// For people and logs: no user, no password, and "…" for a query, which may be a signature.
  package var display: String {
    "\(scheme)://\(authority)\(path)\(query == nil ? "" : "?…")"
  }
  /// The same for a text that may not be a URL at all.
  package static func display(_ text: String) -> String {
    (try? URL(text))?.display ?? "an unreadable address"
  }
  /// "scheme://host:port", the port always there: equal for two URLs of one origin (RFC 6454).
  package var origin: String { "\(scheme)://\(host):\(port)" }
  /// The host, and the port where it isn't the scheme's own.
  package var authority: String {
    port == (scheme == "https" ? 443 : 80) ? host : "\(host):\(port)"
  }

  /// The URL with a file's name, or a relative path, behind its path and before its query. Every
  /// byte of `name` but unreserved ones and slashes is percent-encoded (RFC 3986, 2.3).
  package func appendingPath(_ name: String) -> URL {
    let slash = path.hasSuffix("/") ? "" : "/"
    return URL(self, path: path + slash + URL.encoded(name))
  }
  /// Percent-encodes what isn't unreserved (RFC 3986, 2.3); slashes stay.
  package static func encoded(_ name: String) -> String {
    let digits = Array("0123456789ABCDEF".utf8)
    var out: [UInt8] = []
    out.reserveCapacity(name.utf8.count)
    for byte in name.utf8 {
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."),
        UInt8(ascii: "_"), UInt8(ascii: "~"), UInt8(ascii: "/"):
        out.append(byte)
      default:
        out += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
      }
    }
    return String(decoding: out, as: UTF8.self)
  }
}
