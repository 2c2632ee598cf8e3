internal import System

/// The due entries of one destination, a line for each priority.
struct Line: Sendable {
  /// nil: the unread, which aren't known to have one.
  let destination: Int32?
  /// Bit p: the line of priority p has somebody in it.
  var occupied: UInt16 = 0
  var count = 0
  /// By priority, heaps in the order of `ByMtime` and of `ByAge`.
  var order = [[Int32]](repeating: [], count: 10)
  var age = [[Int32]](repeating: [], count: 10)

  init(_ destination: Int32?) { self.destination = destination }
}

/// An order that each line keeps a heap of.
protocol LineOrder: HeapOrder {
  static func heap(_ line: Line, _ priority: Int) -> [Int32]
}

extension ByMtime: LineOrder {
  static func heap(_ line: Line, _ priority: Int) -> [Int32] { line.order[priority] }
}

extension ByAge: LineOrder {
  static func heap(_ line: Line, _ priority: Int) -> [Int32] { line.age[priority] }
}

/// How entries get into and out of the heaps; each is always in exactly those of its state.
extension Queue {
  static let noName = Name("")
  /// So many lines may stand empty before they are given up.
  static let spareLines = 64

  func standing(_ i: Int32) -> Standing {
    let entry = entries[Int(i)]
    return switch entry.state {
    case .free, .out, .expiring: .out
    case .line: entry.isRead ? .ready : .unread
    case .scheduled: .scheduled
    case .waiting: .waiting
    case .parked: .parked
    }
  }

  func isOut(_ i: Int32) -> Bool {
    entries[Int(i)].state == .out || entries[Int(i)].state == .expiring
  }

  func find(_ name: Name) -> Int32? { index.find(name, NameIndex.hash(name), entries) }

  /// A slot for a new entry, in no state yet.
  mutating func slot(_ name: Name, _ hash: UInt32, _ mtime: Int64, since: Int64) -> Int32 {
    let entry = Entry(name: name, mtime: mtime, since: since, hash: hash)
    if free >= 0 {
      let i = free
      free = entries[Int(i)].place
      entries[Int(i)] = entry
      return i
    }
    entries.append(entry)
    return Int32(entries.count - 1)
  }

  /// Gives up an entry's slot.
  mutating func forget(_ i: Int32) {
    leave(i)
    index.remove(i, entries)
    entries[Int(i)] = Entry(name: Self.noName, mtime: 0, since: 0, place: free)
    free = i
  }

  /// Takes an entry out of its state.
  mutating func leave(_ i: Int32) {
    let state = entries[Int(i)].state
    tally[Int(state.rawValue)] -= 1
    switch state {
    case .free, .out, .expiring: break
    case .scheduled, .waiting, .parked: Heap<ByTimer>.remove(i, &timers, &entries)
    case .line:
      let p = entries[Int(i)].level
      let l = line(i)
      Heap<ByMtime>.remove(i, &lines[l].order[p], &entries)
      Heap<ByAge>.remove(i, &lines[l].age[p], &entries)
      lines[l].count -= 1
      if lines[l].order[p].isEmpty { lines[l].occupied &= ~(1 << p) }
      if lines[l].count == 0, l > 0, lines.count > Self.spareLines { giveUp(line: l) }
    }
    if entries[Int(i)].isRead {
      Heap<ByExpiry>.remove(i, &expiries, &entries)
    } else {
      Heap<ToRead>.remove(i, &toRead, &entries)
    }
    entries[Int(i)].state = .free
  }

  /// Puts an entry that is in no state into this one.
  mutating func enter(_ i: Int32, _ state: Entry.State) {
    entries[Int(i)].state = state
    if state != .out { entries[Int(i)].hasTurn = false }
    tally[Int(state.rawValue)] += 1
    switch state {
    case .free, .out, .expiring: return
    case .scheduled, .waiting, .parked: Heap<ByTimer>.insert(i, &timers, &entries)
    case .line:
      let p = entries[Int(i)].level
      let l = line(i)
      Heap<ByMtime>.insert(i, &lines[l].order[p], &entries)
      Heap<ByAge>.insert(i, &lines[l].age[p], &entries)
      lines[l].count += 1
      lines[l].occupied |= 1 << p
      if !entries[Int(i)].isRead { Heap<ToRead>.insert(i, &toRead, &entries) }
    }
    if entries[Int(i)].isRead, entries[Int(i)].expires != .max {
      Heap<ByExpiry>.insert(i, &expiries, &entries)
    }
  }

  mutating func rest(_ name: Name, _ until: Int64, _ state: Entry.State) {
    guard let i = find(name) else { return }
    // An expired one that can't be failed yet would be handed out again at once, and spin.
    let isExpiring = entries[Int(i)].state == .expiring
    leave(i)
    entries[Int(i)].since = until
    if isExpiring { entries[Int(i)].expires = max(entries[Int(i)].expires, until) }
    enter(i, state)
  }

  /// Brings what has become due into its line.
  mutating func advance(_ now: Int64) {
    while let i = timers.first, entries[Int(i)].since <= now {
      leave(i)
      enter(i, .line)
    }
  }

  /// The line that an entry belongs into, made if there is none.
  private mutating func line(_ i: Int32) -> Int {
    guard entries[Int(i)].isRead else { return 0 }
    let destination = entries[Int(i)].destination
    if let l = lineOf[destination] { return l }
    lines.append(Line(destination))
    lineOf[destination] = lines.count - 1
    return lines.count - 1
  }

  private mutating func giveUp(line l: Int) {
    if let destination = lines[l].destination { lineOf[destination] = nil }
    let last = lines.removeLast()
    if l < lines.count {
      lines[l] = last
      if let destination = last.destination { lineOf[destination] = l }
    }
  }
}
