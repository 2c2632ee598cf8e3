package import System
package import Transfer

/// A digest that a server states of what it stored.
package enum ServerDigest {
  /// Repr-Digest (RFC 9530) or Digest (RFC 3230), or the `x-checksum-…` headers that artefact
  /// servers send; nil for none. What can't be read counts as none.
  ///
  /// The first two speak of the answer's own content where it has one, so they count only without.
  package static func find(in response: Response) -> (kind: Digest.Kind, bytes: [UInt8])? {
    for (name, kind) in [
      ("x-checksum-sha256", Digest.Kind.sha256), ("x-checksum-sha1", .sha1),
      ("x-checksum-md5", .md5),
    ] {
      if let value = response.header(name), let bytes = hex(value.trimmingBlanks),
        bytes.count == length(kind)
      {
        return (kind, bytes)
      }
    }
    guard response.body.isEmpty else { return nil }
    for (name, algorithm, kind) in [
      ("repr-digest", "sha-512=:", Digest.Kind.sha512), ("repr-digest", "sha-256=:", .sha256),
      ("digest", "sha-256=", .sha256), ("digest", "md5=", .md5),
    ] {
      for item in (response.header(name) ?? "").split(separator: ",") {
        let item = String(item).trimmingBlanks
        guard item.lowercased().hasPrefix(algorithm) else { continue }
        let value = item.dropFirst(algorithm.count)
        guard let bytes = base64(value.hasSuffix(":") ? value.dropLast() : value),
          bytes.count == length(kind), bytes != Digest.of([], kind)
        else { continue }
        return (kind, bytes)
      }
    }
    return nil
  }

  private static func length(_ kind: Digest.Kind) -> Int {
    switch kind {
    case .md5: 16
    case .sha1: 20
    case .sha256: 32
    case .sha512: 64
    }
  }

  /// Base 64 (RFC 4648, 4), padding optional.
  package static func base64(_ text: Substring) -> [UInt8]? {
    var out: [UInt8] = []
    var bits: UInt32 = 0
    var count = 0
    for byte in text.utf8 {
      if byte == UInt8(ascii: "=") { continue }
      let value: UInt8
      switch byte {
      case UInt8(ascii: "A")...UInt8(ascii: "Z"): value = byte - UInt8(ascii: "A")
      case UInt8(ascii: "a")...UInt8(ascii: "z"): value = byte - UInt8(ascii: "a") + 26
      case UInt8(ascii: "0")...UInt8(ascii: "9"): value = byte - UInt8(ascii: "0") + 52
      case UInt8(ascii: "+"): value = 62
      case UInt8(ascii: "/"): value = 63
      default: return nil
      }
      bits = bits << 6 | UInt32(value)
      count += 6
      if count >= 8 {
        count -= 8
        out.append(UInt8(truncatingIfNeeded: bits >> UInt32(count)))
      }
    }
    return out
  }

  private static func hex(_ text: String) -> [UInt8]? {
    let digits = text.utf8.compactMap { Character(Unicode.Scalar($0)).hexDigitValue }
    guard digits.count == text.utf8.count, digits.count % 2 == 0 else { return nil }
    return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] * 16 + digits[$0 + 1]) }
  }
}
