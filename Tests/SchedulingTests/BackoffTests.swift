internal import Scheduling
internal import System
internal import TestKit
internal import Testing

@Suite struct BackoffTests {
  @Test func `doubles from one second to five minutes`() {
    let bases = (1...12).map { Backoff.attempt.base(failures: $0) / second }
    #expect(bases == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300])
    #expect(Backoff.crash == Backoff.attempt)
  }

  @Test func `counts that make no sense give the nearest delay that does`() {
    #expect(Backoff.attempt.base(failures: 0) == second)
    #expect(Backoff.attempt.base(failures: .min + 1) == second)
    #expect(Backoff.attempt.base(failures: .max) == 300 * second)
    #expect(Backoff(first: -5, most: -9).base(failures: 3) == 0)
    #expect(Backoff(first: .max, most: .max).base(failures: 9) == .max)
  }

  @Test func `the random part is only added, at most half, and spreads`() {
    var random = Seeded(seed("back-off"))
    for failures in 1...12 {
      let base = Backoff.attempt.base(failures: failures)
      let delays = (0..<1_000).map { _ in
        Backoff.attempt.delay(failures: failures, random: &random)
      }
      #expect(delays.allSatisfy { $0 >= base && $0 <= base + base / 2 })
      // A thousand that fail together come back in every tenth of the spread.
      let tenths = Set(delays.map { min(9, ($0 - base) * 20 / base) })
      #expect(tenths.count == 10)
    }
  }
}
