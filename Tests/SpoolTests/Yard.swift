internal import Glibc
internal import Jobs
internal import Spool
internal import System
internal import TestKit
internal import Testing

let now: Int64 = Clock.wall()
let boot = "boot"

/// In memory where there is such a place: a test of calls is not one of disks.
let memory = unsafe access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"

/// A spool to put files into by hand, and to look into afterwards.
final class Yard {
  let folder: Folder
  let path: String
  /// A view of it that never fails.
  let spool: Spool
  /// What every job was when it was put there.
  private(set) var jobs: [Put] = []
  /// The inodes that were sent to their end, by any worker.
  var sent: Set<UInt64> = []

  struct Put {
    var name: String
    var inode: UInt64
    var id: String
    var bytes: [UInt8]
    var modified: Int64
  }

  init(in parent: String = memory) throws {
    folder = Folder(in: parent)
    path = folder.at("spool")
    try Spool.create(path)
    spool = try Spool(path)
  }

  func open(_ calls: Calls = .live, _ durability: Spool.Durability = .full) throws -> Spool {
    try Spool(path, durability: durability, calls: calls)
  }

  static let text = #"{"to": "https://files.example.com/in/", "files": ["/data/a.jpg"]}"#

  /// Puts a job there; gives what it is.
  @discardableResult
  func put(
    _ name: String, in place: Place, _ text: String = Yard.text, modified: Int64? = nil
  ) throws -> Put {
    folder.write("spool/\(place)/\(name)", text, modified: modified)
    let facts = try #require(folder.facts("spool/\(place)/\(name)"))
    let job = Put(
      name: name, inode: facts.inode, id: jobID(facts, bytes: Array(text.utf8)),
      bytes: Array(text.utf8), modified: facts.modified)
    jobs.append(job)
    return job
  }

  /// It was removed on purpose.
  func forget(_ job: Put) { jobs.removeAll { $0.inode == job.inode } }

  /// Says something of a job in progress/, as a worker would have.
  func tell(
    _ name: String, _ state: Sidecar.State, id: String, _ change: (inout Sidecar) -> Void = { _ in }
  ) throws {
    var word = Sidecar(
      state: state, job: JobName.stem(Name(name)), id: id, queuedAt: now, updatedAt: now)
    word.boot = boot
    change(&word)
    try spool.publish(word, as: Name(name), durable: false)
  }

  func word(_ name: String) -> Sidecar? { (try? spool.sidecar(Name(name))) ?? nil }

  /// Where a job's file is: `done/NAME.json` and so on, under every name it has.
  func whereabouts(_ job: Put) -> [String] {
    var found: [String] = []
    for place in Place.allCases {
      for name in folder.names("spool/\(place)") {
        let path = "\(place)/\(name)"
        if folder.facts("spool/" + path)?.inode == job.inode { found.append(path) }
      }
    }
    return found
  }

  /// Everything in the state directories and progress/, sorted.
  var listing: [String] {
    (Place.allCases.map(\.rawValue) + ["progress"]).flatMap { directory in
      folder.names("spool/\(directory)").map { "\(directory)/\($0)" }
    }.sorted()
  }

  /// What must hold at every moment, whatever failed: each job is there (once, or twice in the middle
  /// of a link and unlink), untouched; no strange names; nothing torn that is believed.
  func verify(mayHaveTwo: Bool = false, _ context: String) throws {
    for job in jobs {
      let places = whereabouts(job)
      #expect(
        places.count == 1 || mayHaveTwo && places.count == 2, "\(job.name) in \(places); \(context)"
      )
      for place in places {
        #expect(folder.read("spool/" + place) == job.bytes, "\(context)")
        #expect(folder.facts("spool/" + place)?.modified == job.modified, "\(context)")
      }
    }
    for path in listing where !path.hasSuffix(".json") {
      #expect(path.split(separator: "/")[1].first == ".", "\(path); \(context)")
    }
    for path in listing where path.hasPrefix("active/") {
      let name = String(path.dropFirst("active/".count))
      guard let word = word(name), word.state == .done,
        let job = jobs.first(where: { $0.id == word.id })
      else { continue }
      #expect(sent.contains(job.inode), "done, but never sent: \(path); \(context)")
    }
  }

  /// Looks at everything in active/ and progress/, as a worker does now and then.
  func tidy(isHeld: Bool = false) throws {
    for name in try spool.jobs(in: .active) {
      _ = try spool.recovered(name.description, isHeld: isHeld)
    }
    for name in folder.names("spool/progress") where name.hasSuffix(".json") {
      _ = try spool.orphan(Name(name))
    }
  }

  /// Lets a worker that never fails go on until nothing is to be done: every job has come to one end,
  /// with its own sidecar beside it.
  func settle(_ context: String) throws {
    for _ in 0..<20 {
      try tidy()
      for name in folder.names("spool/pending") where name.hasSuffix(".json") {
        switch try spool.tryClaim(name) {
        case .claimed(let claim):
          sent.insert(claim.facts.inode)
          _ = spool.commit([claim.ending(.done, to: .done)], wholeFilesystem: false)
        case .incomplete(_, _, let facts):
          _ = try patiently {
            try spool.conclude(Name(name), judged: facts, in: .failed) { id in
              Sidecar(state: .failed, job: "a", id: id, queuedAt: now, updatedAt: now)
            }
          }
        default: break
        }
      }
      if try spool.jobs(in: .pending).isEmpty && spool.jobs(in: .active).isEmpty { break }
    }
    try tidy()
    try verify(context)
    let left = listing.filter { $0.hasPrefix("pending/") || $0.hasPrefix("active/") }
    #expect(left.allSatisfy { !$0.hasSuffix(".json") }, "never ends: \(left); \(context)")
    for path in listing where path.hasPrefix("progress/") && path.hasSuffix(".json") {
      let name = String(path.dropFirst("progress/".count))
      guard let word = word(name), let job = jobs.first(where: { $0.id == word.id }) else {
        continue
      }
      let place = try #require(whereabouts(job).first, "\(context)")
      #expect(place.hasSuffix("/" + name), "\(place) has its sidecar as \(path); \(context)")
      #expect(
        word.state == .done && place.hasPrefix("done/")
          || word.state == .failed && place.hasPrefix("failed/")
          || word.state == .paused && place.hasPrefix("paused/"),
        "\(place) with \(word.state); \(context)")
    }
  }

  /// The most crashes that any sidecar counts.
  var mostCrashes: Int {
    folder.names("spool/progress").compactMap { word($0)?.crashes }.max() ?? 0
  }

  /// Takes everything out again.
  func reset() {
    for directory in Place.allCases.map(\.rawValue) + ["progress", "workers"] {
      for name in folder.names("spool/" + directory) { folder.remove("spool/\(directory)/\(name)") }
    }
    jobs = []
    sent = []
  }
}

