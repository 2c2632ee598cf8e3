package import System

/// Which job next: what is known of the files in pending/, in bounded memory.
///
/// Entries are keyed by name. Among those that are due, priority 0 goes first (`Aging` says how
/// waiting makes up for a low one), then the older mtime, then the name's bytes. An unread entry
/// counts as priority 5, so it is read when its turn may have come. No more than three in a row go to
/// one destination while another has somebody of the same priority in line. Jobs whose destination
/// isn't open hold nobody up: each destination has lines of its own, and a pick costs O(destinations +
/// log entries). Times are nanoseconds of the wall clock.
///
/// What `next`, or `expired`, hands out is in the caller's hands (`Standing.out`) and isn't handed
/// out again until the caller says what became of it: `remove`, `wait`, `park` or `putBack`.
package struct Queue: Sendable {
  var entries: [Entry] = []
  var free: Int32 = -1
  var index = NameIndex()
  /// The first one holds the unread; the others, one for each destination that has any ready.
  var lines = [Line(nil)]
  var lineOf: [Int32: Int] = [:]
  /// Heaps: scheduled, waiting and parked; read ones by expiry; unread ones to be read ahead.
  var timers: [Int32] = []
  var expiries: [Int32] = []
  var toRead: [Int32] = []
  var tally = [Int](repeating: 0, count: 7)
  /// Picks in a row that passed over a risen entry.
  var passedOver = 0
  /// The destination that was served last, and how often in a row.
  var served: (destination: Int32, times: Int)?
  /// What `trim` left out since the last rescan began, and its limit.
  var dropped = 0
  var limit = Int.max

  /// An empty queue.
  package init() {}

  /// How many entries are known, those in the caller's hands among them.
  package var count: Int { index.count }
  /// Whether an entry is known.
  package func contains(_ name: Name) -> Bool { find(name) != nil }

  /// Where an entry stands; nil when it isn't known.
  package func standing(_ name: Name) -> Standing? { find(name).map { standing($0) } }

  /// What reading its file told; nil when it isn't known or hasn't been read.
  package func traits(_ name: Name) -> Traits? {
    guard let i = find(name), entries[Int(i)].isRead else { return nil }
    let entry = entries[Int(i)]
    return Traits(
      priority: Int(entry.priority), destination: entry.destination,
      expires: entry.expires == .max ? nil : entry.expires)
  }

  /// How many entries stand so.
  package func count(_ standing: Standing) -> Int {
    func tally(_ state: Entry.State) -> Int { self.tally[Int(state.rawValue)] }
    return switch standing {
    case .unread: lines[0].count
    case .ready: tally(.line) - lines[0].count
    case .out: tally(.out) + tally(.expiring)
    case .scheduled: tally(.scheduled)
    case .waiting: tally(.waiting)
    case .parked: tally(.parked)
    }
  }

  /// The names that stand so, in no order; O(entries).
  package func names(_ standing: Standing) -> [Name] {
    entries.indices.compactMap {
      entries[$0].state != .free && self.standing(Int32($0)) == standing ? entries[$0].name : nil
    }
  }

  /// A file lies in pending/; true when it is new here.
  ///
  /// `due` is its mtime if that lies in the future, else 0. Saying the same again changes nothing.
  /// Another mtime gives it another place, and what was known of it (a wait, its traits) is void;
  /// its age stays when it was in line already. In the caller's hands it stays there.
  @discardableResult package mutating func found(
    _ name: Name, mtime: Int64, due: Int64, now: Int64
  ) -> Bool {
    let isFuture = due > now
    let hash = NameIndex.hash(name)
    guard let i = index.find(name, hash, entries) else {
      let i = slot(name, hash, mtime, since: isFuture ? due : now)
      index.insert(i, entries)
      enter(i, isFuture ? .scheduled : .line)
      return true
    }
    let state = entries[Int(i)].state
    if entries[Int(i)].mtime == mtime {
      let since = entries[Int(i)].since
      let isKnown = isFuture ? since >= due || isOut(i) : state != .scheduled || since <= now
      if isKnown { return false }
    }
    leave(i)
    entries[Int(i)].mtime = mtime
    entries[Int(i)].priority = -1
    entries[Int(i)].expires = .max
    switch state {
    case .out, .expiring:
      enter(i, .out)
    default:
      if isFuture {
        entries[Int(i)].since = due
      } else if state != .line {
        entries[Int(i)].since = now
      }
      enter(i, isFuture ? .scheduled : .line)
    }
    return false
  }

  /// Its file was read. With `mtime`, only if it is still that one's place; unknown names are ignored.
  ///
  /// An entry in the caller's hands stays there.
  package mutating func learned(_ name: Name, _ traits: Traits, mtime: Int64? = nil) {
    guard let i = find(name), mtime == nil || entries[Int(i)].mtime == mtime else { return }
    let state = entries[Int(i)].state
    leave(i)
    entries[Int(i)].priority = Int8(traits.priority)
    entries[Int(i)].destination = traits.destination
    entries[Int(i)].expires = traits.expires ?? .max
    enter(i, state)
  }

  /// Not before `until`, when it is tried again (a back-off, or the job's own `notBefore`).
  package mutating func wait(_ name: Name, until: Int64) { rest(name, until, .waiting) }

  /// Something outside must change first (its destination is unknown, its namesake runs, somebody
  /// locks it); looked at again at `until`.
  package mutating func park(_ name: Name, until: Int64) { rest(name, until, .parked) }

  /// It wasn't started after all: back to its place in the line.
  package mutating func putBack(_ name: Name) {
    guard let i = find(name), isOut(i) else { return }
    leave(i)
    enter(i, .line)
  }

  /// Its file isn't in pending/ any more; unknown names are ignored.
  package mutating func remove(_ name: Name) {
    if let i = find(name) { forget(i) }
  }

  /// When the next entry becomes due that isn't; nil when none will by itself.
  package var nextDue: Int64? { timers.first.map { entries[Int($0)].since } }

  /// When the next entry expires.
  package var nextExpiry: Int64? { expiries.first.map { entries[Int($0)].expires } }

  /// Takes out what has expired, wherever it stood, into the caller's hands; O(log entries) each.
  ///
  /// One that the caller can't fail yet and lets `wait` isn't named again before that wait is over.
  package mutating func expired(_ now: Int64) -> [Name] {
    var names: [Name] = []
    while let i = expiries.first, entries[Int(i)].expires <= now {
      leave(i)
      enter(i, .expiring)
      names.append(entries[Int(i)].name)
    }
    return names
  }

  /// The unread entries whose turn comes first, at most so many, for a reader in the background.
  ///
  /// They keep their places, and aren't named again until they were learned, or waited.
  package mutating func readAhead(_ limit: Int, now: Int64) -> [Name] {
    advance(now)
    var names: [Name] = []
    while names.count < limit, let i = toRead.first {
      Heap<ToRead>.remove(i, &toRead, &entries)
      names.append(entries[Int(i)].name)
    }
    return names
  }
}
