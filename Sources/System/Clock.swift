internal import Glibc

/// Times and spans are nanoseconds in an `Int64`; this is one second.
package let second: Int64 = 1_000_000_000
/// One millisecond in nanoseconds.
package let millisecond: Int64 = 1_000_000

/// The two clocks, so that pure logic can be given others.
package enum Clock {
  /// Nanoseconds since 1970 (CLOCK_REALTIME); it may jump.
  package static func wall() -> Int64 { read(CLOCK_REALTIME) }
  /// Nanoseconds since some start (CLOCK_MONOTONIC); it never goes back.
  package static func monotonic() -> Int64 { read(CLOCK_MONOTONIC) }

  private static func read(_ clock: clockid_t) -> Int64 {
    var t = timespec()
    unsafe clock_gettime(clock, &t)
    return Int64(t.tv_sec) * second + Int64(t.tv_nsec)
  }
}
