internal import Glibc
internal import Synchronization

/// Times and spans are nanoseconds in an `Int64`; this is one second.
package let second: Int64 = 1_000_000_000
/// One millisecond in nanoseconds.
package let millisecond: Int64 = 1_000_000

/// The two clocks: the machine's, or those of a simulation, which has the process to itself.
package enum Clock {
  private static let simulation = Atomic<Bool>(false)
  private static let simulatedMonotonic = Atomic<Int64>(0)
  private static let simulatedWall = Atomic<Int64>(0)

  /// Nanoseconds since 1970 (CLOCK_REALTIME); it may jump.
  package static func wall() -> Int64 {
    isSimulated ? simulatedWall.load(ordering: .relaxed) : read(CLOCK_REALTIME)
  }
  /// Nanoseconds since some start (CLOCK_MONOTONIC); it never goes back.
  package static func monotonic() -> Int64 {
    isSimulated ? simulatedMonotonic.load(ordering: .relaxed) : read(CLOCK_MONOTONIC)
  }

  /// Whether `simulate` was called: then nothing may wait for the machine's time to pass.
  package static var isSimulated: Bool { simulation.load(ordering: .relaxed) }
  /// Sets both clocks, for good.
  package static func simulate(monotonic: Int64, wall: Int64) {
    simulatedMonotonic.store(monotonic, ordering: .relaxed)
    simulatedWall.store(wall, ordering: .relaxed)
    simulation.store(true, ordering: .relaxed)
  }

  private static func read(_ clock: clockid_t) -> Int64 {
    var t = timespec()
    unsafe clock_gettime(clock, &t)
    return Int64(t.tv_sec) * second + Int64(t.tv_nsec)
  }
}
