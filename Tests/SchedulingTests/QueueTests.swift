internal import Scheduling
internal import System
internal import TestKit
internal import Testing

@Suite struct QueueTests {
  var random = Lowest()
  var queue = Queue()

  private mutating func add(
    _ name: String, mtime: Int64 = start, _ traits: Traits? = nil, now: Int64 = start
  ) {
    queue.found(Name(name), mtime: mtime, due: mtime > now ? mtime : 0, now: now)
    if let traits { queue.learned(Name(name), traits) }
  }

  private mutating func next(
    _ now: Int64 = start, closed: Set<Int32> = []
  ) -> String? {
    queue.next(now: now, open: { !closed.contains($0) }, random: &random)?.name.description
  }

  private mutating func all(_ now: Int64 = start) -> [String] {
    var names: [String] = []
    while let name = next(now) { names.append(name) }
    return names
  }

  @Test mutating func `priority, then mtime, then the name's bytes`() {
    add("late0", mtime: start - 1, Traits(priority: 0, destination: 1))
    add("b", mtime: start - 9, Traits(destination: 1))
    add("a", mtime: start - 9, Traits(destination: 2))
    add("B", mtime: start - 9, Traits(destination: 1))
    add("old9", mtime: 0, Traits(priority: 9, destination: 1))
    add("unread", mtime: start - 10)
    add("é", mtime: start - 9, Traits(destination: 1))
    #expect(all() == ["late0", "unread", "B", "a", "b", "é", "old9"])
    #expect(queue.count(.out) == 7 && queue.count == 7)
  }

  @Test mutating func `finding a file again changes nothing`() {
    add("a", Traits(priority: 2, destination: 1))
    queue.wait(Name("a"), until: start + minute)
    let isNew = queue.found(Name("a"), mtime: start, due: 0, now: start + 1)
    #expect(!isNew)
    #expect(queue.standing(Name("a")) == .waiting)
    #expect(queue.traits(Name("a"))?.priority == 2)
    #expect(queue.nextDue == start + minute)
  }

  @Test mutating func `another mtime voids a wait and what was read`() {
    add("a", Traits(priority: 2, destination: 1))
    queue.wait(Name("a"), until: start + minute)
    add("a", mtime: start + 1, now: start + 2)
    #expect(queue.standing(Name("a")) == .unread)
    #expect(next(start + 2) == "a")
  }

  @Test mutating func `a file of the future comes when its time has come, also by a rescan`() {
    add("a", mtime: start + minute)
    #expect(queue.standing(Name("a")) == .scheduled && queue.nextDue == start + minute)
    #expect(next(start + minute - 1) == nil)
    add("a", mtime: start + minute, now: start + minute)
    #expect(queue.nextDue == start + minute, "the rescan changed nothing")
    #expect(next(start + minute) == "a")
    add("b", mtime: start + minute)
    queue.found(Name("b"), mtime: start + minute, due: 0, now: start)
    #expect(next() == "b", "due after all: its mtime isn't above its ctime any more")
  }

  @Test mutating func `touching to 1970 means next in its own priority, in an aged backlog too`() {
    for i in 0..<50 {
      add("job\(i)", mtime: start + Int64(i), Traits(destination: 1), now: start + 99)
    }
    add("first", mtime: start + 60, Traits(priority: 1, destination: 1), now: start + 99)
    add("job7", mtime: 0, Traits(destination: 1), now: start + 300 * minute)
    add("new", mtime: 0, Traits(destination: 1), now: start + 300 * minute)
    let order = all(start + 300 * minute)
    #expect(order.prefix(4) == ["first", "job7", "new", "job0"])
  }

