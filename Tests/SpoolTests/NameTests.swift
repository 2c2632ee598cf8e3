internal import Glibc
internal import Jobs
internal import Spool
internal import System
internal import TestKit
internal import Testing

/// A name in use: who waits, who steps aside, and to where.
@Suite struct NameTests {
  private let yard: Yard
  init() throws { yard = try Yard() }

  private func claim(_ name: String) throws -> Claim {
    try #require(try yard.spool.claimed(name), "\(yard.listing)")
  }
  private func end(
    _ claim: Claim, _ state: Sidecar.State, to place: Place, isHeld: Bool = false
  ) -> Ended {
    var result = Ended.moved
    _ = patiently {
      result = yard.spool.commit([claim.ending(state, to: place)], wholeFilesystem: false)[0]
      return result != .failed(.wouldBlock) || isHeld
    }
    return result
  }
  private func isTaken(_ name: String) throws -> Bool {
    if case .nameTaken = try yard.spool.tryClaim(name, isHeld: true) { true } else { false }
  }

  @Test(arguments: [Place.paused, .done, .failed])
  func `an older job and its sidecar step aside for a new one`(_ place: Place) throws {
    let state = try #require(Sidecar.State(rawValue: place.rawValue))
    let old = try yard.put("a.json", in: place)
    try yard.tell("a.json", state, id: old.id) { $0.failures = 4 }
    let new = try yard.put("a.json", in: .pending)
    let claim = try claim("a.json")
    #expect(claim.sidecar?.failures == 0 && claim.sidecar?.id == new.id)
    #expect(yard.whereabouts(old) == ["\(place)/a~1.json"])
    #expect(yard.word("a~1.json")?.id == old.id && yard.word("a~1.json")?.failures == 4)
    #expect(yard.word("a.json")?.id == new.id)
    #expect(end(claim, .done, to: .done) == .committed)
    #expect(yard.whereabouts(new) == ["done/a.json"])
    try yard.verify("")
  }

