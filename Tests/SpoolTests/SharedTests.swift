internal import Jobs
internal import Spool
internal import System
internal import TestKit
internal import Testing

/// What the workers of a spool share: slots and keys.
@Suite struct SharedTests {
  @Test func slotsAreCountedOverAllAndFreeWhenTheirHolderIsGone() throws {
    let yard = try Yard()
    let a = Slots(try yard.open(), key: "d", limit: 3)
    var b: Slots? = Slots(try yard.open(), key: "d", limit: 3)
    #expect(try a.take() && a.take())
    #expect(try b?.take() == true)
    #expect(try !a.take())
    #expect(try b?.take() == false)
    // Another key has slots of its own.
    #expect(try Slots(yard.spool, key: "e", limit: 1).take())
    a.give()
    #expect(a.held == 1)
    #expect(try b?.take() == true)
    #expect(try !a.take())
    b = nil
    #expect(try a.take() && a.take())
    #expect(try !a.take())
  }

  @Test func aLoweredLimitCountsWhatStillRunsAboveIt() throws {
    let yard = try Yard()
    let a = Slots(try yard.open(), key: "d", limit: 4)
    let b = Slots(try yard.open(), key: "d", limit: 4)
    for _ in 0..<4 { #expect(try a.take()) }
    // The first two are free again, the third and fourth are not: with a limit of 2 nobody may.
    a.limit = 2
    b.limit = 2
    #expect(try !b.take())
    a.give()
    a.give()
    // Gone are those above the limit first.
    #expect(try !b.take())
    a.give()
    #expect(try b.take())
    #expect(try !a.take())
    #expect(a.held + b.held == 2)
  }

  @Test func whatIsHeldAboveALoweredLimitKeepsOthersOut() throws {
    let yard = try Yard()
    let low = Slots(try yard.open(), key: "d", limit: 2)
    let high = Slots(try yard.open(), key: "d", limit: 4)
    #expect(try low.take() && low.take())
    #expect(try high.take() && high.take())
    low.give()
    low.give()
    // Two run above the limit of 2, none below it.
    #expect(try !low.take())
    high.give()
    #expect(try low.take())
  }

  @Test func aKeyNamesItsHolderAndTellsWhatBecameOfHim() throws {
    let yard = try Yard()
    let spool = yard.spool
    let job = try yard.put("a.json", in: .active)
    let holder = KeyHolder(id: job.id, name: Name("a.json"))
    func held() throws -> KeyHolder? {
      var found: KeyHolder?
      let isFree = try spool.withKey("k") { h in
        found = h
        return (true, nil)
      }
      #expect(isFree == true)
      return found
    }
    #expect(try held() == nil)
    _ = try spool.withKey("k") { h throws(Errno) -> (Bool, KeyHolder?) in (true, holder) }
    #expect(try held() == holder)
    for place in [Place.active, .pending, .paused] {
      if place != .active { yard.folder.move("spool/active/a.json", to: "spool/\(place)/a.json") }
      #expect(try spool.state(of: holder) == .undecided(place))
      if place != .active { yard.folder.move("spool/\(place)/a.json", to: "spool/active/a.json") }
    }
    // Stepped aside for a namesake, it is still found.
    yard.folder.move("spool/active/a.json", to: "spool/done/a~2.json")
    try yard.put("a.json", in: .pending)
    try yard.put("a~1.json", in: .done)
    guard case .done(let time) = try spool.state(of: holder) else {
      Issue.record("not done")
      return
    }
    #expect(time <= Clock.wall())
    yard.folder.move("spool/done/a~2.json", to: "spool/failed/a~2.json")
    #expect(try spool.state(of: holder) == .over)
    yard.folder.remove("spool/failed/a~2.json")
    #expect(try spool.state(of: holder) == .over)
    var done = holder
    done.doneAt = 5
    _ = try spool.withKey("k") { h throws(Errno) -> (Bool, KeyHolder?) in (true, done) }
    #expect(try held() == done)
    #expect(try spool.state(of: done) == .done(5))
  }

  @Test func keysWhoseWorkIsOverAreRemovedAndOthersStay() throws {
    let yard = try Yard()
    let spool = yard.spool
    for (key, place) in [("waits", Place.pending), ("over", .failed)] {
      let job = try yard.put("\(key).json", in: place)
      _ = try spool.withKey(key) { h throws(Errno) -> (Bool, KeyHolder?) in
        (true, KeyHolder(id: job.id, name: Name("\(key).json")))
      }
    }
    func keys() -> Int { yard.folder.names("spool/workers").count { $0.hasPrefix("key-") } }
    try spool.removeOldKeys(before: 0)
    #expect(keys() == 2)
    try spool.removeOldKeys(before: .max)
    #expect(keys() == 1)
    // One that is being decided on stays.
    yard.folder.move("spool/pending/waits.json", to: "spool/failed/waits.json")
    _ = try spool.withKey("waits") { h throws(Errno) -> (Bool, KeyHolder?) in
      try spool.removeOldKeys(before: .max)
      return (true, nil)
    }
    #expect(keys() == 1)
  }
}