  @Test mutating func `what was handed out isn't handed out again until it is put back`() {
    add("a")
    #expect(next() == "a" && next() == nil)
    add("a")
    add("a", mtime: start - 5)
    #expect(next() == nil && queue.standing(Name("a")) == .out)
    queue.putBack(Name("a"))
    #expect(next() == "a")
    queue.learned(Name("a"), Traits(destination: 1))
    #expect(next() == nil, "reading it doesn't take it out of the caller's hands")
    queue.park(Name("a"), until: start + 5)
    #expect(queue.standing(Name("a")) == .parked && next(start + 4) == nil)
    #expect(next(start + 5) == "a")
    queue.remove(Name("a"))
    #expect(queue.count == 0 && queue.count(.out) == 0 && !queue.contains(Name("a")))
  }

  @Test mutating func `names that aren't there are ignored`() {
    let name = Name("none")
    queue.remove(name)
    queue.wait(name, until: 1)
    queue.park(name, until: 1)
    queue.putBack(name)
    queue.learned(name, Traits(destination: 1))
    #expect(queue.count == 0 && next() == nil && queue.standing(name) == nil)
  }

  @Test mutating func `traits of an older version of the file are ignored`() {
    add("a", mtime: start - 2)
    add("a", mtime: start - 1)
    queue.learned(Name("a"), Traits(priority: 0, destination: 1), mtime: start - 2)
    #expect(queue.traits(Name("a")) == nil)
    queue.learned(Name("a"), Traits(priority: 0, destination: 1), mtime: start - 1)
    #expect(queue.traits(Name("a"))?.priority == 0)
  }

  @Test mutating func `closed destinations hold nobody up and are asked once`() {
    for i in 0..<5_000 {
      add("blocked\(i)", mtime: 0, Traits(priority: 0, destination: Int32(i % 20)))
    }
    add("free", Traits(priority: 9, destination: 99))
    var asked = 0
    let pick = queue.next(
      now: start,
      open: {
        asked += 1
        return $0 == 99
      }, random: &random)
    #expect(pick == .ready(Name("free")))
    #expect(asked == 21)
    #expect(next(closed: Set(0...19)) == nil)
  }

