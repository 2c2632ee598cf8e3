/// A text that no message, log or sidecar may show; whoever prints it gets three dots.
package struct Secret: Equatable, Sendable, CustomStringConvertible, CustomDebugStringConvertible,
  CustomReflectable
{
  /// The text itself, for the request alone.
  package let value: String
  /// Keeps it.
  package init(_ value: String) { self.value = value }

  /// Three dots.
  package var description: String { "•••" }
  /// Three dots.
  package var debugDescription: String { "•••" }
  /// Nothing, for `dump`.
  package var customMirror: Mirror { Mirror(self, children: []) }
}

/// Takes known secrets out of texts before anybody sees them.
///
/// It finds them byte for byte; a secret of fewer than 4 bytes is not looked for, since it would
/// garble every text.
package struct Redactor: Sendable {
  private let secrets: [[UInt8]]

  /// For these; the order makes no difference.
  package init(_ secrets: [String]) {
    self.secrets = Set(secrets.map { Array($0.utf8) }).filter { $0.count >= 4 }
      .sorted { $0.count > $1.count }
  }

  /// The text with "•••" for each secret; where several fit, for the longest.
  package func redact(_ text: String) -> String {
    if secrets.isEmpty { return text }
    let bytes = Array(text.utf8)
    var out: [UInt8] = []
    var copied = 0
    var i = 0
    while i < bytes.count {
      guard let found = secrets.first(where: { bytes[i...].starts(with: $0) }) else {
        i += 1
        continue
      }
      out += bytes[copied..<i]
      out += "•••".utf8
      i += found.count
      copied = i
    }
    if copied == 0 { return text }
    return String(decoding: out + bytes[copied...], as: UTF8.self)
  }
}
