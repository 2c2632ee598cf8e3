internal import Glibc
internal import System
internal import Worker

/// Amounts and times, short and for people.
enum Short {
  /// "437.3/999.9 MB": both in the larger one's unit; one alone when the other isn't known.
  static func bytes(_ bytes: Int64, of total: Int64?) -> String {
    guard let total, total > 0 else { return formatBytes(bytes) }
    let whole = formatBytes(max(bytes, total))
    if bytes >= total { return whole }
    guard let unit = whole.split(separator: " ").last.map(String.init), unit != "B" else {
      return "\(bytes)/\(whole)"
    }
    var scale = 1.0
    for name in ["kB", "MB", "GB", "TB"] {
      scale *= 1000
      if name == unit { break }
    }
    // Rounded down: only all of it looks like all of it.
    let tenths = Int64(Double(bytes) * 10 / scale)
    return "\(tenths / 10).\(tenths % 10)/\(whole)"
  }

  /// "12 s", "4 min", "3 h", "2 d": rounded up to one unit.
  static func span(seconds: Int64) -> String {
    let s = max(0, seconds)
    if s < 100 { return "\(s) s" }
    if s <= 5940 { return "\((s + 59) / 60) min" }
    if s <= 172_800 { return "\((s + 3599) / 3600) h" }
    return "\((s - 1) / 86400 + 1) d"
  }

  /// "in 12 s" within the next ten minutes, else "at 20:05", or with the day.
  static func when(_ nanoseconds: Int64, now: Int64) -> String {
    let (distance, overflow) = nanoseconds.subtractingReportingOverflow(now)
    if !overflow, 0..<600 * second ~= distance {
      return "in \(span(seconds: (distance + second - 1) / second))"
    }
    return "at \(time(nanoseconds, now: now))"
  }

  /// Local time: "20:05" within the next or last 12 hours, else "2026-12-01 08:00".
  static func time(_ nanoseconds: Int64, now: Int64) -> String {
    var seconds = time_t(nanoseconds / second)
    var t = unsafe tm()
    unsafe localtime_r(&seconds, &t)
    let (year, month, day) = unsafe (t.tm_year + 1900, t.tm_mon + 1, t.tm_mday)
    let clock = unsafe "\(two(t.tm_hour)):\(two(t.tm_min))"
    let (distance, overflow) = nanoseconds.subtractingReportingOverflow(now)
    if !overflow, distance.magnitude < (12 * 3600 * second).magnitude { return clock }
    return "\(year)-\(two(month))-\(two(day)) \(clock)"
  }
  private static func two(_ n: Int32) -> String { n < 10 ? "0\(n)" : "\(n)" }

  /// "1,200".
  static func count(_ n: Int) -> String {
    let digits = String(n)
    var out = ""
    for (i, digit) in digits.enumerated() {
      if i > 0, (digits.count - i) % 3 == 0 { out += "," }
      out.append(digit)
    }
    return out
  }
}
