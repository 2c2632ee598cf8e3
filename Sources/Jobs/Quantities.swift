internal import System

/// Spans of time and amounts of bytes as people write them in a configuration.
package enum Quantity {
  /// Nanoseconds from a number with `d`, `h`, `m`, `s` or `ms` behind it, as "7d", "1.5h", "500ms";
  /// a number alone is seconds. Nil for anything else, a negative one, or more than 100 years.
  package static func duration(_ text: String) -> Int64? {
    let units = [
      "d": 86400 * second, "h": 3600 * second, "m": 60 * second, "s": second, "": second,
      "ms": millisecond,
    ]
    return parse(text, units, limit: 36500 * 86400 * second)
  }

  /// Bytes from a number with `k`, `M`, `G`, `T` (powers of 1,000) or `Ki`, `Mi`, `Gi`, `Ti` (of
  /// 1,024) behind it, as "2M", "1.5Gi"; a `B` may follow; a number alone is bytes. Nil for anything
  /// else, a negative one, or more than 2^60.
  package static func size(_ text: String) -> Int64? {
    var units: [String: Int64] = ["": 1, "B": 1]
    for (power, letter) in ["k", "M", "G", "T"].enumerated() {
      let (thousand, binary) = (0...power).reduce((Int64(1), Int64(1))) { n, _ in
        (n.0 * 1000, n.1 * 1024)
      }
      for name in letter == "k" ? ["k", "K"] : [letter] {
        for end in ["", "B"] {
          units[name + end] = thousand
          units[name + "i" + end] = binary
        }
      }
    }
    return parse(text, units, limit: 1 << 60)
  }

  private static func parse(_ text: String, _ units: [String: Int64], limit: Int64) -> Int64? {
    let number = text.utf8.prefix { 0x30...0x39 ~= $0 || $0 == 0x2e }
    guard let unit = units[String(Substring(text.utf8[number.endIndex...]))],
      number.first != 0x2e, number.last != 0x2e, 1...30 ~= number.count
    else { return nil }
    let parts = number.split(separator: 0x2e, omittingEmptySubsequences: false)
    guard parts.count <= 2, let whole = Int64(String(Substring(parts[0]))) else { return nil }
    var (value, overflow) = whole.multipliedReportingOverflow(by: unit)
    guard !overflow, value <= limit else { return nil }
    if parts.count == 2 {
      var scale = 0.1
      var fraction = 0.0
      for digit in parts[1] {
        fraction += Double(digit - 0x30) * scale
        scale /= 10
      }
      value += Int64((fraction * Double(unit)).rounded())
    }
    return value <= limit ? value : nil
  }
}

extension JSON {
  /// Nanoseconds, from a string as `Quantity.duration` reads it or a number of seconds.
  package func asDuration() throws(Malformed) -> Int64 {
    let text = string ?? (number == nil ? "" : compact)
    guard let span = Quantity.duration(text) else {
      throw Malformed(
        "", "must be a span of time, as \"7d\", \"12h\", \"30m\", \"10s\" or \"500ms\"")
    }
    return span
  }

  /// Bytes, from a string as `Quantity.size` reads it or a number.
  package func asSize() throws(Malformed) -> Int64 {
    let text = string ?? (number == nil ? "" : compact)
    guard let size = Quantity.size(text) else {
      throw Malformed(
        "", "must be a number of bytes, as 500000, \"2M\" (2,000,000) or \"2Mi\" (2,097,152)")
    }
    return size
  }
}
