internal import System

/// Times as text: RFC 3339.
package enum Times {
  /// `2026-12-01T08:00:00Z` from nanoseconds since 1970; fractions are rounded down.
  package static func format(_ nanoseconds: Int64) -> String {
    text { $0.append(time: nanoseconds) }
  }
  /// To the nanosecond; without a fraction where it is zero.
  package static func formatExactly(_ nanoseconds: Int64) -> String {
    text { $0.append(exactTime: nanoseconds) }
  }
  private static func text(_ write: (inout [UInt8]) -> Void) -> String {
    var bytes: [UInt8] = []
    write(&bytes)
    return String(decoding: bytes, as: UTF8.self)
  }

  /// Nanoseconds since 1970 from RFC 3339 5.6 with a zone; nil for anything else, and outside what
  /// an `Int64` holds (1677 to 2262). Digits after the ninth are ignored; a leap second counts as
  /// the second after it.
  package static func parse(_ text: String) -> Int64? {
    var rest = text.utf8[...]
    func digits(_ count: Int) -> Int64? {
      guard rest.count >= count else { return nil }
      var value: Int64 = 0
      for byte in rest.prefix(count) {
        guard 0x30...0x39 ~= byte else { return nil }
        value = value * 10 + Int64(byte - 0x30)
      }
      rest = rest.dropFirst(count)
      return value
    }
    func skip(_ mark: Unicode.Scalar) -> Bool {
      guard let byte = rest.first, byte == UInt8(ascii: mark) else { return false }
      rest = rest.dropFirst()
      return true
    }
    guard text.utf8.count <= 64,
      let year = digits(4), skip("-"), let month = digits(2), skip("-"), let day = digits(2),
      skip("T") || skip("t") || skip(" "),
      let hour = digits(2), skip(":"), let minute = digits(2), skip(":"), let sec = digits(2),
      1...12 ~= month, 1...days(inMonth: month, of: year) ~= day, hour < 24, minute < 60, sec <= 60
    else { return nil }
    var fraction: Int64 = 0
    if skip(".") {
      var scale = second / 10
      guard let first = rest.first, 0x30...0x39 ~= first else { return nil }
      while let byte = rest.first, 0x30...0x39 ~= byte {
        fraction += Int64(byte - 0x30) * scale
        scale /= 10
        rest = rest.dropFirst()
      }
    }
    var offset: Int64 = 0
    if !(skip("Z") || skip("z")) {
      let isEast = skip("+")
      guard isEast || skip("-"), let hours = digits(2), skip(":"), let minutes = digits(2),
        hours < 24, minutes < 60
      else { return nil }
      offset = (hours * 3600 + minutes * 60) * (isEast ? 1 : -1)
    }
    guard rest.isEmpty else { return nil }
    let seconds = days(year, month, day) * 86400 + hour * 3600 + minute * 60 + sec - offset
    // A time before 1970 is a negative second and a positive fraction, which together may fit
    // where the second alone doesn't.
    let (whole, fraction2) =
      seconds < 0 && fraction > 0
      ? (seconds + 1, fraction - second)
      : (seconds, fraction)
    let (product, overflow) = whole.multipliedReportingOverflow(by: second)
    let (sum, overflow2) = product.addingReportingOverflow(fraction2)
    return overflow || overflow2 ? nil : sum
  }

  private static func days(inMonth month: Int64, of year: Int64) -> Int64 {
    switch month {
    case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
    case 4, 6, 9, 11: 30
    default: 31
    }
  }

  /// Days since 1970-01-01 in the Gregorian calendar (H. Hinnant, "days_from_civil"), years ≥ 0.
  private static func days(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
    let y = month <= 2 ? year - 1 : year
    let era = (y >= 0 ? y : y - 399) / 400
    let yearOfEra = y - era * 400
    let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
    let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
    return era * 146_097 + dayOfEra - 719_468
  }
}

extension [UInt8] {
  /// RFC 3339 in UTC with whole seconds, rounded down.
  mutating func append(time nanoseconds: Int64) {
    appendDateAndTime(floorDivide(nanoseconds, by: second))
    append(UInt8(ascii: "Z"))
  }

  /// RFC 3339 in UTC to the nanosecond; no fraction where it is zero.
  mutating func append(exactTime nanoseconds: Int64) {
    let seconds = floorDivide(nanoseconds, by: second)
    appendDateAndTime(seconds)
    // Wrapping: `seconds * second` may lie below what an Int64 holds, the difference never does.
    let fraction = nanoseconds &- seconds &* second
    if fraction > 0 {
      append(UInt8(ascii: "."))
      var scale = second / 10
      while scale > 0 {
        append(UInt8(48 + fraction / scale % 10))
        scale /= 10
      }
    }
    append(UInt8(ascii: "Z"))
  }

  /// H. Hinnant, "civil_from_days".
  private mutating func appendDateAndTime(_ seconds: Int64) {
    let days = floorDivide(seconds, by: 86400)
    let z = days + 719_468
    let era = floorDivide(z, by: 146_097)
    let dayOfEra = z - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let shifted = (5 * dayOfYear + 2) / 153
    let month = shifted < 10 ? shifted + 3 : shifted - 9
    let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    let inDay = seconds - days * 86400
    append(twoDigits: year / 100)
    append(twoDigits: year % 100)
    append(UInt8(ascii: "-"))
    append(twoDigits: month)
    append(UInt8(ascii: "-"))
    append(twoDigits: dayOfYear - (153 * shifted + 2) / 5 + 1)
    append(UInt8(ascii: "T"))
    append(twoDigits: inDay / 3600)
    append(UInt8(ascii: ":"))
    append(twoDigits: inDay % 3600 / 60)
    append(UInt8(ascii: ":"))
    append(twoDigits: inDay % 60)
  }

  private mutating func append(twoDigits n: Int64) {
    append(UInt8(48 + n / 10))
    append(UInt8(48 + n % 10))
  }
}

private func floorDivide(_ a: Int64, by b: Int64) -> Int64 { a / b - (a % b < 0 ? 1 : 0) }
