internal import Glibc
internal import Jobs
internal import Spool
internal import System
internal import TestKit
internal import Testing

/// What a call that fails at the wrong moment, a power cut or a hand leaves behind.
@Suite struct TroubleTests {
  let yard: Yard
  init() throws { yard = try Yard() }

  /// Fails those calls from now on.
  private func failing(_ codes: [Call: Int32]) throws -> Spool {
    let isArmed = Locked(false)
    let spool = try yard.open(Calls { call in isArmed.with { $0 } ? codes[call] : nil })
    isArmed.with { $0 = true }
    return spool
  }

  @Test(arguments: [EIO, EMFILE, ENOMEM, EACCES])
  func `a state directory that can't be asked about is not gone`(_ code: Int32) throws {
    #expect(try failing([.statx: code]).replacedDirectories() == [])
  }
  @Test func `a state directory that a file server has lost is gone`() throws {
    #expect(try failing([.statx: ESTALE]).replacedDirectories().contains("active"))
  }

  // MARK: Temporaries

  private func temporaries() -> [String] {
    ["progress", "workers"].flatMap { directory in
      yard.folder.names("spool/\(directory)").filter { $0.hasPrefix(".") }
    }
  }

  @Test
  func `who can't remove a temporary of his own leaves his lock, and the next one removes both`()
    throws
  {
    let codes = Locked<[Call: Int32]>([:])
    let spool = try yard.open(Calls { call in codes.with { $0[call] } })
    do {
      let presence = try Presence(spool)
      codes.with { $0 = [.replace: ENOSPC, .unlink: EIO] }
      presence.publish(Array("{}".utf8), suffix: ".json")
      codes.with { $0 = [:] }
      presence.leave()
    }
    #expect(temporaries().count == 1)
    #expect(yard.folder.exists("spool/workers/\(spool.uuid).lock"))
    #expect(try patiently { try yard.spool.removeDeadWorkers(now: 0) == [spool.uuid] })
    #expect(temporaries() == [])
    #expect(yard.folder.names("spool/workers") == [])
  }

  @Test func `a dead worker's lock stays as long as one of his temporaries does`() throws {
    let dead = newUUID()
    yard.folder.write("spool/workers/\(dead).lock", "")
    yard.folder.write("spool/progress/.\(dead).1", "")
    #expect(try failing([.unlink: EIO]).removeDeadWorkers(now: 0) == [])
    #expect(yard.folder.exists("spool/workers/\(dead).lock"))
    #expect(try yard.spool.removeDeadWorkers(now: 0) == [dead])
    #expect(temporaries() == [] && yard.folder.names("spool/workers") == [])
  }

  @Test func `a temporary whose lock a power cut took goes after an hour, and no other`() throws {
    let (lost, alive) = (newUUID(), try yard.open())
    let presence = try Presence(alive)
    let names = [".\(lost).1", ".\(alive.uuid).1", ".\(yard.spool.uuid).1", ".producer.tmp"]
    for name in names { yard.folder.write("spool/progress/\(name)", "") }
    func sweep(_ later: Int64) throws {
      for name in names {
        let time = Clock.wall() + later
        try yard.spool.removeStray(Name(name), in: yard.spool.progress.raw, now: time)
      }
    }
    try sweep(3500 * second)
    #expect(temporaries().count == names.count)
    try sweep(3700 * second)
    #expect(temporaries().sorted() == names.dropFirst().sorted())
    yard.folder.write("spool/workers/.\(lost).2", "")
    _ = try yard.spool.removeDeadWorkers(now: Clock.wall() + 3700 * second)
    #expect(temporaries().sorted() == names.dropFirst().sorted())
    withExtendedLifetime(presence) {}
  }

  // MARK: Recovery

  @Test
  func `what a hand puts into active under the name of a waiting job leaves that one's word alone`()
    throws
  {
    let waiting = try yard.put("a.json", in: .pending)
    try yard.tell("a.json", .pending, id: waiting.id) { $0.attempt = 3 }
    try yard.put("a.json", in: .active)
    let verdict = try yard.spool.recovered("a.json")
    #expect(verdict == .requeued(crashes: 0))
    #expect(yard.folder.names("spool/active") == [])
    #expect(yard.folder.names("spool/pending").sorted() == ["a.json", "a~1.json"])
    #expect(yard.word("a.json")?.id == waiting.id && yard.word("a.json")?.attempt == 3)
  }

  @Test func `a job that can't step aside keeps its word`() throws {
    let old = try yard.put("a.json", in: .active)
    try yard.tell("a.json", .pending, id: old.id) { $0.attempt = 2 }
    try yard.put("a.json", in: .pending)
    let spool = try yard.open(Calls { $0 == .rename ? ENOSPC : nil })
    #expect(throws: Errno(ENOSPC)) { try spool.recovered("a.json") }
    let again = try failingOnce(.rename, ENOSPC, after: 1)
    #expect(throws: Errno(ENOSPC)) { try again.recovered("a.json") }
    #expect(yard.word("a.json")?.attempt == 2 && yard.word("a~1.json") == nil)
    #expect(yard.folder.names("spool/active") == ["a.json"])
    #expect(try yard.spool.recovered("a.json") == .requeued(crashes: 0))
    #expect(yard.word("a~1.json")?.attempt == 2 && yard.word("a.json") == nil)
  }

  private func failingOnce(_ failing: Call, _ code: Int32, after count: Int) throws -> Spool {
    let left = Locked(count)
    return try yard.open(
      Calls { call in
        guard call == failing else { return nil }
        return left.with { n in
          n -= 1
          return n == -1 ? code : nil
        }
      })
  }
}
