internal import Glibc

/// A generator that repeats itself for the same seed (SplitMix64).
package struct Seeded: RandomNumberGenerator {
  package let seed: UInt64
  private var state: UInt64
  /// Begins a sequence.
  package init(_ seed: UInt64) { (self.seed, state) = (seed, seed) }
  /// A property test's, with its seed printed.
  package init(for test: String) { self.init(UpspoolSeed.take(test)) }

  package mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var z = state
    z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
    z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
    return z ^ (z >> 31)
  }
}

/// The seed of a property test, printed; `UPSPOOL_SEED` in the environment repeats a run.
package enum UpspoolSeed {
  package static func take(_ test: String) -> UInt64 {
    var seed = UInt64.random(in: 1...UInt64.max)
    if let text = unsafe getenv("UPSPOOL_SEED") {
      seed = unsafe UInt64(String(cString: text)) ?? seed
    }
    print("\(test): UPSPOOL_SEED=\(seed)")
    return seed
  }
}
