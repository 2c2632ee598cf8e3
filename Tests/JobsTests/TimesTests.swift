internal import Glibc
internal import Jobs
internal import TestKit
internal import Testing

@Suite struct TimesTests {
  @Test(arguments: [
    ("1970-01-01T00:00:00Z", 0), ("2026-12-01T08:00:00Z", 1_796_112_000_000_000_000),
    ("2026-12-01T09:00:00+01:00", 1_796_112_000_000_000_000),
    ("2026-12-01t07:30:00.000000001-00:30", 1_796_112_000_000_000_001),
    ("2000-02-29 23:59:60z", 951_868_800_000_000_000),
    ("1969-12-31T23:59:59.5Z", -500_000_000),
    ("2026-12-01T08:00:00.1234567899Z", 1_796_112_000_123_456_789),
    ("2262-04-11T23:47:16.854775807Z", Int64.max),
    ("1677-09-21T00:12:43.145224192Z", Int64.min),
  ])
  func timesAreRead(text: String, nanoseconds: Int64) {
    #expect(Times.parse(text) == nanoseconds)
  }

  @Test(arguments: [
    "", "2026", "2026-12-01", "2026-12-01T08:00:00", "2026-12-01T08:00Z", "2026-13-01T08:00:00Z",
    "2026-02-29T08:00:00Z", "2100-02-29T08:00:00Z", "2026-00-01T08:00:00Z", "2026-12-00T08:00:00Z",
    "2026-12-01T24:00:00Z", "2026-12-01T08:60:00Z", "2026-12-01T08:00:61Z", "2026-12-01T08:00:00.Z",
    "2026-12-01T08:00:00+0100", "2026-12-01T08:00:00+24:00", "2026-12-01T08:00:00Z ",
    " 2026-12-01T08:00:00Z", "2026-12-01T08:00:00ZZ", "+026-12-01T08:00:00Z",
    "2262-04-11T23:47:16.854775808Z", "1677-09-21T00:12:43.145224191Z", "9999-12-31T23:59:59Z",
    "0000-01-01T00:00:00Z", "٢٠٢٦-12-01T08:00:00Z",
  ])
  func othersAreNot(text: String) { #expect(Times.parse(text) == nil) }

  @Test func aTimeIsTheSameAgain() {
    var random = Seeded(for: "aTimeIsTheSameAgain")
    for _ in 0..<20_000 {
      let time = random.exactTime()
      #expect(Times.parse(Times.formatExactly(time)) == time, "seed \(random.seed): \(time)")
    }
    #expect(Times.formatExactly(1_796_112_000_000_000_000) == "2026-12-01T08:00:00Z")
    #expect(Times.formatExactly(1_796_112_000_000_000_001) == "2026-12-01T08:00:00.000000001Z")
    #expect(Times.format(1_796_112_000_999_999_999) == "2026-12-01T08:00:00Z")
    #expect(Times.format(-1) == "1969-12-31T23:59:59Z")
  }

  /// Against the C library's calendar.
  @Test func theCalendarIsTheCLibrarys() {
    var random = Seeded(for: "theCalendarIsTheCLibrarys")
    for _ in 0..<5_000 {
      let time = random.time()
      var seconds = Int(time / 1_000_000_000)
      var parts = unsafe tm()
      unsafe gmtime_r(&seconds, &parts)
      var buffer = [CChar](repeating: 0, count: 40)
      let count = unsafe strftime(&buffer, 40, "%Y-%m-%dT%H:%M:%SZ", &parts)
      let expected = String(
        decoding: buffer.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
      #expect(Times.format(time) == expected, "seed \(random.seed)")
    }
  }

  @Test(arguments: [
    ("0", 0), ("7d", 604_800_000_000_000), ("12h", 43_200_000_000_000), ("30m", 1_800_000_000_000),
    ("10s", 10_000_000_000), ("500ms", 500_000_000), ("90", 90_000_000_000),
    ("1.5h", 5_400_000_000_000), ("0.25", 250_000_000), ("36500d", 3_153_600_000_000_000_000),
  ])
  func spansOfTime(text: String, nanoseconds: Int64) {
    #expect(Quantity.duration(text) == nanoseconds)
  }

  @Test(arguments: [
    "", "d", "-1s", "+1s", "1 s", "7D", "7w", "1.s", ".5s", "1.2.3s", "1e3", "36501d",
    "99999999999999999999", "9223372036854775807d", "inf", "nan", "7d\u{301}", "٧d",
  ])
  func noSpansOfTime(text: String) { #expect(Quantity.duration(text) == nil) }

  @Test(arguments: [
    ("0", 0), ("500000", 500_000), ("2M", 2_000_000), ("2Mi", 2_097_152), ("2MB", 2_000_000),
    ("2MiB", 2_097_152), ("1.5k", 1_500), ("1K", 1_000), ("1Ki", 1_024), ("3G", 3_000_000_000),
    ("1Ti", 1_099_511_627_776), ("7B", 7), ("1048576Ti", 1 << 60),
  ])
  func amountsOfBytes(text: String, bytes: Int64) { #expect(Quantity.size(text) == bytes) }

  @Test(arguments: ["", "M", "-2M", "2m", "2 M", "2Mb", "2X", "2M/s", "1048577Ti", "2P", "2iB"])
  func noAmountsOfBytes(text: String) { #expect(Quantity.size(text) == nil) }
}