/// A job's first word.
func begin(_ job: Job, _ known: Sidecar?, _ id: String, _ facts: Facts) -> Sidecar {
  var word =
    known ?? Sidecar(state: .active, job: "job", id: id, queuedAt: now, updatedAt: now)
  if word.state == .done || word.state == .cancelled {
    let run = word.run
    word = Sidecar(state: .active, job: word.job, id: id, queuedAt: now, updatedAt: now)
    word.run = run + 1
  }
  word.state = .active
  word.boot = boot
  word.finishedAt = nil
  return word
}

/// Asks again for a second at most.
///
/// A child that any test of this process starts has copies of all descriptors until its `exec`, and
/// with them, for a moment, the locks that were just given back here.
func patiently(_ body: () throws -> Bool) rethrows -> Bool {
  for _ in 0..<1_000 {
    if try body() { return true }
    usleep(1_000)
  }
  return false
}

extension Spool {
  func tryClaim(_ name: String, at time: Int64? = nil, isHeld: Bool = false) throws -> Claiming {
    try tryClaim(Name(name), at: time, isHeld: isHeld)
  }
  /// `isHeld`: somebody holds it or its namesake in earnest.
  func tryClaim(_ name: Name, at time: Int64? = nil, isHeld: Bool = false) throws -> Claiming {
    var result = Claiming.gone
    _ = try patiently {
      result = try claim(
        name, now: time ?? Clock.wall(), decide: { _, _, _ in true }, start: begin)
      switch result {
      case .locked, .nameTaken: return isHeld
      default: return true
      }
    }
    return result
  }
  func claimed(_ name: String, at time: Int64? = nil) throws -> Claim? {
    if case .claimed(let claim) = try tryClaim(name, at: time) { return claim }
    return nil
  }
  func recovered(
    _ name: String, limit: Int = 5, boot: String = boot, isHeld: Bool = false
  ) throws -> Recovery {
    var result = Recovery.alive
    _ = try patiently {
      result = try recover(Name(name), now: now, boot: boot, limit: limit) { Int64($0) * second }
      let isThere = try Calls.live.factsIfThere(of: Name(name), in: active.raw) != nil
      return result != .alive || isHeld || !isThere
    }
    return result
  }
}

extension Claim {
  func ending(
    _ state: Sidecar.State, to place: Place, _ change: (inout Sidecar) -> Void = { _ in }
  ) -> Ending {
    var word =
      sidecar
      ?? Sidecar(state: state, job: JobName.stem(name), id: id, queuedAt: now, updatedAt: now)
    word.state = state
    word.boot = boot
    if state.isFinal { word.finishedAt = now }
    change(&word)
    return Ending(self, word, to: place, isFirstWord: sidecar == nil)
  }
}

/// Calls that fail from a plan, and count.
final class Faults: Sendable {
  struct Plan {
    var kind: Call?
    /// The n-th call of that kind fails; the later ones, too, when `forEver`.
    var n: Int
    var code: Int32
    var forEver = false
    /// Rename refuses RENAME_NOREPLACE, as some filesystems do.
    var withoutNoReplace = false
  }
  private let seen = Locked<Int?>(nil)
  let plan: Plan
  init(_ plan: Plan) { self.plan = plan }

  /// From now on calls are counted.
  func begin() { seen.with { $0 = 0 } }

  var isReached: Bool { seen.with { $0 ?? 0 } >= plan.n }
  var calls: Calls {
    Calls { call in
      let plan = self.plan
      if plan.kind == nil || plan.kind == call {
        let n = self.seen.with { seen in
          if let n = seen { seen = n + 1 }
          return seen ?? 0
        }
        if n == plan.n || plan.forEver && n > plan.n { return plan.code }
      }
      return plan.withoutNoReplace && call == .rename ? EINVAL : nil
    }
  }
}
