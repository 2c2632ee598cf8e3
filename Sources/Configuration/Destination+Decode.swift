internal import Jobs
internal import System

extension Configuration.Destination {
  private static let common = ["type", "concurrency", "slots", "bandwidth"]
  private static let network = [
    "url", "timeout", "connectTimeout", "stallTimeout", "ca", "cert", "key", "keyPassword", "proxy",
    "headers", "token", "user", "password", "method", "form", "verify", "requestsPerSecond",
  ]
  private static let laterTypes = ["s3", "tus", "qiniu", "upyun", "webdav", "sftp", "ftp"]

  /// What is the operator's own words is never repeated in an error: any of it may be secret.
  init(_ json: JSON, _ expander: inout Expander) throws(Malformed) {
    guard json.kind == .object else {
      throw Malformed("", "must be {\"type\": …, \"url\": …}, not \(json.kind.words)")
    }
    try json.replaceStrings { text throws(Malformed) in try expander.expand(text) }
    guard let type = json.member("type") else {
      throw Malformed("type", "is missing; write \"http\", \"form\" or \"file\"")
    }
    do throws(Malformed) {
      self.init(kind: try Self.kind(try type.asString()))
    } catch {
      throw error.within("type")
    }
    for (key, value) in json.members where key != "type" {
      do throws(Malformed) {
        try set(key, value)
      } catch {
        throw error.within(pathElement(key))
      }
    }
    try checkTogether()
    for secret in [token, password, keyPassword] {
      if let secret { expander.remember(secret.value) }
    }
    if let proxy, let password = Self.password(inProxy: proxy.value) { expander.remember(password) }
    for header in headers where Self.isCredential(header.name) {
      expander.remember(header.value)
      // Without "Bearer " or the like before it, as a server may repeat it.
      expander.remember(header.value.split(separator: " ").last.map(String.init) ?? "")
    }
  }

  private static func kind(_ word: String) throws(Malformed) -> Kind {
    if let kind = Kind(rawValue: word) { return kind }
    if laterTypes.contains(word) {
      throw Malformed("", "\"\(word)\" is not known to this version yet")
    }
    let known = Kind.allCases.map(\.rawValue) + laterTypes
    throw Malformed(
      "", "unknown type; the nearest known one is \"\(nearest(word, among: known)!)\"")
  }

  private mutating func set(_ key: String, _ value: JSON) throws(Malformed) {
    let isNetwork = Self.network.contains(key)
    if kind == .file ? isNetwork : key == "path" {
      throw Malformed("", "has no meaning for type \"\(kind.rawValue)\"")
    }
    switch key {
    case "url":
      url = try value.asString()
      try Self.check(url: url)
    case "path": path = try Self.absolute(value)
    case "concurrency": concurrency = Int(try value.asInteger(1...1024))
    case "slots": slots = Int(try value.asInteger(1...1024))
    case "requestsPerSecond":
      guard let rate = value.number, 0.001...100_000 ~= rate else {
        throw Malformed("", "must be a number from 0.001 to 100000; leave it out for no limit")
      }
      requestsPerSecond = rate
    case "bandwidth":
      bandwidth = try value.asSize()
      if bandwidth == 0 { throw Malformed("", "must be more than 0; leave it out for no limit") }
    case "timeout": timeout = try Self.timeout(value)
    case "connectTimeout": connectTimeout = try Self.timeout(value)
    case "stallTimeout": stallTimeout = try Self.timeout(value)
    case "ca": ca = try Self.absolute(value)
    case "cert": cert = try Self.absolute(value)
    case "key": self.key = try Self.absolute(value)
    case "keyPassword": keyPassword = Secret(try value.asString())
    case "proxy":
      proxy = Secret(try value.asString())
      try Self.check(proxy: proxy!.value)
    case "headers": headers = try value.asHeaders()
    case "token": token = try Self.credential(value)
    case "user":
      let user = try Self.credential(value).value
      if user.utf8.contains(UInt8(ascii: ":")) {
        throw Malformed("", "must not have \":\" in it (RFC 7617)")
      }
      self.user = user
    case "password": password = try Self.credential(value)
    case "method": method = try value.asCase()
    case "form":
      if kind != .form { throw Malformed("", "needs \"type\": \"form\"") }
      form = try value.asForm()
    case "verify": verify = try value.asCase()
    default:
      throw unknownKey(
        key, known: Self.common + (kind == .file ? ["path"] : Self.network))
    }
  }

