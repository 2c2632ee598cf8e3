internal import Glibc
package import Jobs

/// The servers that jobs may reach.
///
/// Each entry is `name`, `name:port`, an IPv4 address with or without a port, or an IPv6 address in
/// brackets. Without a port it means the scheme's own (80, 443). No entries: everything is allowed.
/// Names are compared without regard to case and to a dot at their end; nothing is resolved.
package struct Hosts: Equatable, Sendable {
  private struct Entry: Hashable, Sendable {
    var host: String
    var port: Int?
  }
  private var entries: Set<Entry> = []

  /// Everything allowed.
  package init() {}

  /// An error's path is the entry's index.
  package init(_ list: [String]) throws(Malformed) {
    for (index, text) in list.enumerated() {
      guard let entry = Self.parse(text) else {
        throw Malformed(
          "[\(index)]",
          "\(text.quoted) must be a host, as \"example.com\", \"example.com:8443\", \"192.0.2.7\" or "
            + "\"[2001:db8::7]:8443\", without scheme, path and wildcards")
      }
      entries.insert(entry)
    }
  }

  /// No entries.
  package var allowsEverything: Bool { entries.isEmpty }

  /// Whether a URL of these parts may be reached; `host` with or without brackets, `port` nil for the
  /// scheme's own.
  package func allows(scheme: String, host: String, port: Int?) -> Bool {
    if entries.isEmpty { return true }
    guard let host = Self.canonical(host) else { return false }
    let usual = ["http": 80, "https": 443][scheme.lowercased()]
    guard let port = port ?? usual else { return false }
    return entries.contains(Entry(host: host, port: port))
      || (port == usual && entries.contains(Entry(host: host, port: nil)))
  }

  private static func parse(_ text: String) -> Entry? {
    var (host, port) = (text[...], Substring?.none)
    if text.hasPrefix("[") {
      guard let end = text.firstIndex(of: "]") else { return nil }
      host = text[...end]
      let rest = text[text.index(after: end)...]
      if !rest.isEmpty {
        guard rest.first == ":" else { return nil }
        port = rest.dropFirst()
      }
    } else if let colon = text.firstIndex(of: ":") {
      host = text[..<colon]
      port = text[text.index(after: colon)...]
    }
    guard let name = canonical(String(host)) else { return nil }
    guard let port else { return Entry(host: name, port: nil) }
    guard port.utf8.allSatisfy({ 0x30...0x39 ~= $0 }), let number = Int(port),
      1...65535 ~= number
    else { return nil }
    return Entry(host: name, port: number)
  }

  /// One spelling for each host; nil for what is none.
  private static func canonical(_ host: String) -> String? {
    if host.hasPrefix("[") || host.contains(":") {
      return canonical(v6: host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host)
    }
    let name = host.hasSuffix(".") ? String(host.dropLast()) : host
    let isName =
      1...253 ~= name.utf8.count
      && name.split(separator: ".", omittingEmptySubsequences: false).allSatisfy { label in
        1...63 ~= label.utf8.count
          && label.utf8.allSatisfy {
            switch $0 {
            case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, 0x2d, 0x5f: true
            default: false
            }
          }
      }
    return isName ? name.lowercased() : nil
  }

  private static func canonical(v6 text: String) -> String? {
    var address = in6_addr()
    guard unsafe inet_pton(AF_INET6, text, &address) == 1 else { return nil }
    let spelling = unsafe [CChar](unsafeUninitializedCapacity: Int(INET6_ADDRSTRLEN)) {
      buffer, count in
      let end = unsafe inet_ntop(AF_INET6, &address, buffer.baseAddress, socklen_t(buffer.count))
      count = unsafe end == nil ? 0 : strlen(buffer.baseAddress!)
    }
    return "[" + String(decoding: spelling.map { UInt8(bitPattern: $0) }, as: UTF8.self) + "]"
  }
}
