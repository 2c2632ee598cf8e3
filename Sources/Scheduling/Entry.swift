package import System

/// What reading a job's file tells the queue of it.
package struct Traits: Equatable, Sendable {
  /// 0 (first) to 9.
  package var priority: Int
  /// Interned by the caller: one number for all jobs that share a circuit and limits.
  package var destination: Int32
  /// When it fails for being too old, in nanoseconds since 1970; nil: never.
  package var expires: Int64?

  /// A priority outside of 0 to 9 counts as the nearest.
  package init(priority: Int = Traits.usual, destination: Int32, expires: Int64? = nil) {
    self.priority = min(9, max(0, priority))
    self.destination = destination
    self.expires = expires
  }

  /// The priority of a job that names none, and of one that hasn't been read.
  package static let usual = 5
}

/// What the queue proposes.
package enum Pick: Equatable, Sendable {
  /// Read it: its turn may have come.
  case unread(Name)
  /// Start it.
  case ready(Name)

  /// Whose turn it is.
  package var name: Name {
    switch self {
    case .unread(let name), .ready(let name): name
    }
  }
}

/// Where an entry stands.
package enum Standing: UInt8, Sendable, CaseIterable {
  /// Due, and not read yet.
  case unread
  /// Due, and read.
  case ready
  /// In the caller's hands: picked or expired.
  case out
  /// Its file's mtime lies in the future.
  case scheduled
  /// Tried, and to be tried again at a known time.
  case waiting
  /// Something outside must change first; looked at again at a known time.
  case parked
}

/// One job file, as the queue remembers it: 56 bytes beside its name.
struct Entry {
  enum State: UInt8 { case free, line, out, expiring, scheduled, waiting, parked }

  var name: Name
  var mtime: Int64
  /// In line or out: when it became due. Else: when it will be looked at.
  var since: Int64
  /// `Int64.max`: never.
  var expires: Int64 = .max
  /// The name's, kept so that the index can grow without hashing again.
  var hash: UInt32 = 0
  var destination: Int32 = 0
  /// Its index in its line's order, or in the timers; for a free slot the next free one.
  var place: Int32 = -1
  /// Its index among its line's by waiting time.
  var agePlace: Int32 = -1
  /// Its index among those to expire (read) or to read ahead (unread), -1 when in neither.
  var otherPlace: Int32 = -1
  /// Negative until the file has been read.
  var priority: Int8 = -1
  var state: State = .free
  /// It was picked because it had risen.
  var hasTurn = false

  var isRead: Bool { priority >= 0 }
  var level: Int { isRead ? Int(priority) : Traits.usual }
  var isTimed: Bool { state == .scheduled || state == .waiting || state == .parked }
}
