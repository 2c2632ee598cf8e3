internal import Scheduling
internal import System
internal import TestKit
internal import Testing

/// What the queue should do, said in the plainest way: every question looks at every entry.
private struct Model {
  struct Known {
    var mtime: Int64
    var since: Int64
    var traits: Traits?
    var standing = Standing.unread
    var isExpiring = false
    var isWithReader = false
    var level: Int { traits?.priority ?? Traits.usual }
    var isTimed: Bool { [.scheduled, .waiting, .parked].contains(standing) }
  }
  var known: [Name: Known] = [:]
  var passedOver = 0

  mutating func advance(_ now: Int64) {
    for (name, entry) in known where entry.isTimed && entry.since <= now { line(name) }
  }
  mutating func line(_ name: Name) {
    let isRead = known[name]?.traits != nil
    known[name]?.standing = isRead ? .ready : .unread
    known[name]?.isExpiring = false
    known[name]?.isWithReader = false
  }

  mutating func found(_ name: Name, _ mtime: Int64, _ due: Int64, _ now: Int64) {
    let isFuture = due > now
    guard var entry = known[name] else {
      known[name] = Known(
        mtime: mtime, since: isFuture ? due : now, standing: isFuture ? .scheduled : .unread)
      return
    }
    guard entry.mtime != mtime else { return }
    entry.mtime = mtime
    entry.traits = nil
    if entry.standing == .out {
      entry.isExpiring = false
      known[name] = entry
      return
    }
    if isFuture {
      entry.since = due
    } else if entry.isTimed {
      entry.since = now
    }
    entry.standing = isFuture ? .scheduled : .unread
    entry.isWithReader = false
    known[name] = entry
  }

  mutating func learned(_ name: Name, _ traits: Traits) {
    known[name]?.traits = traits
    if known[name]?.standing == .unread { known[name]?.standing = .ready }
  }

  mutating func rest(_ name: Name, _ until: Int64, _ standing: Standing) {
    guard var entry = known[name] else { return }
    if entry.isExpiring, let expires = entry.traits?.expires {
      entry.traits?.expires = max(expires, until)
    }
    entry.since = until
    entry.standing = standing
    entry.isExpiring = false
    known[name] = entry
  }

  mutating func expired(_ now: Int64) -> Set<Name> {
    var names: Set<Name> = []
    for (name, entry) in known {
      guard entry.standing != .out, let expires = entry.traits?.expires, expires <= now else {
        continue
      }
      known[name]?.standing = .out
      known[name]?.isExpiring = true
      names.insert(name)
    }
    return names
  }

  /// Those that `next` may name, best first; by waiting time when it is a risen one's turn.
  mutating func candidates(_ now: Int64, _ closed: Set<Int32>) -> [Name] {
    advance(now)
    let open = known.filter {
      switch $0.value.standing {
      case .unread: true
      case .ready: !closed.contains($0.value.traits?.destination ?? -1)
      default: false
      }
    }
    guard let best = open.values.map(\.level).min() else { return [] }
    func before(_ a: Name, _ b: Name) -> Bool {
      guard let x = known[a], let y = known[b] else { return false }
      return x.mtime == y.mtime ? a < b : x.mtime < y.mtime
    }
    let risen = open.filter {
      $0.value.level > best
        && Aging.level(priority: $0.value.level, since: $0.value.since, now: now) <= best
    }
    let first = risen.values.min {
      let (a, b) = (
        Aging.level(priority: $0.level, since: $0.since, now: now),
        Aging.level(priority: $1.level, since: $1.since, now: now)
      )
      return (a, $0.since, $0.level) < (b, $1.since, $1.level)
    }
    if let first {
      passedOver += 1
      if passedOver > Aging.patience {
        passedOver = 0
        return open.filter { $0.value.level == first.level }.keys.sorted {
          let (x, y) = (open[$0]?.since ?? 0, open[$1]?.since ?? 0)
          return x == y ? before($0, $1) : x < y
        }
      }
    }
    return open.filter { $0.value.level == best }.keys.sorted(by: before)
  }

  mutating func readAhead(_ limit: Int, _ now: Int64) -> [Name] {
    advance(now)
    let unread = known.filter { $0.value.standing == .unread && !$0.value.isWithReader }
    let names = unread.sorted { ($0.value.mtime, $0.key) < ($1.value.mtime, $1.key) }
    let first = names.prefix(limit).map(\.key)
    for name in first { known[name]?.isWithReader = true }
    return first
  }
}

@Suite struct QueueModelTests {
  private static let names = (0..<24).map { Name("job-\($0 % 3)\($0)") }

  @Test func `ten thousand random histories agree with a naive model`() {
    let seed = seed("queue")
    for history in 0..<10_000 as Range<UInt64> {
      var random = Seeded(seed &+ history)
      if let difference = Self.history(&random) {
        Issue.record("\(difference): UPSPOOL_SEED=\(seed) history \(history)")
        return
      }
    }
  }

