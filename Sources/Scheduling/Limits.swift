/// How many file transfers run, in all and to each destination, and how many may.
package struct Limits: Equatable, Sendable {
  /// What the configuration allows.
  package struct Values: Equatable, Sendable {
    /// Transfers at once in all.
    package var total: Int
    /// Transfers at once to a destination that isn't named in `destinations`.
    package var each: Int
    /// Transfers at once to these destinations.
    package var destinations: [Int32: Int]

    /// `each` is `total` unless given; all counts of transfers.
    package init(total: Int, each: Int? = nil, destinations: [Int32: Int] = [:]) {
      self.total = total
      self.each = each ?? total
      self.destinations = destinations
    }
  }

  /// What holds now.
  package private(set) var values: Values
  /// Transfers that run now, in all.
  package private(set) var running = 0
  private var byDestination: [Int32: Int] = [:]

  /// Nothing runs yet.
  package init(_ values: Values) { self.values = values }

  /// Transfers that run now to this destination.
  package func running(to destination: Int32) -> Int { byDestination[destination] ?? 0 }

  /// How many more may start to this destination now.
  package func free(_ destination: Int32) -> Int {
    let own = (values.destinations[destination] ?? values.each) - running(to: destination)
    return max(0, min(own, values.total - running))
  }

  /// Whether one more transfer to this destination may start.
  package func mayStart(_ destination: Int32) -> Bool { free(destination) > 0 }

  /// Whether any transfer may start, whatever its destination.
  package var hasRoom: Bool { running < values.total }

  /// A transfer started. It is counted even above the limit: what runs, runs.
  package mutating func started(_ destination: Int32) {
    running += 1
    byDestination[destination, default: 0] += 1
  }

  /// A transfer ended. An end without a start is ignored.
  package mutating func ended(_ destination: Int32) {
    guard let count = byDestination[destination] else { return }
    byDestination[destination] = count > 1 ? count - 1 : nil
    running -= 1
  }

  /// Other limits from now on; what runs above them ends by itself.
  package mutating func change(_ values: Values) { self.values = values }
}
