internal import Glibc
internal import Scheduling
internal import System

/// SplitMix64: a generator that a printed seed brings back.
struct Seeded: RandomNumberGenerator {
  private var state: UInt64
  init(_ seed: UInt64) { state = seed }
  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
    return z ^ (z >> 31)
  }
}

/// The seed of a property test, printed; `UPSPOOL_SEED` in the environment repeats a run.
func seed(_ test: String) -> UInt64 {
  var seed = UInt64.random(in: 1...UInt64.max)
  if let text = unsafe getenv("UPSPOOL_SEED") {
    seed = unsafe UInt64(String(cString: text)) ?? seed
  }
  print("\(test): UPSPOOL_SEED=\(seed)")
  return seed
}

/// A generator whose random spans are their lowest value (a constant 0 would be rejected for ever).
struct Lowest: RandomNumberGenerator {
  func next() -> UInt64 { 1 << 20 }
}

let minute = 60 * second
/// A moment to count from: some time in 2026.
let start: Int64 = 1_780_000_000 * second
