internal import Glibc
internal import System

/// Media types by a name's extension, from the system's table (/etc/mime.types, mime.types(5)).
package enum ContentTypes {
  package static let fallback = "application/octet-stream"

  /// The type for a file name; `fallback` when the table is missing or doesn't know it.
  package static func type(of name: String) -> String {
    guard let dot = name.utf8.lastIndex(of: UInt8(ascii: ".")) else { return fallback }
    let ending = String(name[name.utf8.index(after: dot)...]).lowercased()
    return table[ending] ?? fallback
  }

  private static let table: [String: String] = {
    guard let file = try? Calls.live.open(Name("/etc/mime.types"), O_RDONLY),
      let bytes = try? Calls.live.read(file.raw, upTo: 1 << 20)
    else { return [:] }
    return parse(bytes)
  }()

  /// Lines of `type ending ending …`; `#` begins a comment. The first mention of an ending counts.
  package static func parse(_ bytes: [UInt8]) -> [String: String] {
    var table: [String: String] = [:]
    for line in bytes.split(separator: 0x0a) {
      let line = line.prefix { $0 != UInt8(ascii: "#") }
      let words = line.split { $0 == 0x20 || $0 == 0x09 || $0 == 0x0d }
      guard let type = words.first else { continue }
      for ending in words.dropFirst() {
        let key = String(decoding: ending, as: UTF8.self).lowercased()
        if table[key] == nil { table[key] = String(decoding: type, as: UTF8.self) }
      }
    }
    return table
  }
}