  /// The rules that concern more than one key.
  private func checkTogether() throws(Malformed) {
    if kind == .file {
      if path.isEmpty { throw Malformed("path", "is missing; write an absolute directory") }
      return
    }
    if url.isEmpty { throw Malformed("url", "is missing; write https://…") }
    if key != nil && cert == nil { throw Malformed("key", "needs \"cert\", the certificate") }
    if keyPassword != nil && cert == nil {
      throw Malformed("keyPassword", "needs \"cert\", and \"key\" unless that holds the key too")
    }
    if password != nil && user == nil { throw Malformed("password", "needs \"user\"") }
    if token != nil && user != nil {
      throw Malformed("token", "and \"user\" are two ways to sign in; use one")
    }
    if (token != nil || user != nil)
      && headers.contains(where: { $0.name.lowercased() == "authorization" })
    {
      throw Malformed(
        "headers", "has \"Authorization\" in it, which \"token\" or \"user\" sets; use one")
    }
    if kind == .form {
      if method == .put { throw Malformed("method", "a form is always sent by POST") }
      if verify == .head { throw Malformed("verify", "\"head\" needs \"type\": \"http\"") }
    }
  }

  private static func check(url: String) throws(Malformed) {
    guard let parts = URLParts(url), ["http", "https"].contains(parts.scheme) else {
      throw Malformed("", "must begin with http:// or https://")
    }
    if parts.host.isEmpty { throw Malformed("", "names no host") }
    if parts.userInfo != nil {
      throw Malformed("", "must not have a user in it; write \"user\" and \"password\"")
    }
    if url.hasControlCharacters || url.utf8.contains(0x20) || url.utf8.contains(0x23) {
      throw Malformed("", "must not have spaces, control characters or \"#\" in it")
    }
  }

  private static func check(proxy: String) throws(Malformed) {
    guard let parts = URLParts(proxy), !parts.host.isEmpty,
      ["http", "https", "socks5", "socks5h"].contains(parts.scheme),
      !proxy.hasControlCharacters, !proxy.utf8.contains(0x20)
    else {
      throw Malformed("", "must begin with http://, https://, socks5:// or socks5h:// and a host")
    }
  }

  private static func password(inProxy proxy: String) -> String? {
    guard let user = URLParts(proxy)?.userInfo,
      let colon = user.utf8.firstIndex(of: UInt8(ascii: ":"))
    else { return nil }
    return String(user[user.utf8.index(after: colon)...])
  }

  /// Whether a header's value is worth hiding, by its name.
  package static func isCredential(_ header: String) -> Bool {
    let name = header.lowercased()
    return ["authorization", "cookie"].contains(name)
      || ["key", "token", "secret", "auth"].contains { name.hasSuffix($0) }
  }

  private static func absolute(_ json: JSON) throws(Malformed) -> String {
    let path = try json.asString()
    guard path.utf8.first == UInt8(ascii: "/") else {
      throw Malformed("", "must be an absolute path, beginning with \"/\"")
    }
    return path
  }

  /// What goes into a header: not empty, no line breaks or other control characters.
  private static func credential(_ json: JSON) throws(Malformed) -> Secret {
    let text = try json.asString()
    if text.isEmpty { throw Malformed("", "must not be empty") }
    if text.hasControlCharacters {
      throw Malformed("", "has a line break or another control character in it")
    }
    return Secret(text)
  }

  private static func timeout(_ json: JSON) throws(Malformed) -> Int64 {
    let span = try json.asDuration()
    if span < millisecond { throw Malformed("", "must be at least 1ms") }
    return span
  }
}
