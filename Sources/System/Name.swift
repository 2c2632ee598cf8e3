internal import Glibc

/// A file's name or path as the kernel has it: bytes, compared as bytes, without NUL.
package struct Name: Hashable, Comparable, Sendable, CustomStringConvertible {
  /// The bytes and a NUL behind them, as C wants them.
  package let cString: [CChar]

  package init(_ text: String) { cString = Array(text.utf8CString) }
  package init(bytes: some Sequence<UInt8>) {
    cString = bytes.map { CChar(bitPattern: $0) } + [0]
  }
  /// From a NUL-terminated string of C's.
  package init(cString: UnsafePointer<CChar>) {
    self.cString = unsafe Array(UnsafeBufferPointer(start: cString, count: strlen(cString) + 1))
  }

  /// The bytes without the NUL.
  package var bytes: some RandomAccessCollection<UInt8> {
    cString.dropLast().lazy.map { UInt8(bitPattern: $0) }
  }
  package var count: Int { cString.count - 1 }

  /// For people: bytes that are no UTF-8 become U+FFFD.
  package var description: String { String(decoding: bytes, as: UTF8.self) }

  package static func < (a: Name, b: Name) -> Bool {
    a.cString.lexicographicallyPrecedes(b.cString) {
      UInt8(bitPattern: $0) < UInt8(bitPattern: $1)
    }
  }
}

extension Name {
  /// Hashes the bytes at once; an array feeds them one by one, which costs a microsecond a name.
  package func hash(into hasher: inout Hasher) {
    unsafe cString.withUnsafeBytes { unsafe hasher.combine(bytes: $0) }
  }
}
