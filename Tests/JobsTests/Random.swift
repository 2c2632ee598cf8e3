internal import Jobs
internal import TestKit

/// What property tests of texts are made of.
extension Seeded {
  mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &self) < percent }
  mutating func maybe<T>(_ make: (inout Seeded) -> T) -> T? { chance(50) ? make(&self) : nil }

  /// Any string: plain words, all control characters, quotes, every plane of Unicode.
  mutating func text(upTo length: Int = 24, nul: Bool = true) -> String {
    var out = String.UnicodeScalarView()
    let kind = Int.random(in: 0..<4, using: &self)
    for _ in 0..<Int.random(in: 0...length, using: &self) {
      let range: ClosedRange<UInt32> =
        switch kind {
        case 0: 0x61...0x7a
        case 1: 0...0x7f
        case 2: 0...0x2fff
        default: 0...0x10ffff
        }
      guard let scalar = Unicode.Scalar(.random(in: range, using: &self)) else { continue }
      if scalar.value == 0 && !nul { continue }
      out.append(scalar)
    }
    return String(out)
  }

  mutating func size() -> Int64 {
    [0, 9, 10, .max, .random(in: 0...1 << 40, using: &self)].randomElement(using: &self)!
  }
  mutating func exactTime() -> Int64 {
    [0, -1, .min, .max, .random(in: .min ... .max, using: &self)].randomElement(using: &self)!
  }
  /// Whole seconds.
  mutating func time() -> Int64 {
    .random(in: -9_223_372_036...9_223_372_036, using: &self) * 1_000_000_000
  }

  mutating func sidecar() -> Sidecar {
    var it = Sidecar(
      state: Sidecar.State.allCases.randomElement(using: &self)!, job: text(), id: "i" + text(),
      queuedAt: time(), updatedAt: time())
    it.phase = maybe { Sidecar.Phase.allCases.randomElement(using: &$0)! }
    it.percent = Double(Int.random(in: 0...1000, using: &self)) / 10
    it.error = maybe { random in
      Sidecar.Failure(
        kind: random.text(), status: random.maybe { .random(in: 100...599, using: &$0) },
        message: random.text(upTo: 300), advice: random.maybe { $0.text() },
        retryAt: random.maybe { $0.exactTime() })
    }
    it.run = .random(in: 1...9, using: &self)
    it.title = maybe { $0.text() }
    it.bytes = size()
    it.totalBytes = maybe { $0.size() }
    it.bytesPerSecond = maybe { $0.size() }
    it.etaSeconds = maybe { $0.size() }
    it.attempt = .random(in: 0...12, using: &self)
    it.crashes = .random(in: 0...5, using: &self)
    it.worker = maybe { $0.text() }
    it.startedAt = maybe { $0.time() }
    it.finishedAt = maybe { $0.time() }
    for _ in 0..<Int.random(in: 0...4, using: &self) {
      it.files.append(
        Sidecar.FileStatus(
          path: "/" + text(), remoteName: text(),
          state: Sidecar.FileState.allCases.randomElement(using: &self)!, bytes: size(),
          totalBytes: maybe { $0.size() }, modifiedAt: maybe { $0.exactTime() },
          url: maybe { $0.text() }, target: maybe { $0.text() },
          sha256: maybe { $0.text() }, etag: maybe { $0.text() },
          error: maybe { $0.text() }))
    }
    it.wait = maybe {
      Sidecar.Wait(until: $0.maybe { $0.exactTime() }, mtime: $0.exactTime(), reason: $0.text())
    }
    for file in 0..<Int.random(in: 0...3, using: &self) {
      let size = size()
      var data: [Sidecar.Datum] = []
      for index in 0..<Int.random(in: 0...3, using: &self) {
        data.append(Sidecar.Datum(name: "\(index)" + text(nul: false), value: text()))
      }
      it.resume.append(
        Sidecar.Resume(
          file: file * 7, url: text(), size: size, modifiedAt: exactTime(),
          offset: .random(in: 0...size, using: &self), data: data))
    }
    it.failures = .random(in: 0...3, using: &self)
    it.crashProgress = maybe { $0.size() }
    it.boot = maybe { $0.text() }
    it.mayRefund = chance(20)
    for index in 0..<Int.random(in: 0...3, using: &self) {
      let json = [
        "1", "-0.5", "null", "true", "[]", "{\"a\":[1,\"ü\\\\\"]}", "\"x\\u0007\"", "1e+300",
      ].randomElement(using: &self)!
      it.extra.append(Job.Extra(key: "x-\(index)" + text(nul: false), json: json))
    }
    return it
  }
}
