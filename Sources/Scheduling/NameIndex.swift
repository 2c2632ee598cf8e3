internal import System

/// Which entry has a name: a hash table of entry numbers alone, since the entries hold the names.
///
/// Linear probing at most three quarters full; removing shifts back, so that nothing dead is kept. A
/// dictionary would cost three times the memory, and hash each name twice.
struct NameIndex: Sendable {
  private var table = [Int32](repeating: -1, count: 16)
  private(set) var count = 0

  /// A name's hash as entries keep it, seeded anew in each process: names are chosen by strangers.
  static func hash(_ name: Name) -> UInt32 { UInt32(truncatingIfNeeded: name.hashValue) }

  func find(_ name: Name, _ hash: UInt32, _ entries: [Entry]) -> Int32? {
    var bucket = Int(hash) & (table.count - 1)
    while table[bucket] >= 0 {
      let i = Int(table[bucket])
      if entries[i].hash == hash, entries[i].name == name { return table[bucket] }
      bucket = (bucket + 1) & (table.count - 1)
    }
    return nil
  }

  /// Adds an entry whose name isn't in here.
  mutating func insert(_ i: Int32, _ entries: [Entry]) {
    if (count + 1) * 4 > table.count * 3 {
      let old = table
      table = [Int32](repeating: -1, count: old.count * 2)
      for i in old where i >= 0 { put(i, entries) }
    }
    put(i, entries)
    count += 1
  }

  /// Removes an entry that is in here.
  mutating func remove(_ i: Int32, _ entries: [Entry]) {
    let mask = table.count - 1
    var hole = Int(entries[Int(i)].hash) & mask
    while table[hole] != i { hole = (hole + 1) & mask }
    var bucket = hole
    while true {
      bucket = (bucket + 1) & mask
      let other = table[bucket]
      guard other >= 0 else { break }
      // It may fill the hole unless its own bucket lies behind the hole.
      let home = Int(entries[Int(other)].hash) & mask
      if (bucket - home) & mask >= (bucket - hole) & mask {
        table[hole] = other
        hole = bucket
      }
    }
    table[hole] = -1
    count -= 1
  }

  private mutating func put(_ i: Int32, _ entries: [Entry]) {
    var bucket = Int(entries[Int(i)].hash) & (table.count - 1)
    while table[bucket] >= 0 { bucket = (bucket + 1) & (table.count - 1) }
    table[bucket] = i
  }
}
