internal import Glibc
internal import Jobs
internal import Spool
internal import System
internal import TestKit
internal import Testing

/// One thing that is done to a spool, tried with every call of it failing in turn.
struct Scenario: Sendable, CustomTestStringConvertible {
  var name: String
  var prepare: @Sendable (Yard) throws -> Void
  /// Does it; the claims are those that `prepare`'s jobs in `held` were claimed with.
  var run: @Sendable (Spool, Yard, [Claim]) throws -> Void
  /// Jobs that are claimed before the faults begin.
  var held: [String] = []
  /// What happens after those claims.
  var meanwhile: @Sendable (Yard) throws -> Void = { _ in }
  /// What must hold when it went through, at once or repeated.
  var check: @Sendable (Yard) throws -> Void = { _ in }
  var testDescription: String { name }
}

extension Scenario {
  /// Prepares a spool, does it with these calls, and lets `body` look while the claims are held;
  /// afterwards nobody holds them.
  func attempt(
    _ yard: Yard, _ faults: Faults,
    _ body: (_ claims: [Claim], _ failure: (any Error)?) throws -> Void
  ) throws {
    yard.reset()
    try prepare(yard)
    var claims: [Claim] = []
    for name in held {
      claims.append(try #require(try yard.spool.claimed(name), "\(self.name): can't claim \(name)"))
    }
    try meanwhile(yard)
    let spool = try yard.open(faults.calls)
    faults.begin()
    var failure: (any Error)?
    do { try run(spool, yard, claims) } catch { failure = error }
    try body(claims, failure)
  }
}

struct Unfinished: Error {}

private func commit(_ spool: Spool, _ endings: [Ending], _ yard: Yard, whole: Bool = false) throws {
  for ending in endings where ending.sidecar.state == .done {
    yard.sent.insert(ending.claim.facts.inode)
  }
  let results = spool.commit(endings, wholeFilesystem: whole)
  for result in results { if case .failed(let error) = result { throw error } }
}

private let resume = Sidecar.Resume(
  file: 0, url: "https://files.example.com/in/a.jpg", size: 9, modifiedAt: 1, offset: 4)

let scenarios: [Scenario] = [
  Scenario(
    name: "claim of a fresh drop", prepare: { try $0.put("a.json", in: .pending) },
    run: { spool, _, _ in _ = try spool.claimed("a.json") },
    check: { #expect($0.listing == ["active/a.json"]) }),
  Scenario(
    name: "claim of what was done, submitted again",
    prepare: { yard in
      let job = try yard.put("a.json", in: .pending)
      try yard.tell("a.json", .done, id: job.id)
    },
    run: { spool, _, _ in _ = try spool.claimed("a.json") },
    check: { yard in
      #expect(yard.word("a.json")?.state == .active)
      #expect(yard.word("a.json")?.run == 2)
    }),
  Scenario(
    name: "claim while an older namesake lies in done/",
    prepare: { yard in
      let old = try yard.put("a.json", in: .done)
      try yard.tell("a.json", .done, id: old.id)
      try yard.put("a.json", in: .pending)
    },
    run: { spool, _, _ in
      // Without a sidecar (an interrupted try took it aside) the hot path leaves it for the finish.
      _ = try spool.claimed("a.json")
    },
    check: { yard in
      #expect(yard.whereabouts(yard.jobs[1]) == ["active/a.json"])
      #expect(yard.word("a~1.json")?.id == yard.jobs[0].id)
    }),
  Scenario(
    name: "claim of a name whose removed job owes a clean-up",
    prepare: { yard in
      try yard.put("a.json", in: .pending)
      try yard.tell("a.json", .active, id: "1-2") { $0.resume = [resume] }
    },
    run: { spool, _, _ in _ = try spool.claimed("a.json") },
    check: { #expect($0.word("a~1-2.json")?.resume == [resume]) }),
  Scenario(
    name: "commit of first words, one fsync each",
    prepare: { for name in ["a.json", "b.json", "c.json"] { try $0.put(name, in: .pending) } },
    run: { spool, yard, claims in
      try commit(
        spool,
        [
          claims[0].ending(.done, to: .done), claims[1].ending(.failed, to: .failed),
          claims[2].ending(.pending, to: .pending) { $0.resume = [resume] },
        ], yard)
    }, held: ["a.json", "b.json", "c.json"],
    check: { yard in
      #expect(
        yard.listing == [
          "done/a.json", "failed/b.json", "pending/c.json", "progress/a.json", "progress/b.json",
          "progress/c.json",
        ])
      #expect(yard.word("c.json")?.resume == [resume])
    }),
  Scenario(
    name: "commit of first words, the whole filesystem synced",
    prepare: { for name in ["a.json", "b.json"] { try $0.put(name, in: .pending) } },
    run: { spool, yard, claims in
      try commit(
        spool, [claims[0].ending(.done, to: .done), claims[1].ending(.failed, to: .failed)], yard,
        whole: true)
    }, held: ["a.json", "b.json"],
    check: {
      #expect(
        $0.listing == ["done/a.json", "failed/b.json", "progress/a.json", "progress/b.json"])
    }),
  Scenario(
    name: "commit that replaces a sidecar",
    prepare: { yard in
      let job = try yard.put("a.json", in: .pending)
      try yard.tell("a.json", .pending, id: job.id) { $0.resume = [resume] }
    },
    run: { spool, yard, claims in
      try commit(spool, [claims[0].ending(.failed, to: .failed)], yard)
    }, held: ["a.json"],
    check: { #expect($0.word("a.json")?.state == .failed) }),
  Scenario(
    name: "commit back to pending/, the name taken meanwhile",
    prepare: { yard in
      try yard.put("a.json", in: .pending)
    },
    run: { spool, yard, claims in
      try commit(
        spool, [claims[0].ending(.pending, to: .pending) { $0.resume = [resume] }], yard)
    }, held: ["a.json"], meanwhile: { try $0.put("a.json", in: .pending) },
    check: { yard in
      #expect(yard.listing == ["pending/a.json", "pending/a~1.json", "progress/a~1.json"])
      #expect(yard.word("a~1.json")?.id == yard.jobs[0].id)
      #expect(yard.word("a~1.json")?.resume == [resume])
    }),
  Scenario(
    name: "commit to done/ that was filled by hand",
    prepare: { yard in
      try yard.put("a.json", in: .pending)
      try yard.put("a.json", in: .done)
    },
    run: { spool, yard, claims in
      try commit(spool, [claims[0].ending(.done, to: .done)], yard)
    }, held: ["a.json"],
    check: { yard in
      #expect(yard.listing == ["done/a.json", "done/a~1.json", "progress/a.json"])
      #expect(yard.whereabouts(yard.jobs[0]) == ["done/a.json"])
    }),
  Scenario(
    name: "recovery of what had ended",
    prepare: { yard in
      let job = try yard.put("a.json", in: .active)
      try yard.tell("a.json", .done, id: job.id)
      yard.sent.insert(job.inode)
    },
    run: { spool, _, _ in _ = try spool.recovered("a.json") },
    check: { #expect($0.listing == ["done/a.json", "progress/a.json"]) }),
  Scenario(
    name: "recovery after a crash",
    prepare: { yard in
      let job = try yard.put("a.json", in: .active)
      try yard.tell("a.json", .active, id: job.id) {
        $0.resume = [resume]
        $0.crashProgress = 4
      }
    },
    run: { spool, _, _ in _ = try spool.recovered("a.json") },
    check: { yard in
      #expect(yard.listing == ["pending/a.json", "progress/a.json"])
      #expect(yard.word("a.json")?.resume == [resume])
    }),
  Scenario(
    name: "recovery before the first word, the name taken in pending/",
    prepare: { yard in
      try yard.put("a.json", in: .active)
      try yard.put("a.json", in: .pending)
    },
    run: { spool, _, _ in _ = try spool.recovered("a.json") },
    check: { yard in
      #expect(yard.listing == ["pending/a.json", "pending/a~1.json", "progress/a~1.json"])
      #expect(yard.word("a~1.json")?.id == yard.jobs[0].id)
    }),
  Scenario(
    name: "recovery of the fifth crash",
    prepare: { yard in
      let job = try yard.put("a.json", in: .active)
      try yard.tell("a.json", .active, id: job.id) { $0.crashes = 4 }
    },
    run: { spool, _, _ in _ = try spool.recovered("a.json") },
    check: { #expect($0.listing == ["failed/a.json", "progress/a.json"]) }),
  Scenario(
    name: "refusal, an older one in failed/",
    prepare: { yard in
      let old = try yard.put("a.json", in: .failed, "{")
      try yard.tell("a.json", .failed, id: old.id)
      try yard.put("a.json", in: .pending, "[")
    },
    run: { spool, yard, _ in
      guard let facts = yard.folder.facts("spool/pending/a.json") else { return }
      let isMoved = try patiently {
        try spool.conclude(Name("a.json"), judged: facts, in: .failed) { id in
          Sidecar(state: .failed, job: "a", id: id, queuedAt: now, updatedAt: now)
        }
      }
      if !isMoved { throw Unfinished() }
    },
    check: { yard in
      #expect(
        yard.listing == [
          "failed/a.json", "failed/a~1.json", "progress/a.json", "progress/a~1.json",
        ])
      #expect(yard.word("a~1.json")?.id == yard.jobs[0].id)
      #expect(yard.word("a.json")?.id == yard.jobs[1].id)
    }),
  Scenario(
    name: "telling why a job waits",
    prepare: { try $0.put("a.json", in: .pending) },
    run: { spool, yard, _ in
      let facts = try #require(yard.folder.facts("spool/pending/a.json"))
      _ = try patiently {
        try spool.tellWaiting(Name("a.json"), facts) { id in
          Sidecar(state: .pending, job: "a", id: id, queuedAt: now, updatedAt: now)
        }
      }
    },
    check: { #expect($0.listing == ["pending/a.json", "progress/a.json"]) }),
  Scenario(
    name: "submission", prepare: { _ in },
    run: { spool, yard, _ in
      if yard.folder.exists("spool/pending/a.json") { return }
      _ = try spool.submit(
        Array(Yard.text.utf8), as: Name("a.json"), in: .pending, mayRename: false)
    },
    check: { yard in
      #expect(yard.listing == ["pending/a.json"])
      #expect(yard.folder.text("spool/pending/a.json") == Yard.text)
    }),
]

@Suite struct SweepTests {
  static let codes: [Call: [Int32]] = [
    .open: [EACCES, ENOSPC, EDQUOT, EROFS, ESTALE, EMFILE, EINTR],
    .statx: [EIO, ESTALE, EINTR], .flock: [ENOLCK, EWOULDBLOCK, EINTR],
    .read: [EIO, ESTALE, EINTR], .write: [ENOSPC, EDQUOT, EIO, EINTR],
    .fsync: [EIO, ENOSPC, EDQUOT, EINTR], .syncfs: [EIO, ENOSPC],
    .rename: [ENOSPC, EDQUOT, EIO, EROFS, EACCES, ESTALE, EINTR],
    .replace: [ENOSPC, EDQUOT, EIO, EROFS, ESTALE, EINTR],
    .link: [ENOSPC, EDQUOT, EIO, EMLINK], .unlink: [EIO, EROFS, EACCES],
  ]

  /// A single call fails: nothing is lost or doubled, and the same again goes through.
  @Test(arguments: scenarios)
  func `one call fails`(_ scenario: Scenario) throws {
    let yard = try Yard()
    var failed = 0
    for withoutNoReplace in [false, true] {
      for (kind, codes) in Self.codes {
        for code in codes {
          var n = 1
          var isOver = false
          while !isOver {
            try #require(n < 200, "\(scenario.name) never ends")
            let faults = Faults(
              .init(kind: kind, n: n, code: code, withoutNoReplace: withoutNoReplace))
            let context =
              "\(scenario.name): \(kind) no. \(n) says \(Errno(code)), link: \(withoutNoReplace)"
            try scenario.attempt(yard, faults) { claims, failure in
              isOver = !faults.isReached
              if failure != nil { failed += 1 }
              if code == EINTR { #expect(failure == nil, "\(context)") }
              try yard.verify(mayHaveTwo: withoutNoReplace, "\(context), at once")
              let strays = yard.listing.filter { !$0.hasSuffix(".json") }
              #expect(strays.isEmpty, "\(context)")
              // Half-done links are recovery's; what is held it leaves alone.
              if withoutNoReplace && failure != nil { try yard.tidy(isHeld: !claims.isEmpty) }
              let again = Calls { withoutNoReplace && $0 == .rename ? EINVAL : nil }
              if failure != nil { try scenario.run(try yard.open(again), yard, claims) }
              // A namesake on its way aside keeps both names until the finish needs the first one.
              try yard.verify(mayHaveTwo: withoutNoReplace, "\(context), repeated")
              if failure != nil || code == EINTR || isOver { try scenario.check(yard) }
            }
            try yard.settle("\(context), settled")
            n += 1
          }
        }
      }
    }
    #expect(failed > 0, "no fault ever mattered")
  }

  /// The process ends before the n-th call of any kind: whoever comes next finds everything.
  @Test(arguments: scenarios)
  func `the process ends before any call`(_ scenario: Scenario) throws {
    let yard = try Yard()
    for withoutNoReplace in [false, true] {
      var n = 1
      var isOver = false
      while !isOver {
        try #require(n < 400, "\(scenario.name) never ends")
        let faults = Faults(
          .init(
            kind: nil, n: n, code: EREMOTEIO, forEver: true, withoutNoReplace: withoutNoReplace))
        let context = "\(scenario.name): the end before call \(n), link: \(withoutNoReplace)"
        var before = 0
        try scenario.attempt(yard, faults) { _, _ in
          isOver = !faults.isReached
          before = yard.mostCrashes
          try yard.verify(mayHaveTwo: withoutNoReplace, "\(context), at once")
        }
        try yard.settle("\(context), settled")
        let counted = yard.mostCrashes - before
        #expect(counted <= 1, "\(context): \(counted) crashes counted")
        n += 1
      }
      #expect(n > 3)
    }
  }
}
