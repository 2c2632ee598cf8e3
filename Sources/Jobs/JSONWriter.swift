/// JSON text, straight into bytes.
extension [UInt8] {
  mutating func append(raw text: StaticString) {
    unsafe append(
      contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
  }

  /// Decimal, without a `String` in between.
  mutating func append(integer: Int64) {
    if integer < 0 { append(UInt8(ascii: "-")) }
    var rest = integer.magnitude
    if rest < 10 {
      append(UInt8(48 + rest))
      return
    }
    let start = count
    while rest > 0 {
      append(UInt8(48 + rest % 10))
      rest /= 10
    }
    self[start...].reverse()
  }

  /// In quotes. Control characters (C0, DEL, C1) are escaped, so that `cat` shows them harmlessly.
  package mutating func append(string text: String) {
    append(UInt8(ascii: "\""))
    let copied: Void? = unsafe text.utf8.withContiguousStorageIfAvailable { buffer in
      unsafe append(escaping: buffer)
    }
    if copied == nil {
      unsafe Array(text.utf8).withUnsafeBufferPointer { unsafe append(escaping: $0) }
    }
    append(UInt8(ascii: "\""))
  }

  /// As `string`; NUL, which no JSON library of C's takes in a key, becomes U+FFFD.
  mutating func append(key text: String) {
    guard text.utf8.contains(0) else { return append(string: text) }
    append(
      string: String(
        decoding: text.utf8.flatMap { $0 == 0 ? [0xef, 0xbf, 0xbd] : [$0] }, as: UTF8.self))
  }

  private mutating func append(escaping bytes: UnsafeBufferPointer<UInt8>) {
    var start = 0
    var i = 0
    while i < bytes.count {
      let byte = unsafe bytes[i]
      if byte >= 0x20, byte != 0x22, byte != 0x5c, byte != 0x7f, byte != 0xc2 {
        i += 1
        continue
      }
      if byte == 0xc2, unsafe i + 1 < bytes.count && bytes[i + 1] >= 0xa0 {
        i += 2
        continue
      }
      unsafe append(contentsOf: UnsafeBufferPointer(rebasing: bytes[start..<i]))
      append(UInt8(ascii: "\\"))
      switch byte {
      case 0x22, 0x5c: append(byte)
      case 0x0a: append(UInt8(ascii: "n"))
      case 0x09: append(UInt8(ascii: "t"))
      case 0x0d: append(UInt8(ascii: "r"))
      case 0xc2 where i + 1 < bytes.count:
        i += 1
        unsafe append(escape: bytes[i])
      default: append(escape: byte)
      }
      i += 1
      start = i
    }
    unsafe append(contentsOf: UnsafeBufferPointer(rebasing: bytes[start...]))
  }

  private mutating func append(escape byte: UInt8) {
    append(raw: "u00")
    for nibble in [byte >> 4, byte & 15] {
      append(nibble < 10 ? 48 + nibble : 87 + nibble)
    }
  }
}

extension JSON {
  /// The value as JSON text without spaces; numbers in their shortest form.
  package var compact: String {
    var bytes: [UInt8] = []
    write(to: &bytes)
    return String(decoding: bytes, as: UTF8.self)
  }

  private func write(to bytes: inout [UInt8]) {
    switch kind {
    case .null: bytes.append(raw: "null")
    case .boolean:
      if boolean == true { bytes.append(raw: "true") } else { bytes.append(raw: "false") }
    case .integer: bytes.append(integer: integer ?? 0)
    case .real: bytes.append(contentsOf: (number ?? 0).description.utf8)
    case .string: bytes.append(string: string ?? "")
    case .array:
      bytes.append(UInt8(ascii: "["))
      for index in 0..<count {
        if index > 0 { bytes.append(UInt8(ascii: ",")) }
        element(index)?.write(to: &bytes)
      }
      bytes.append(UInt8(ascii: "]"))
    case .object:
      bytes.append(UInt8(ascii: "{"))
      for (index, (key, value)) in members.enumerated() {
        if index > 0 { bytes.append(UInt8(ascii: ",")) }
        bytes.append(key: key)
        bytes.append(UInt8(ascii: ":"))
        value.write(to: &bytes)
      }
      bytes.append(UInt8(ascii: "}"))
    }
  }
}
