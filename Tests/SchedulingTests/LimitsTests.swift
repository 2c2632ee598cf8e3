internal import Scheduling
internal import System
internal import TestKit
internal import Testing

@Suite struct LimitsTests {
  @Test func `each destination has its own limit below the common one`() {
    var limits = Limits(.init(total: 4, each: 3, destinations: [7: 1]))
    limits.started(7)
    #expect(!limits.mayStart(7))
    #expect(limits.free(8) == 3)
    for _ in 0..<3 { limits.started(8) }
    #expect(!limits.mayStart(9), "four run")
    #expect(!limits.hasRoom)
    limits.ended(7)
    #expect(limits.mayStart(7) && limits.mayStart(9) && !limits.mayStart(8))
  }

  @Test func `lower limits let what runs end`() {
    var limits = Limits(.init(total: 8))
    for _ in 0..<8 { limits.started(1) }
    limits.change(.init(total: 2))
    #expect(limits.running == 8 && limits.free(1) == 0)
    for _ in 0..<6 { limits.ended(1) }
    #expect(!limits.mayStart(1))
    limits.ended(1)
    #expect(limits.mayStart(1))
  }

  @Test func `an end without a start is ignored`() {
    var limits = Limits(.init(total: 1))
    limits.ended(3)
    #expect(limits.running == 0 && limits.free(3) == 1)
  }

  @Test func `ten thousand random histories never exceed a limit`() {
    let seed = seed("limits")
    for history in 0..<10_000 as Range<UInt64> {
      var random = Seeded(seed &+ history)
      var values = Limits.Values(total: 3, each: 2, destinations: [0: 1])
      var limits = Limits(values)
      var running: [Int32] = []
      for _ in 0..<20 {
        let destination = Int32.random(in: 0...2, using: &random)
        switch random.next() % 8 {
        case 0...3:
          guard limits.mayStart(destination) else { continue }
          limits.started(destination)
          running.append(destination)
          let own = values.destinations[destination] ?? values.each
          let mine = running.count { $0 == destination }
          if running.count > values.total || mine > own {
            Issue.record("exceeded: UPSPOOL_SEED=\(seed) history \(history)")
            return
          }
        case 4...6:
          guard let i = running.indices.randomElement(using: &random) else { continue }
          limits.ended(running.remove(at: i))
        default:
          values = .init(
            total: Int.random(in: 0...4, using: &random),
            each: Int.random(in: 0...4, using: &random),
            destinations: [1: Int.random(in: 0...3, using: &random)])
          limits.change(values)
        }
        if limits.running != running.count {
          Issue.record("miscounted: UPSPOOL_SEED=\(seed) history \(history)")
          return
        }
      }
    }
  }
}
