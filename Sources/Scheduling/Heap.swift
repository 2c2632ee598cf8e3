internal import System

/// An order of entries and the field that holds an entry's index in a heap of that order.
protocol HeapOrder {
  static func precedes(_ a: Int32, _ b: Int32, _ entries: [Entry]) -> Bool
  static func place(_ entry: Int32, _ entries: [Entry]) -> Int32
  static func set(_ place: Int32, _ entry: Int32, _ entries: inout [Entry])
}

/// Binary heaps of entry numbers whose entries know their index, so that any can be removed in
/// O(log n) and nothing dead is kept.
enum Heap<Order: HeapOrder> {
  static func insert(_ entry: Int32, _ heap: inout [Int32], _ entries: inout [Entry]) {
    heap.append(entry)
    rise(heap.count - 1, &heap, &entries)
  }

  /// Does nothing when the entry isn't in this heap.
  static func remove(_ entry: Int32, _ heap: inout [Int32], _ entries: inout [Entry]) {
    let place = Int(Order.place(entry, entries))
    guard place >= 0 else { return }
    Order.set(-1, entry, &entries)
    let last = heap.removeLast()
    guard place < heap.count else { return }
    heap[place] = last
    Order.set(Int32(place), last, &entries)
    rise(place, &heap, &entries)
    sink(Int(Order.place(last, entries)), &heap, &entries)
  }

  private static func rise(_ start: Int, _ heap: inout [Int32], _ entries: inout [Entry]) {
    let entry = heap[start]
    var place = start
    while place > 0 {
      let parent = (place - 1) / 2
      guard Order.precedes(entry, heap[parent], entries) else { break }
      heap[place] = heap[parent]
      Order.set(Int32(place), heap[place], &entries)
      place = parent
    }
    heap[place] = entry
    Order.set(Int32(place), entry, &entries)
  }

  private static func sink(_ start: Int, _ heap: inout [Int32], _ entries: inout [Entry]) {
    let entry = heap[start]
    var place = start
    while true {
      var child = 2 * place + 1
      guard child < heap.count else { break }
      if child + 1 < heap.count, Order.precedes(heap[child + 1], heap[child], entries) {
        child += 1
      }
      guard Order.precedes(heap[child], entry, entries) else { break }
      heap[place] = heap[child]
      Order.set(Int32(place), heap[place], &entries)
      place = child
    }
    heap[place] = entry
    Order.set(Int32(place), entry, &entries)
  }
}

/// Place in a line: mtime, then the name's bytes.
enum ByMtime: HeapOrder {
  static func precedes(_ a: Int32, _ b: Int32, _ entries: [Entry]) -> Bool {
    let (x, y) = (entries[Int(a)].mtime, entries[Int(b)].mtime)
    return x == y ? entries[Int(a)].name < entries[Int(b)].name : x < y
  }
  static func place(_ entry: Int32, _ entries: [Entry]) -> Int32 { entries[Int(entry)].place }
  static func set(_ place: Int32, _ entry: Int32, _ entries: inout [Entry]) {
    entries[Int(entry)].place = place
  }
}

/// Unread ones that the reader hasn't been given, in the order of their turn.
enum ToRead: HeapOrder {
  static func precedes(_ a: Int32, _ b: Int32, _ entries: [Entry]) -> Bool {
    ByMtime.precedes(a, b, entries)
  }
  static func place(_ entry: Int32, _ entries: [Entry]) -> Int32 { entries[Int(entry)].otherPlace }
  static func set(_ place: Int32, _ entry: Int32, _ entries: inout [Entry]) {
    entries[Int(entry)].otherPlace = place
  }
}

/// By the time that they became due.
enum ByAge: HeapOrder {
  static func precedes(_ a: Int32, _ b: Int32, _ entries: [Entry]) -> Bool {
    let (x, y) = (entries[Int(a)].since, entries[Int(b)].since)
    return x == y ? ByMtime.precedes(a, b, entries) : x < y
  }
  static func place(_ entry: Int32, _ entries: [Entry]) -> Int32 { entries[Int(entry)].agePlace }
  static func set(_ place: Int32, _ entry: Int32, _ entries: inout [Entry]) {
    entries[Int(entry)].agePlace = place
  }
}

/// By the time that they will be looked at.
enum ByTimer: HeapOrder {
  static func precedes(_ a: Int32, _ b: Int32, _ entries: [Entry]) -> Bool {
    entries[Int(a)].since < entries[Int(b)].since
  }
  static func place(_ entry: Int32, _ entries: [Entry]) -> Int32 { entries[Int(entry)].place }
  static func set(_ place: Int32, _ entry: Int32, _ entries: inout [Entry]) {
    entries[Int(entry)].place = place
  }
}

/// By the time that they expire.
enum ByExpiry: HeapOrder {
  static func precedes(_ a: Int32, _ b: Int32, _ entries: [Entry]) -> Bool {
    entries[Int(a)].expires < entries[Int(b)].expires
  }
  static func place(_ entry: Int32, _ entries: [Entry]) -> Int32 { entries[Int(entry)].otherPlace }
  static func set(_ place: Int32, _ entry: Int32, _ entries: inout [Entry]) {
    entries[Int(entry)].otherPlace = place
  }
}
