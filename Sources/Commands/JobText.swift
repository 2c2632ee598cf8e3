internal import Jobs
internal import System

/// A job's JSON text as `submit` writes it: one key a line, in the manual's order.
///
/// It checks only what JSON can't hold (a key given twice); all else is `Job.decode`'s to judge.
struct JobText {
  private var out: [UInt8] = Array("{".utf8)
  private var isFirst = true

  private mutating func begin(_ key: String) {
    out += (isFirst ? "\n  " : ",\n  ").utf8
    isFirst = false
    out.append(string: key)
    out += ": ".utf8
  }

  mutating func add(_ key: String, _ value: String?) {
    guard let value else { return }
    begin(key)
    out.append(string: value)
  }
  mutating func add(_ key: String, _ value: Int?) {
    guard let value else { return }
    begin(key)
    out += String(value).utf8
  }
  /// Paths, the first with what it is called over there if that is given.
  mutating func add(files: [String], as name: String?) {
    begin("files")
    out.append(UInt8(ascii: "["))
    for (index, path) in files.enumerated() {
      if index > 0 { out += ",".utf8 }
      if files.count > 1 { out += "\n    ".utf8 }
      if let name {
        out += "{\"path\": ".utf8
        out.append(string: path)
        out += ", \"as\": ".utf8
        out.append(string: name)
        out += "}".utf8
      } else {
        out.append(string: path)
      }
    }
    out += (files.count > 1 ? "\n  ]" : "]").utf8
  }
  /// An object of strings; nothing when it is empty.
  mutating func add(_ key: String, pairs: [Pair]) {
    if pairs.isEmpty { return }
    begin(key)
    append(pairs)
  }
  /// A form of one field for each file and further ones.
  mutating func add(formField: String, fields: [Pair]) {
    begin("form")
    out += "{\"field\": ".utf8
    out.append(string: formField)
    if !fields.isEmpty {
      out += ", \"fields\": ".utf8
      append(fields)
    }
    out += "}".utf8
  }
  private mutating func append(_ pairs: [Pair]) {
    out += "{".utf8
    for (index, pair) in pairs.enumerated() {
      if index > 0 { out += ", ".utf8 }
      out.append(string: pair.key)
      out += ": ".utf8
      out.append(string: pair.value)
    }
    out += "}".utf8
  }

  /// The whole text.
  func finished() -> [UInt8] { out + "\n}\n".utf8 }

  /// A key and its value, as an option gave them.
  struct Pair: Equatable {
    var key: String
    var value: String
  }
}

/// Takes `K=V` or `K: V` apart at the first mark; the keys must differ.
func pairs(_ texts: [String], of option: OptionName, mark: Character) throws(UsageError)
  -> [JobText.Pair]
{
  var all: [JobText.Pair] = []
  for text in texts {
    let parts = text.utf8.split(
      separator: mark.asciiValue!, maxSplits: 1, omittingEmptySubsequences: false)
    let key = String(Substring(parts[0]))
    guard parts.count == 2, !key.isEmpty else {
      let form = mark == "=" ? "K=V" : "'K: V'"
      // What stands in a header may be a secret.
      let what = mark == "=" ? ", not \(text.quoted)" : "; there is no \":\" in it"
      throw UsageError("--\(option.rawValue): must be \(form)\(what)")
    }
    if all.contains(where: { $0.key.hasSameBytes(as: key) }) {
      throw UsageError("--\(option.rawValue): \(key.quoted) is given twice")
    }
    var value = parts[1]
    if mark == ":" { value = value.drop { $0 == 0x20 || $0 == 0x09 } }
    all.append(.init(key: key, value: String(Substring(value))))
  }
  return all
}

/// Nanoseconds since 1970 from RFC 3339 or a span from now as `+2h`.
func parseTime(_ text: String, now: Int64) -> Int64? {
  guard text.utf8.first == UInt8(ascii: "+") else { return Times.parse(text) }
  guard let span = Quantity.duration(String(text.dropFirst())) else { return nil }
  let (time, overflow) = now.addingReportingOverflow(span)
  return overflow ? nil : time
}
