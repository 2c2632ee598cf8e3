internal import Scheduling
internal import System
internal import TestKit
internal import Testing

@Suite struct RateTests {
  @Test func `a steady flow is its own average from the second sample on`() {
    var rate = Rate()
    #expect(rate.bytesPerSecond(now: 0) == nil)
    for i in 0...100 as ClosedRange<Int64> {
      rate.sample(now: i * second / 10, bytes: i * 1_000)
      if i > 0 {
        let value = rate.bytesPerSecond(now: i * second / 10) ?? 0
        #expect(abs(value - 10_000) <= 1)
      }
    }
  }

  @Test func `a change shows by two thirds after five seconds`() throws {
    var rate = Rate()
    for i in 0...60 as ClosedRange<Int64> { rate.sample(now: i * second, bytes: i * 1_000) }
    for i in 1...5 as ClosedRange<Int64> {
      rate.sample(now: (60 + i) * second, bytes: 60_000 + i * 11_000)
    }
    let value = try #require(rate.bytesPerSecond(now: 65 * second))
    #expect((7_200...7_400).contains(value))
  }

  @Test func `the rate falls while nothing moves`() throws {
    var rate = Rate()
    for i in 0...10 as ClosedRange<Int64> { rate.sample(now: i * second, bytes: i * 1_000_000) }
    let soon = try #require(rate.bytesPerSecond(now: 11 * second))
    let late = try #require(rate.bytesPerSecond(now: 60 * second))
    #expect(soon > 900_000 && late < 1_000)
  }

  @Test func `a total that goes back and a clock that stands still do no harm`() throws {
    var rate = Rate()
    rate.sample(now: 0, bytes: 0)
    rate.sample(now: second, bytes: 1_000)
    rate.sample(now: second, bytes: 0)
    rate.sample(now: 0, bytes: 500)
    rate.sample(now: 2 * second, bytes: 1_000)
    let value = try #require(rate.bytesPerSecond(now: 2 * second))
    #expect((990...1_010).contains(value))
    rate.sample(now: 2 * second + 1, bytes: .max)
    rate.sample(now: .max, bytes: .min)
    #expect((rate.bytesPerSecond(now: .max) ?? -1) >= 0)
  }

  @Test func `the time left is rounded up, and unknown when nothing moves`() {
    var rate = Rate()
    #expect(rate.secondsLeft(1, now: 0) == nil)
    rate.sample(now: 0, bytes: 0)
    rate.sample(now: second, bytes: 1_000)
    #expect(rate.secondsLeft(0, now: second) == 0)
    #expect([2, 3].contains(rate.secondsLeft(1_500, now: second)))
    #expect(rate.secondsLeft(.max, now: second) == nil, "more than a year")
    #expect(rate.secondsLeft(1_500, now: 3_600 * second) == nil)
  }
}

@Suite struct ProgressTests {
  @Test func `files of known sizes count by bytes`() {
    var progress = Progress(files: 2)
    progress.setSize(0, 900)
    progress.setSize(1, 100)
    progress.setSent(0, 450)
    #expect(progress.percent == 45 && progress.totalBytes == 1_000 && progress.bytes == 450)
  }

  @Test func `a file of unknown size counts as the average`() {
    var progress = Progress(files: 4)
    progress.setSent(0, 50)
    #expect(progress.percent == 0, "no size is known")
    progress.setSize(0, 100)
    #expect(progress.percent == 12.5 && progress.totalBytes == nil)
  }

  @Test func `a larger rest or a new start doesn't take it back`() {
    var progress = Progress(files: 2)
    progress.setSize(0, 100)
    progress.setSent(0, 100)
    #expect(progress.percent == 50)
    progress.setSize(1, 1_000_000)
    progress.setSent(0, 0)
    #expect(progress.percent == 50 && progress.bytes == 0)
  }

  @Test func `only the end is 100, and the acknowledgement has its share`() {
    var progress = Progress(files: 1)
    progress.setSize(0, 10)
    progress.setSent(0, 10)
    #expect(progress.percent == 99.9)
    progress.finish()
    #expect(progress.percent == 100)
    var acknowledged = Progress(files: 1, share: 0.9)
    acknowledged.setSize(0, 10)
    acknowledged.setSent(0, 10)
    #expect(acknowledged.percent == 90)
  }

  @Test func `empty files, no files and files that aren't there`() {
    var progress = Progress(files: 1)
    progress.setSize(0, 0)
    progress.setSent(0, 0)
    progress.setSent(9, 5)
    progress.setSize(-1, 5)
    #expect(progress.percent == 0 && progress.totalBytes == 0 && progress.bytes == 0)
    #expect(Progress(files: 0).totalBytes == 0)
    #expect(Progress(files: -1).percent == 0)
  }

  @Test func `random histories stay within bounds and never go back`() {
    let seed = seed("progress")
    for history in 0..<2_000 as Range<UInt64> {
      var random = Seeded(seed &+ history)
      let files = Int.random(in: 1...4, using: &random)
      var progress = Progress(files: files, share: random.next() % 2 == 0 ? 1 : 0.9)
      var last = 0.0
      for _ in 0..<20 {
        let file = Int.random(in: 0..<files, using: &random)
        let edge: [Int64] = [.min, -1, 0, 1, .max]
        let bytes =
          random.next() % 8 == 0
          ? edge.randomElement(using: &random) ?? 0 : Int64.random(in: 0...1_000, using: &random)
        if random.next() % 2 == 0 {
          progress.setSize(file, random.next() % 8 == 0 ? nil : bytes)
        } else {
          progress.setSent(file, bytes)
        }
        let percent = progress.percent
        if percent < last || percent > 99.9 || (percent * 10).rounded() / 10 != percent {
          Issue.record("\(last) then \(percent): UPSPOOL_SEED=\(seed) history \(history)")
          return
        }
        last = percent
      }
    }
  }
}
