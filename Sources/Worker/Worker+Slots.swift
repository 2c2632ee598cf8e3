internal import Configuration
internal import Loop
internal import Scheduling
internal import Spool
internal import System

/// Starting and ending transfers within all limits: this worker's, and those over all workers.
///
/// What `mayStart` has found is kept for `started`; what wasn't used is given back by `giveUnused`.
extension Worker {
  private static let everything: Int32 = -1
  /// Nobody tells when another worker gives a slot back: asked again so often.
  private static let slotInterval = 100 * millisecond

  func readSlots() {
    func set(_ line: Int32, _ key: String, _ limit: Int?) {
      // Kept when the limit is gone: what runs still holds some.
      if let limit, let known = slots[line] {
        known.limit = limit
      } else if let limit {
        slots[line] = Slots(spool, key: key, limit: limit)
      } else if let known = slots[line] {
        known.limit = .max
      }
    }
    set(Self.everything, "", configuration.slots)
    let named = Set(lines.names).union(configuration.destinations.keys)
    for name in named where slots[lines.number(name)] != nil || limit(name) != nil {
      set(lines.number(name), name, limit(name))
    }
  }
  private func limit(_ name: String) -> Int? { configuration.destinations[name]?.slots }

  private func slots(for line: Int32) -> [(set: Slots, used: Int)] {
    var all: [(Slots, Int)] = []
    if let set = slots[line], set.limit < .max { all.append((set, limits.running(to: line))) }
    if let set = slots[Self.everything], set.limit < .max { all.append((set, limits.running)) }
    return all
  }

  /// Whether one more transfer to this destination may start now.
  func mayStart(_ line: Int32) -> Bool {
    guard limits.mayStart(line) else { return false }
    if slots.isEmpty { return true }
    for (set, used) in slots(for: line) {
      // What ran before there was this limit has no slot, and counts all the same.
      while set.held <= used {
        guard (try? set.take()) == true else {
          lackSlots()
          return false
        }
      }
    }
    return true
  }

  /// Gives back what was taken and isn't used.
  func giveUnused() {
    for (line, set) in slots {
      let used = line == Self.everything ? limits.running : limits.running(to: line)
      while set.held > used { set.give() }
    }
  }

  private func lackSlots() {
    guard slotTimer == nil else { return }
    slotTimer = Loop.shared.after(Clock.monotonic() + Self.slotInterval) {
      self.slotTimer = nil
      self.wakeLanes()
      self.pump()
    }
  }
}
