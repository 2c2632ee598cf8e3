internal import TestKit
internal import Testing

/// Histories of the simulated world; `make simulate` runs a hundred thousand.
@Suite struct SimulationTests {
  private func simulate(_ words: [String]) -> (code: Int32, output: String) {
    run([products + "/simulation"] + words)
  }

  @Test func noHistoryBreaksAPromise() {
    let first = UInt64(1)
    print("seed \(first)")
    let (code, output) = simulate([String(first), "60"])
    #expect(code == 0, "\(output)")
    #expect(output.contains("histories 60"))
  }

  @Test(arguments: ["withoutLocks", "overwriting", "lyingServer", "strictLimits"])
  func aBrokenWorldIsFoundOut(_ kind: String) {
    let (code, output) = simulate(["1", "60", "--sabotage", kind])
    #expect(code == 1 && output.contains("seed "), "\(output.suffix(500))")
  }
}
