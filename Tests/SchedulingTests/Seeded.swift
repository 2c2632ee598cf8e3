internal import System
internal import TestKit

func seed(_ test: String) -> UInt64 { UpspoolSeed.take(test) }

/// A generator whose random spans are their lowest value (a constant 0 would be rejected for ever).
struct Lowest: RandomNumberGenerator {
  func next() -> UInt64 { 1 << 20 }
}

let minute = 60 * second
/// A moment to count from: some time in 2026.
let start: Int64 = 1_780_000_000 * second
