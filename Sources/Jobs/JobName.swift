package import System

/// The rules for job names in a spool; names are bytes.
///
/// A job ends in `.json`, doesn't begin with `.`, has no control characters and at most 200 bytes,
/// to which the `~1` that a worker puts before `.json` doesn't count.
package enum JobName {
  /// Bytes of a name as the producer gave it.
  package static let limit = 200
  /// Bytes of a name with its `~N`; a sidecar's `~ID` (up to 54 bytes) stays below NAME_MAX, 255.
  private static let hardLimit = 230
  private static let suffix = Array(".json".utf8)

  /// Whether it keeps all the rules.
  package static func isJob(_ name: Name) -> Bool {
    endsInJSON(name) && fault(name) == nil
  }

  /// Why a name that ends in `.json` is no job's; nil when it is one, or ends otherwise.
  package static func looksLikeAJob(_ name: Name) -> String? {
    endsInJSON(name) ? fault(name) : nil
  }

  /// The name without `.json`, for people.
  package static func stem(_ name: Name) -> String {
    String(decoding: stemBytes(name), as: UTF8.self)
  }

  /// `nightly.json` → `nightly~2.json`: the name for an older job that makes room.
  ///
  /// At most 230 bytes: a name that is too long already because of such suffixes loses them.
  package static func stepAside(_ name: Name, _ n: Int) -> Name {
    appending(Array("~\(n)".utf8), to: name, limit: hardLimit)
  }

  /// `nightly.json` → `nightly~ID.json`: the name for a sidecar whose job is gone. `id` without
  /// slashes, up to 54 bytes.
  package static func keyed(_ name: Name, id: String) -> Name {
    appending([UInt8(ascii: "~")] + id.utf8, to: name, limit: 255)
  }

  private static func appending(_ tail: [UInt8], to name: Name, limit: Int) -> Name {
    var stem = stemBytes(name)
    if stem.count + tail.count + suffix.count > limit { stem = stem.prefix(base(name)) }
    return Name(bytes: stem + tail + suffix)
  }

  private static func stemBytes(_ name: Name) -> ArraySlice<UInt8> {
    Array(name.bytes).dropLast(endsInJSON(name) ? suffix.count : 0)
  }

  // These three run for each name of a scan, a million at times: on the name's own bytes.

  private static func endsInJSON(_ name: Name) -> Bool {
    let (bytes, count) = (name.cString, name.count)
    return count >= 5 && bytes[count - 5] == 0x2e && bytes[count - 4] == 0x6a
      && bytes[count - 3] == 0x73 && bytes[count - 2] == 0x6f && bytes[count - 1] == 0x6e
  }

  /// How many bytes of the stem stand before the trailing `~N`s; never none.
  private static func base(_ name: Name) -> Int {
    let bytes = name.cString
    var end = name.count - (endsInJSON(name) ? suffix.count : 0)
    while true {
      var mark = end - 1
      while mark > 0, 0x30...0x39 ~= bytes[mark] { mark -= 1 }
      guard mark > 0, mark < end - 1, bytes[mark] == 0x7e else { return end }
      end = mark
    }
  }

  private static func fault(_ name: Name) -> String? {
    let (bytes, count) = (name.cString, name.count)
    if bytes[0] == 0x2e { return "a job's name doesn't begin with \".\"" }
    var index = 0
    while index < count {
      if 0..<0x20 ~= bytes[index] || bytes[index] == 0x7f {
        return "a job's name has no control characters"
      }
      index += 1
    }
    if count > limit, base(name) + suffix.count > limit || count > hardLimit {
      return "a job's name has at most \(limit) bytes, this one \(count)"
    }
    return nil
  }
}