  @Test mutating func `many destinations that come and go leave the others right`() {
    for round in 0..<4 as Range<Int32> {
      for i in 0..<300 as Range<Int32> {
        add("job\(i)", mtime: start - Int64(i), Traits(destination: round * 1_000 + i))
      }
      #expect(next(closed: [round * 1_000 + 299]) == "job298")
      for i in 0..<300 where i != 298 { #expect(next() != nil, "\(i)") }
      #expect(next() == nil)
      for i in 0..<300 { queue.remove(Name("job\(i)")) }
    }
  }

  @Test mutating func `a nine overtakes a steady flow of zeros after ninety minutes`() {
    add("nine", Traits(priority: 9, destination: 1))
    var now = start
    var passed = 0
    for i in 0... {
      now += minute
      add("zero\(i)", mtime: i % 2 == 0 ? now : 0, Traits(priority: 0, destination: 1), now: now)
      let name = next(now)
      if name == "nine" { break }
      if now >= start + Aging.bound { passed += 1 }
      if now > start + 2 * Aging.bound { break }
    }
    #expect(now >= start + Aging.bound)
    #expect(passed <= Aging.patience)
  }

  @Test mutating func `an urgent job isn't held up by a backlog that has waited for hours`() {
    for i in 0..<100 { add("old\(i)", Traits(priority: 9, destination: 1)) }
    for i in 0..<100 { add("unread\(i)") }
    let now = start + 600 * minute
    for i in 0..<9 { add("urgent\(i)", mtime: now, Traits(priority: 0, destination: 1), now: now) }
    let order = (0..<12).compactMap { _ in next(now) }
    #expect(order.prefix(3) == ["urgent0", "urgent1", "urgent2"])
    #expect(order.count { $0.hasPrefix("urgent") } == 9, "three of four")
  }

  @Test func `a level falls by one in ten minutes, to 0, whatever the times are`() {
    func level(_ priority: Int, _ age: Int64) -> Int {
      Aging.level(priority: priority, since: start, now: start + age)
    }
    #expect(level(9, 0) == 9 && level(9, 10 * minute - 1) == 9 && level(9, 10 * minute) == 8)
    #expect(level(9, 90 * minute) == 0 && level(5, 900 * minute) == 0)
    #expect(level(3, -minute) == 3)
    #expect(Aging.level(priority: 9, since: .min, now: .max) == 0)
  }

  @Test mutating func `a read entry yields to a better one that has been read, not to unread ones`()
  {
    add("low", mtime: start - 10)
    add("unread", mtime: start - 9)
    #expect(next() == "low")
    queue.learned(Name("low"), Traits(priority: 7, destination: 1))
    #expect(!queue.yields(Name("low"), now: start, open: { _ in true }))
    #expect(queue.yields(Name("low"), now: start, open: { $0 != 1 }), "closed")
    add("six", Traits(priority: 6, destination: 2))
    #expect(queue.yields(Name("low"), now: start, open: { _ in true }))
    #expect(!queue.yields(Name("low"), now: start, open: { $0 != 2 }))
    queue.learned(Name("low"), Traits(priority: 6, destination: 1))
    #expect(!queue.yields(Name("low"), now: start, open: { _ in true }), "older")
    add("six", mtime: 0, Traits(priority: 6, destination: 2))
    #expect(queue.yields(Name("low"), now: start, open: { _ in true }))
    #expect(!queue.yields(Name("low"), now: start, open: { _ in true }, window: 64))
    #expect(queue.yields(Name("unread"), now: start, open: { _ in true }), "not read")
  }

  @Test mutating func `an unread entry that has risen keeps its turn against better ones`() {
    add("old")
    let now = start + 100 * minute
    for i in 0..<4 { add("urgent\(i)", mtime: now, Traits(priority: 0, destination: 1), now: now) }
    for _ in 0..<3 { _ = next(now) }
    #expect(next(now) == "old")
    queue.learned(Name("old"), Traits(priority: 9, destination: 1))
    #expect(!queue.yields(Name("old"), now: now, open: { _ in true }))
    queue.putBack(Name("old"))
    #expect(next(now) == "urgent3")
  }

  @Test mutating func `a thousand jobs to one destination don't hold up the one to another`() {
    for i in 100..<1_100 {
      add("a\(i)", mtime: start - 10_000 + Int64(i), Traits(destination: 1))
    }
    add("b1", Traits(destination: 2))
    add("b2", Traits(destination: 2))
    add("low", mtime: 0, Traits(priority: 6, destination: 3))
    var order: [String] = []
    for _ in 0..<10 {
      guard let name = next() else { break }
      // As a worker does: read, judged, started.
      #expect(!queue.yields(Name(name), now: start, open: { _ in true }), "\(name)")
      queue.serve(name.hasPrefix("a") ? 1 : 2)
      queue.remove(Name(name))
      order.append(name)
    }
    #expect(
      order == ["a100", "a101", "a102", "b1", "a103", "a104", "a105", "b2", "a106", "a107"])
    // One that wasn't read when it was picked yields, too.
    add("unread", mtime: 0)
    add("b3", Traits(destination: 2))
    queue.serve(1)
    #expect(next() == "unread")
    queue.learned(Name("unread"), Traits(destination: 1))
    #expect(queue.yields(Name("unread"), now: start, open: { _ in true }))
    #expect(!queue.yields(Name("unread"), now: start, open: { $0 != 2 }))
    queue.putBack(Name("unread"))
    #expect(next() == "b3")
    queue.serve(2)
    #expect(next() == "unread")
  }

  @Test mutating func `several workers get different ones of the first sixty-four`() {
    for i in 100..<400 {
      add("job\(i)", mtime: start + Int64(i) - 1_000, Traits(destination: Int32(i % 3)))
    }
    let first = Set((100..<164).map { "job\($0)" })
    var random = Seeded(seed("window"))
    var seen: Set<String> = []
    for _ in 0..<2_000 {
      guard let pick = queue.next(now: start, open: { _ in true }, window: 64, random: &random)
      else { break }
      seen.insert(pick.name.description)
      queue.putBack(pick.name)
    }
    #expect(seen == first)
  }

