package import System

/// The choice of the next entry.
extension Queue {
  /// The entry whose turn it is, into the caller's hands; nil when none can go now.
  ///
  /// `open` says whether a destination takes one more now (its circuit and its own limit); it is
  /// asked once for each destination that has somebody in line. With a `window` above 1 the pick is
  /// a random one of so many first, so that several workers don't race for one file.
  package mutating func next(
    now: Int64, open: (Int32) -> Bool, window: Int = 1, random: inout some RandomNumberGenerator
  ) -> Pick? {
    advance(now)
    let (isOpen, occupied) = openLines(open)
    guard occupied != 0 else { return nil }
    let best = occupied.trailingZeroBitCount
    var chosen: Int32
    var isTurn = false
    if let risen = risen(above: best, isOpen, now), takesTurn() {
      chosen = choose(risen, ByAge.self, isOpen, window, &random)
      isTurn = true
    } else {
      chosen = choose(best, ByMtime.self, isOpen, window, &random)
      if isServedEnough(chosen) {
        let others = others(best, isOpen)
        if !others.isEmpty { chosen = choose(best, ByMtime.self, others, window, &random) }
      }
    }
    let isRead = entries[Int(chosen)].isRead
    leave(chosen)
    enter(chosen, .out)
    entries[Int(chosen)].hasTurn = isTurn
    let name = entries[Int(chosen)].name
    return isRead ? .ready(name) : .unread(name)
  }

  /// So many in a row may go to one destination while another waits.
  static let mostInARow = 3

  /// A job to this destination was started.
  package mutating func serve(_ destination: Int32) {
    let isSame = served?.destination == destination
    served = (destination, isSame ? min(served!.times, 1000) + 1 : 1)
  }

  private func isServedEnough(_ i: Int32) -> Bool {
    entries[Int(i)].isRead && isServed(entries[Int(i)].destination)
  }

  private func isServed(_ destination: Int32) -> Bool {
    served?.destination == destination && served!.times >= Self.mostInARow
  }

  /// The lines of these whose destination wasn't served last and that have somebody of a priority.
  private func others(_ priority: Int, _ isOpen: [Int]) -> [Int] {
    isOpen.filter { l in
      guard let destination = lines[l].destination else { return false }
      return destination != served?.destination && lines[l].occupied & (1 << priority) != 0
    }
  }

  /// Whether an entry that was just read should be put back, since a better one that has been read
  /// could start instead, or since its own destination isn't open.
  ///
  /// Unread ones don't count: a backlog of low priority would have to be read to its end first.
  /// One that was picked because it had risen keeps the turn that this gave it. With a `window`
  /// above 1, equal priority is no reason.
  package func yields(_ name: Name, now: Int64, open: (Int32) -> Bool, window: Int = 1) -> Bool {
    guard let i = find(name), entries[Int(i)].isRead else { return true }
    let entry = entries[Int(i)]
    guard open(entry.destination) else { return true }
    let level =
      entry.hasTurn
      ? Aging.level(priority: Int(entry.priority), since: entry.since, now: now) : entry.level
    if !entry.hasTurn, isServedEnough(i) {
      let isWaiting = others(level, Array(lines.indices)).contains { open(lines[$0].destination!) }
      if isWaiting { return true }
    }
    for line in lines.dropFirst() where line.occupied != 0 {
      guard let destination = line.destination else { continue }
      let best = line.occupied.trailingZeroBitCount
      guard best <= level, open(destination) else { continue }
      if best < level { return true }
      if destination != entry.destination, isServed(destination) { continue }
      if window <= 1, let head = line.order[best].first, ByMtime.precedes(head, i, entries) {
        return true
      }
    }
    return false
  }

  /// The lines that may be picked from, and which priorities they have between them.
  private func openLines(_ open: (Int32) -> Bool) -> (lines: [Int], occupied: UInt16) {
    var isOpen: [Int] = []
    var occupied: UInt16 = 0
    for l in lines.indices where lines[l].occupied != 0 {
      if let destination = lines[l].destination, !open(destination) { continue }
      isOpen.append(l)
      occupied |= lines[l].occupied
    }
    return (isOpen, occupied)
  }

  /// The priority below `best` whose oldest entry has risen to it, the highest risen first.
  private func risen(above best: Int, _ isOpen: [Int], _ now: Int64) -> Int? {
    var found: (priority: Int, level: Int, since: Int64)?
    for l in isOpen {
      var rest = lines[l].occupied & ~((2 << UInt16(best)) - 1)
      while rest != 0 {
        let p = rest.trailingZeroBitCount
        rest &= rest - 1
        guard let head = lines[l].age[p].first else { continue }
        let since = entries[Int(head)].since
        let level = Aging.level(priority: p, since: since, now: now)
        guard level <= best else { continue }
        if let other = found, (other.level, other.since) <= (level, since) { continue }
        found = (p, level, since)
      }
    }
    return found?.priority
  }

  private mutating func takesTurn() -> Bool {
    passedOver = passedOver >= Aging.patience ? 0 : passedOver + 1
    return passedOver == 0
  }

  /// The first entry of a priority over the open lines, or a random one of the first `window`.
  private func choose<Order: LineOrder>(
    _ priority: Int, _: Order.Type, _ isOpen: [Int], _ window: Int,
    _ random: inout some RandomNumberGenerator
  ) -> Int32 {
    var heads: [(entry: Int32, line: Int)] = []
    var available = 0
    for l in isOpen {
      let line = Order.heap(lines[l], priority)
      guard let head = line.first else { continue }
      available += line.count
      heads.append((head, l))
    }
    // Kept in falling order: the best is the last, and what stands behind it in its heap follows.
    heads.sort { Order.precedes($1.entry, $0.entry, entries) }
    var left = window > 1 ? Int.random(in: 0..<min(window, available), using: &random) : 0
    while left > 0 {
      left -= 1
      let (entry, l) = heads.removeLast()
      let line = Order.heap(lines[l], priority)
      let child = 2 * Int(Order.place(entry, entries)) + 1
      for place in [child, child + 1] where place < line.count {
        var (low, high) = (0, heads.count)
        while low < high {
          let middle = (low + high) / 2
          if Order.precedes(line[place], heads[middle].entry, entries) {
            low = middle + 1
          } else {
            high = middle
          }
        }
        heads.insert((line[place], l), at: low)
      }
    }
    return heads[heads.count - 1].entry
  }
}