  private static func history(_ random: inout Seeded) -> String? {
    var queue = Queue()
    var model = Model()
    var now = start
    let window = random.next() % 3 == 0 ? 4 : 1
    let names = names.prefix(Int.random(in: 2...24, using: &random))
    // Some histories last hours, in which priorities rise, others a second.
    let pace = random.next() % 2 == 0 ? 20 * minute : second / 50
    for step in 0..<36 {
      now += Int64.random(in: 0...pace, using: &random)
      let name = names.randomElement(using: &random) ?? names[0]
      let some = now + Int64.random(in: -pace...(2 * pace), using: &random)
      switch random.next() % 16 {
      case 0...3:
        let mtime = random.next() % 4 == 0 ? 0 : some
        let due = mtime > now ? mtime : 0
        queue.found(name, mtime: mtime, due: due, now: now)
        model.found(name, mtime, due, now)
      case 4...5:
        let traits = Traits(
          priority: Int.random(in: 0...9, using: &random),
          destination: Int32.random(in: 0...2, using: &random),
          expires: random.next() % 4 == 0 ? some + pace : nil)
        queue.learned(name, traits)
        model.learned(name, traits)
      case 6:
        queue.wait(name, until: some)
        model.rest(name, some, .waiting)
      case 7:
        queue.park(name, until: some)
        model.rest(name, some, .parked)
      case 8:
        queue.remove(name)
        model.known[name] = nil
      case 9:
        queue.putBack(name)
        if model.known[name]?.standing == .out { model.line(name) }
      case 10:
        let names = Set(queue.expired(now))
        if names != model.expired(now) { return "step \(step): other names expired" }
      case 11:
        let names = queue.readAhead(2, now: now)
        if names != model.readAhead(2, now) { return "step \(step): others are read ahead" }
      default:
        let closed = Set((0...2).filter { _ in random.next() % 3 == 0 } as [Int32])
        let may = model.candidates(now, closed)
        let pick = queue.next(
          now: now, open: { !closed.contains($0) }, window: window, random: &random)
        guard let pick else {
          if may.isEmpty { continue }
          return "step \(step): nothing, where \(may) could go"
        }
        guard may.prefix(window).contains(pick.name) else {
          return "step \(step): \(pick), where \(may) could go"
        }
        if (pick == .ready(pick.name)) != (model.known[pick.name]?.traits != nil) {
          return "step \(step): \(pick) is of the wrong kind"
        }
        model.known[pick.name]?.standing = .out
      }
      // At every fourth step, for time's sake; a difference shows in later answers too.
      if step % 4 == 3, let difference = compare(queue, model) {
        return "step \(step): \(difference)"
      }
    }
    return drain(&queue, &model, now + 100 * pace, &random)
  }

  private static func compare(_ queue: Queue, _ model: Model) -> String? {
    if queue.count != model.known.count { return "\(queue.count) entries" }
    for (name, entry) in model.known {
      guard queue.standing(name) == entry.standing else {
        return "\(name) is \(entry.standing), not \(String(describing: queue.standing(name)))"
      }
      guard queue.traits(name) == entry.traits else { return "\(name) has other traits" }
    }
    let timers = model.known.values.filter(\.isTimed).map(\.since).min()
    if queue.nextDue != timers { return "next due at another time" }
    let unread = model.known.values.count { $0.standing == .unread }
    if queue.count(.unread) != unread { return "counts \(queue.count(.unread)) unread" }
    return nil
  }

  /// With everything open and due, each entry that isn't out comes exactly once, in order.
  private static func drain(
    _ queue: inout Queue, _ model: inout Model, _ now: Int64, _ random: inout Seeded
  ) -> String? {
    model.advance(now)
    var left = Set(model.known.filter { $0.value.standing != .out }.keys)
    while true {
      let may = model.candidates(now, [])
      let pick = queue.next(now: now, open: { _ in true }, random: &random)
      if pick?.name != may.first { return "drained \(String(describing: pick)), not \(may)" }
      guard let name = pick?.name else { break }
      model.known[name]?.standing = .out
      if left.remove(name) == nil { return "\(name) twice" }
    }
    return left.isEmpty ? nil : "lost \(left)"
  }

  @Test func `trimming to any size agrees with a sort`() {
    let seed = seed("trim")
    for history in 0..<300 as Range<UInt64> {
      var random = Seeded(seed &+ history)
      var queue = Queue()
      var all: [(priority: Int, mtime: Int64, name: Name)] = []
      for i in 0..<Int.random(in: 1...200, using: &random) {
        let name = Name("\(i)")
        let mtime = start - Int64.random(in: 0...50, using: &random)
        let priority = Int.random(in: 0...9, using: &random)
        queue.found(name, mtime: mtime, due: 0, now: start)
        queue.learned(name, Traits(priority: priority, destination: 1))
        all.append((priority, mtime, name))
      }
      let limit = Int.random(in: 0...all.count, using: &random)
      queue.trim(to: limit)
      all.sort { $0 < $1 }
      var kept = Set(all.prefix(limit - limit / 8).map(\.name))
      let others = all.dropFirst(limit - limit / 8).sorted {
        ($0.mtime, $0.name) < ($1.mtime, $1.name)
      }
      kept.formUnion(others.prefix(limit / 8).map(\.name))
      if Set(queue.names(.ready)) != kept {
        Issue.record("kept others: UPSPOOL_SEED=\(seed) history \(history)")
        return
      }
    }
  }
}