  @Test(arguments: [false, true])
  func `the new one waits while the older runs`(_ hasSidecar: Bool) throws {
    let old = try yard.put("a.json", in: .pending)
    if hasSidecar { try yard.tell("a.json", .pending, id: old.id) }
    let new: Yard.Put
    do {
      let claim = try self.claim("a.json")
      new = try yard.put("a.json", in: .pending)
      let before = yard.word("a.json")
      #expect(try isTaken("a.json"))
      let facts = try #require(yard.folder.facts("spool/pending/a.json"))
      let isTold = try yard.spool.tellWaiting(Name("a.json"), facts) { id in
        Sidecar(state: .pending, job: "a", id: id, queuedAt: now, updatedAt: now)
      }
      #expect(!isTold && yard.word("a.json") == before, "the sidecar is the running job's")
      #expect(
        try !yard.spool.conclude(Name("a.json"), judged: facts, in: .failed) { id in
          Sidecar(state: .failed, job: "a", id: id, queuedAt: now, updatedAt: now)
        })
      #expect(end(claim, .done, to: .done) == .committed)
    }
    let next = try self.claim("a.json")
    #expect(next.id == new.id && yard.whereabouts(old) == ["done/a~1.json"])
    #expect(yard.word("a~1.json")?.id == old.id && yard.word("a~1.json")?.state == .done)
  }

  @Test(arguments: [Place.paused, .done, .failed])
  func `the new one waits while somebody holds the older`(_ place: Place) throws {
    let old = try yard.put("a.json", in: place)
    try yard.tell("a.json", .done, id: old.id)
    try yard.put("a.json", in: .pending)
    do {
      let holder = try Calls.live.open(Name(yard.path + "/\(place)/a.json"), O_RDONLY)
      #expect(try Calls.live.tryLock(holder.raw))
      #expect(try isTaken("a.json"))
      #expect(yard.word("a.json")?.id == old.id && yard.whereabouts(old) == ["\(place)/a.json"])
      withExtendedLifetime(holder) {}
    }
    #expect(try patiently { try !isTaken("a.json") })
  }

  @Test func `a finish waits while somebody holds what is in its way`() throws {
    try yard.put("a.json", in: .pending)
    let claim = try claim("a.json")
    let old = try yard.put("a.json", in: .done)
    do {
      let holder = try Calls.live.open(Name(yard.path + "/done/a.json"), O_RDONLY)
      #expect(try Calls.live.tryLock(holder.raw))
      #expect(end(claim, .done, to: .done, isHeld: true) == .failed(.wouldBlock))
      withExtendedLifetime(holder) {}
    }
    #expect(end(claim, .done, to: .done) == .committed)
    #expect(yard.whereabouts(old) == ["done/a~1.json"])
    try yard.verify("")
  }

  @Test func `a name is free only when it is free in every directory`() throws {
    for (n, place) in Place.allCases.enumerated() { try yard.put("a~\(n + 1).json", in: place) }
    try yard.tell("a~6.json", .cancelled, id: "1-1")
    let old = try yard.put("a.json", in: .done)
    try yard.tell("a.json", .done, id: old.id)
    try yard.put("a.json", in: .pending)
    _ = try claim("a.json")
    #expect(yard.whereabouts(old) == ["done/a~7.json"])
    try yard.verify("")
  }

  @Test func `a job that goes back to a taken name takes its sidecar along`() throws {
    let old = try yard.put("a.json", in: .pending)
    let claim = try claim("a.json")
    let new = try yard.put("a.json", in: .pending)
    #expect(end(claim, .pending, to: .pending) == .committed)
    #expect(yard.whereabouts(old) == ["pending/a~1.json"])
    #expect(yard.whereabouts(new) == ["pending/a.json"])
    #expect(yard.word("a~1.json")?.id == old.id && yard.word("a.json") == nil)
  }

  @Test func `half a way back is finished by recovery, and no crash`() throws {
    let old = try yard.put("a.json", in: .active)
    let new = try yard.put("a.json", in: .pending)
    try yard.tell("a~1.json", .pending, id: old.id) {
      $0.failures = 3
      $0.resume = [.init(file: 0, url: "https://x/", size: 9, modifiedAt: 1, offset: 3)]
    }
    #expect(try yard.spool.recovered("a.json") == .requeued(crashes: 0))
    #expect(yard.whereabouts(old) == ["pending/a~1.json"])
    #expect(yard.whereabouts(new) == ["pending/a.json"])
    let word = try #require(yard.word("a~1.json"))
    #expect(word.failures == 3 && word.resume.count == 1 && word.crashes == 0)
    #expect(yard.word("a.json") == nil)
  }

  @Test func `a finish repeated after a failed fsync keeps the job's own sidecar`() throws {
    let job = try yard.put("a.json", in: .pending)
    let claim = try claim("a.json")
    let ending = claim.ending(.pending, to: .pending) {
      $0.resume = [.init(file: 0, url: "https://x/", size: 9, modifiedAt: 1, offset: 3)]
    }
    let faults = Faults(.init(kind: .fsync, n: 1, code: EIO))
    let failing = try yard.open(faults.calls)
    faults.begin()
    #expect(failing.commit([ending], wholeFilesystem: false) == [.failed(Errno(EIO))])
    #expect(failing.commit([ending], wholeFilesystem: false) == [.committed])
    #expect(yard.listing == ["pending/a.json", "progress/a.json"])
    #expect(yard.word("a.json")?.id == job.id && yard.word("a.json")?.resume.count == 1)
  }

  @Test func `names of 200 bytes and of any bytes step aside again and again`() throws {
    let long = String(repeating: "n", count: 195)
    let bytes: [Name] = [
      Name(long + ".json"), Name(bytes: [0xff, 0xfe, 0x20] + ".json".utf8), Name("~.json"),
      Name("a~1.json"), Name("~~~.json"), Name("é.json"),
    ]
    let calls = Calls.live
    for name in bytes {
      var seen: Set<UInt64> = []
      for round in 0..<30 {
        let file = try calls.open(name, in: yard.spool.pending.raw, O_WRONLY | O_CREAT | O_EXCL)
        try calls.write(file.raw, Array(Yard.text.utf8))
        seen.insert(try calls.facts(of: file.raw).inode)
        guard case .claimed(let claim) = try yard.spool.tryClaim(name)
        else {
          Issue.record("round \(round) of \(name)")
          return
        }
        #expect(end(claim, .done, to: .done) == .committed)
        if round % 3 == 2 {
          // The oldest runs again under its new name, and makes room there, too.
          let again = JobName.stepAside(name, 1)
          try calls.move(again, from: yard.spool.done.raw, to: yard.spool.pending.raw)
          guard case .claimed(let claim) = try yard.spool.tryClaim(again)
          else {
            Issue.record("round \(round) of \(again)")
            return
          }
          #expect(claim.sidecar?.run == 2 + round / 3)
          #expect(end(claim, .done, to: .done) == .committed)
        }
      }
      let names = try calls.names(in: yard.spool.done.raw)
      for done in names {
        #expect(JobName.isJob(done))
        let facts = try calls.facts(of: done, in: yard.spool.done.raw)
        seen.remove(facts.inode)
        #expect(try yard.spool.sidecar(done)?.id == jobID(facts, bytes: []) || facts.born == nil)
        try calls.unlink(done, in: yard.spool.done.raw)
        try calls.unlink(done, in: yard.spool.progress.raw)
      }
      #expect(seen.isEmpty && names.count == 30, "\(name)")
    }
  }

  @Test func `half a step aside is finished for names that are no text`() throws {
    let name = Name(bytes: [0xff] + ".json".utf8)
    let aside = JobName.stepAside(name, 1)
    let calls = Calls.live
    let file = try calls.open(name, in: yard.spool.done.raw, O_WRONLY | O_CREAT)
    let id = jobID(try calls.facts(of: file.raw), bytes: [])
    let word = Sidecar(
      state: .done, job: JobName.stem(name), id: id, queuedAt: now, updatedAt: now)
    try yard.spool.publish(word, as: aside, durable: false)
    #expect(try yard.spool.orphan(aside) == .no)
    #expect(try calls.factsIfThere(of: aside, in: yard.spool.done.raw) != nil)
    #expect(try calls.factsIfThere(of: name, in: yard.spool.done.raw) == nil)
  }

  @Test func `what a job owes is not touched while the job lives under its old name`() throws {
    let job = try yard.put("a.json", in: .pending)
    try yard.tell("a~1.json", .pending, id: job.id)
    #expect(try yard.spool.orphan(Name("a~1.json")) == .no)
    let claim = try claim("a.json")
    #expect(try yard.spool.orphan(Name("a~1.json")) == .no)
    #expect(end(claim, .done, to: .done) == .committed)
    #expect(try yard.spool.orphan(Name("a~1.json")) == .no)
    #expect(yard.whereabouts(job) == ["done/a.json"], "it has a newer sidecar there")
    yard.folder.remove("spool/done/a.json")
    guard case .owesCleanUp = try yard.spool.orphan(Name("a~1.json")) else {
      Issue.record("forgotten")
      return
    }
  }

  // MARK: A person's moves while it runs

  @Test(arguments: [Place.paused, .pending, .failed, .done])
  func `a finish that finds its job moved says so and writes nothing elsewhere`(_ place: Place)
    throws
  {
    let job = try yard.put("a.json", in: .pending)
    let claim = try claim("a.json")
    #expect(yard.folder.move("spool/active/a.json", to: "spool/\(place)/a.json"))
    #expect(try yard.spool.whereabouts(claim) == .place(place))
    #expect(end(claim, .done, to: .done) == .moved)
    #expect(yard.whereabouts(job) == ["\(place)/a.json"])
    var word = try #require(yard.word("a.json"))
    word.state = .paused
    #expect(try yard.spool.say(word, of: claim, durable: true))
    #expect(yard.word("a.json")?.state == .paused)
  }

  @Test func `a removed job's worker doesn't write over its successor`() throws {
    let old = try yard.put("a.json", in: .pending)
    try yard.tell("a.json", .pending, id: old.id)
    let claim = try claim("a.json")
    yard.folder.remove("spool/active/a.json")
    yard.forget(old)
    #expect(try yard.spool.whereabouts(claim) == .unlinked)
    let new = try yard.put("a.json", in: .pending)
    let next = try self.claim("a.json")
    let word = try #require(claim.sidecar)
    #expect(try !yard.spool.say(word, of: claim, durable: true))
    #expect(end(claim, .done, to: .done) == .moved)
    #expect(yard.word("a.json")?.id == new.id && yard.word("a.json")?.state == .active)
    #expect(yard.whereabouts(new) == ["active/a.json"])
    // What the first one owes is kept apart.
    #expect(yard.word("a~\(old.id).json")?.id == old.id)
    #expect(end(next, .done, to: .done) == .committed)
  }

  @Test func `a job that was moved elsewhere is nowhere, not unlinked`() throws {
    try yard.put("a.json", in: .pending)
    let claim = try claim("a.json")
    #expect(yard.folder.move("spool/active/a.json", to: "elsewhere"))
    #expect(try yard.spool.whereabouts(claim) == .nowhere)
    #expect(yard.folder.move("elsewhere", to: "spool/paused/a.json"))
    #expect(try yard.spool.whereabouts(claim) == .place(.paused))
  }

  @Test func `a stopped job's word and that of a new job of its name leave each other alone`()
    throws
  {
    try yard.put("a.json", in: .pending)
    let claim = try claim("a.json")
    #expect(yard.folder.move("spool/active/a.json", to: "spool/paused/a.json"))
    let new = try yard.put("a.json", in: .pending)
    try yard.tell("a.json", .pending, id: new.id) { $0.attempt = 3 }
    let word = Sidecar(state: .paused, job: "a", id: claim.id, queuedAt: now, updatedAt: now)
    #expect(try yard.spool.say(word, of: claim, durable: true))
    #expect(yard.word("a.json")?.id == new.id && yard.word("a.json")?.attempt == 3)
    #expect(yard.word("a~1.json")?.id == claim.id)
    #expect(yard.folder.names("spool/paused") == ["a~1.json"])
    #expect(yard.folder.names("spool/pending") == ["a.json"])
  }

  @Test func `a state directory that is gone is an error, not a lost race`() throws {
    try yard.put("a.json", in: .pending)
    try yard.put("b.json", in: .pending, "{")
    let claim = try claim("a.json")
    let facts = try #require(yard.folder.facts("spool/pending/b.json"))
    #expect(unsafe rmdir(yard.path + "/failed") == 0)
    #expect(throws: Errno.missing) {
      try yard.spool.conclude(Name("b.json"), judged: facts, in: .failed) { id in
        Sidecar(state: .failed, job: "b", id: id, queuedAt: now, updatedAt: now)
      }
    }
    #expect(end(claim, .failed, to: .failed) == .failed(.missing))
    #expect(yard.spool.replacedDirectories() == ["failed"])
    try yard.verify("")
    #expect(unsafe rmdir(yard.path + "/active") == -1)
    #expect(yard.folder.move("spool/active", to: "spool/old"))
    #expect(yard.spool.replacedDirectories() == ["active", "failed"])
  }

  // MARK: Pruning

  @Test func `only what ended long ago is pruned, with its sidecar`() throws {
    for place in [Place.done, .failed] {
      let job = try yard.put("a.json", in: place)
      try yard.tell("a.json", place == .done ? .done : .failed, id: job.id) {
        $0.finishedAt = now - 10 * second
      }
      let name = Name("a.json")
      #expect(try !yard.spool.prune(name, in: place, endedBefore: now - 20 * second))
      // Renamed a moment ago.
      #expect(try !yard.spool.prune(name, in: place, endedBefore: now - 5 * second))
      let limit = Clock.wall() + second
      #expect(try patiently { try yard.spool.prune(name, in: place, endedBefore: limit) })
      #expect(yard.listing == [])
      yard.forget(job)
    }
  }

  @Test func `a pruned job's debts stay, and so does another's sidecar`() throws {
    let first = try yard.put("a.json", in: .failed)
    try yard.tell("a.json", .failed, id: first.id) {
      $0.resume = [.init(file: 0, url: "https://x/", size: 9, modifiedAt: 1, offset: 3)]
    }
    try yard.put("b.json", in: .done)
    try yard.tell("b.json", .done, id: "1-1")
    #expect(try patiently { try yard.spool.prune(Name("a.json"), in: .failed, endedBefore: .max) })
    #expect(try yard.spool.prune(Name("b.json"), in: .done, endedBefore: .max))
    #expect(yard.listing == ["progress/a.json", "progress/b.json"])
  }
}