  @Test mutating func `the reader gets each unread entry once, oldest first`() {
    for i in 0..<5 { add("job\(i)", mtime: start - Int64(i)) }
    add("read", mtime: 0, Traits(destination: 1))
    add("later", mtime: start + minute)
    func read(_ limit: Int, _ now: Int64 = start) -> [String] {
      queue.readAhead(limit, now: now).map(\.description)
    }
    #expect(read(2) == ["job4", "job3"])
    #expect(read(9) == ["job2", "job1", "job0"])
    #expect(read(9).isEmpty)
    queue.learned(Name("job4"), Traits(destination: 1))
    queue.wait(Name("job3"), until: start + 1)
    #expect(read(9, start + 1) == ["job3"], "it had to rest, and is to be read again")
    #expect(read(9, start + minute) == ["later"])
    #expect(all(start + minute).count == 7, "being read costs nobody its place")
  }

  @Test mutating func `what expires is handed out wherever it stands, once`() {
    add("line", Traits(destination: 1, expires: start + 3))
    add("blocked", Traits(destination: 2, expires: start + 2))
    add("resting", Traits(destination: 1, expires: start + 1))
    add("never", Traits(destination: 1))
    queue.wait(Name("resting"), until: start + minute)
    #expect(queue.nextExpiry == start + 1)
    #expect(queue.expired(start).isEmpty)
    #expect(queue.expired(start + 3).map(\.description) == ["resting", "blocked", "line"])
    #expect(queue.expired(start + 3).isEmpty && queue.nextExpiry == nil)
    #expect(all(start + minute) == ["never"])
    queue.wait(Name("line"), until: start + minute)
    #expect(queue.expired(start + 4).isEmpty, "somebody locks it: not at once again")
    #expect(queue.expired(start + minute) == [Name("line")])
  }

  @Test mutating func `trimming keeps the urgent, the oldest and what is out`() {
    for i in 0..<1_000 { add("job\(i)", mtime: start - 2_000 + Int64(i)) }
    for i in 0..<50 { add("low\(i)", mtime: start - 5_000, Traits(priority: 9, destination: 1)) }
    for i in 0..<50 { add("tomorrow\(i)", mtime: start + minute) }
    add("urgent", mtime: start, Traits(priority: 0, destination: 1))
    #expect(next() == "urgent")
    queue.putBack(Name("urgent"))
    add("out", mtime: start - 9_000)
    #expect(next() == "urgent" && next() == "out")
    queue.putBack(Name("urgent"))
    #expect(!queue.needsRefill)
    let isDropped = queue.trim(to: 402)
    #expect(isDropped == 700 && queue.count == 402)
    #expect(queue.contains(Name("urgent")) && queue.contains(Name("out")))
    #expect((0..<50).allSatisfy { queue.contains(Name("low\($0)")) })
    #expect(queue.count(.scheduled) == 0)
    #expect((0..<350).allSatisfy { queue.contains(Name("job\($0)")) })
    #expect(queue.trim(to: 402) == 0 && !queue.needsRefill)
    while queue.count > 201, let name = next() { queue.remove(Name(name)) }
    #expect(queue.needsRefill)
    queue.refillBegins()
    #expect(!queue.needsRefill)
    #expect(queue.trim(to: -1) == queue.count(.out) * 0 + 200, "all but the one that is out")
  }

  @Test mutating func `slots of removed entries are used again`() {
    for round in 0..<50 {
      for i in 0..<20 { add("r\(round)-\(i)", Traits(destination: 1, expires: start + minute)) }
      for i in 0..<20 { queue.remove(Name("r\(round)-\(i)")) }
    }
    #expect(queue.count == 0 && next() == nil && queue.nextExpiry == nil && queue.nextDue == nil)
  }
}
