internal import Jobs

/// Puts values from elsewhere in the place of `${env:NAME}` and `${file:/path}`, and remembers them
/// as secrets. What it puts in is not looked at again. Its errors name the source, never a value.
struct Expander {
  let environment: (String) -> String?
  let readFile: (String) throws -> [UInt8]
  private(set) var secrets: [String] = []

  init(environment: @escaping (String) -> String?, readFile: @escaping (String) throws -> [UInt8]) {
    (self.environment, self.readFile) = (environment, readFile)
  }

  /// Remembers what is secret without being from elsewhere.
  mutating func remember(_ secret: String) {
    if !secret.isEmpty, !secrets.contains(secret) { secrets.append(secret) }
  }

  mutating func expand(_ text: String) throws(Malformed) -> String {
    var out = ""
    var rest = text[...]
    while let start = rest.firstBytes("${") {
      out += rest[..<start.lowerBound]
      rest = rest[start.upperBound...]
      guard let end = rest.utf8.firstIndex(of: UInt8(ascii: "}")) else {
        throw Malformed("", "\"${\" without \"}\"; it stands for a value, as in ${env:NAME}")
      }
      let value = try self.value(of: rest[..<end])
      remember(value)
      out += value
      rest = rest[rest.utf8.index(after: end)...]
    }
    return out + rest
  }

  private func value(of source: Substring) throws(Malformed) -> String {
    let parts = source.utf8.split(
      separator: UInt8(ascii: ":"), maxSplits: 1, omittingEmptySubsequences: false)
    let name = parts.count == 2 ? String(Substring(parts[1])) : ""
    switch String(Substring(parts[0])) {
    case "env" where !name.isEmpty:
      guard let value = environment(name) else {
        throw Malformed("", "the environment variable \(name.quoted) is not set")
      }
      if value.isEmpty { throw Malformed("", "the environment variable \(name.quoted) is empty") }
      return value
    case "file" where name.utf8.first == UInt8(ascii: "/"): return try content(of: name)
    default:
      throw Malformed("", "only ${env:NAME} and ${file:/absolute/path} can stand for a value")
    }
  }

  private func content(of path: String) throws(Malformed) -> String {
    var bytes: [UInt8]
    do {
      bytes = try readFile(path)
    } catch {
      throw Malformed("", "can't read the file \(path.quoted): \(error)")
    }
    if bytes.count > 64 << 10 { throw Malformed("", "the file \(path.quoted) is over 64 KiB") }
    if bytes.last == 0x0a { bytes.removeLast() }
    if bytes.last == 0x0d { bytes.removeLast() }
    if bytes.isEmpty { throw Malformed("", "the file \(path.quoted) is empty") }
    guard !bytes.contains(0), let text = String(validating: bytes, as: UTF8.self) else {
      throw Malformed("", "the file \(path.quoted) is not a text in UTF-8")
    }
    return text
  }
}
