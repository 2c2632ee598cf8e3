internal import Glibc
internal import Jobs
internal import Spool
internal import System
internal import TestKit
internal import Testing

/// Histories of workers, crashes and people, against a model that knows only which files must exist.
@Suite struct HistoryTests {
  /// The first history's seed; `UPSPOOL_SEED` repeats one that failed.
  @Test func `nothing is lost, overwritten, or done unsent`() throws {
    let given = unsafe getenv("UPSPOOL_SEED").flatMap { unsafe UInt64(String(cString: $0)) }
    let base = given ?? UInt64.random(in: 1...(.max >> 1))
    print("histories from UPSPOOL_SEED=\(base)")
    let yard = try Yard()
    var ends = 0
    for seed in base..<(base + (given == nil ? 2_000 : 1)) {
      let history = try History(yard, seed)
      do {
        try history.run()
      } catch {
        Issue.record("\(error); UPSPOOL_SEED=\(seed)\n\(history.log.joined(separator: "\n"))")
        return
      }
      ends += history.committed
    }
    #expect(ends > 0 || given != nil)
  }
}

private struct Broken: Error, CustomStringConvertible { var description: String }

/// One history: three workers, five names, one person.
private final class History {
  private struct Life {
    let text: [UInt8]
    let id: String
    /// A worker acknowledged every byte, or a person called it done.
    var mayBeDone = false
  }
  private struct Held {
    let claim: Claim
    var ending: Ending?
    var isTold: Bool
  }
  private final class Worker {
    var spool: Spool
    var held: [Held] = []
    init(_ spool: Spool) { self.spool = spool }
  }

  private let yard: Yard
  private var random: Seeded
  private let names = ["a", "b", "c", "d", "e"].map { $0 + ".json" }
  private var lives: [UInt64: Life] = [:]
  private var workers: [Worker] = []
  private var dropped = 0
  /// Calls until the worker dies; nil: it lives on.
  private let fuse = Locked<Int?>(nil)
  private(set) var log: [String] = []
  private(set) var committed = 0

  init(_ yard: Yard, _ seed: UInt64) throws {
    self.yard = yard
    random = Seeded(seed)
    yard.reset()
    for _ in 0..<3 { workers.append(Worker(try open())) }
  }

  private func open() throws -> Spool {
    let fuse = fuse
    return try yard.open(
      Calls { _ in
        fuse.with { left in
          guard let n = left else { return nil }
          left = max(0, n - 1)
          return n == 0 ? EREMOTEIO : nil
        }
      })
  }

  private func fail(_ what: String) -> Broken { Broken(description: what) }
  private func path(_ place: Place, _ name: String) -> String { "spool/\(place)/\(name)" }
  private func pick<T>(_ all: [T]) -> T { all[Int.random(in: 0..<all.count, using: &random)] }

  func run() throws {
    for _ in 0..<Int.random(in: 10...30, using: &random) {
      try step()
      try verify()
    }
    for worker in workers { worker.held = [] }
    log.append("settle")
    for round in 0..<12 {
      try recover(yard.spool)
      for name in try yard.spool.jobs(in: .pending) {
        if case .claimed(let claim) = try yard.spool.tryClaim(name) {
          lives[claim.facts.inode]?.mayBeDone = true
          let ending = claim.ending(.done, to: .done)
          let isDone = patiently {
            yard.spool.commit([ending], wholeFilesystem: false) == [.committed]
          }
          if !isDone { throw fail("\(name) can't be finished") }
        }
      }
      try verify()
      if try yard.spool.jobs(in: .pending).isEmpty && yard.spool.jobs(in: .active).isEmpty {
        return
      }
      if round == 11 { throw fail("never ends: \(yard.listing)") }
    }
  }

  private func step() throws {
    let worker = pick(workers)
    // One step in six its worker doesn't live through.
    let dies = Int.random(in: 0..<6, using: &random) == 0
    if dies {
      let left = Int.random(in: 0..<40, using: &random)
      fuse.with { $0 = left }
    }
    let name = pick(names)
    switch Int.random(in: 0..<15, using: &random) {
    case 0, 1, 2: try drop(name)
    case 3, 4, 5: claim(worker, name)
    case 6, 7, 8: finish(worker)
    case 9: tell(worker)
    case 10:
      log.append("recover")
      try? recover(worker.spool)
    case 11, 12: move(name, from: pick(Place.allCases), to: pick(Place.allCases))
    case 13: remove(name, pick(Place.allCases))
    default:
      let place = pick(Place.allCases)
      if yard.folder.facts(path(place, name)) != nil {
        unsafe utimensat(AT_FDCWD, yard.folder.at(path(place, name)), nil, 0)
      }
    }
    if dies {
      log.append("a worker died")
      fuse.with { $0 = nil }
      worker.held = []
      worker.spool = try open()
    }
  }

  // MARK: Workers

  private func claim(_ worker: Worker, _ name: String) {
    let claiming = try? worker.spool.tryClaim(name, isHeld: true)
    log.append("claim \(name): \(claiming.map { "\($0)".prefix(12) } ?? "error")")
    if case .claimed(let claim) = claiming {
      worker.held.append(.init(claim: claim, ending: nil, isTold: claim.sidecar != nil))
    }
  }

  private func tell(_ worker: Worker) {
    guard let i = worker.held.indices.randomElement(using: &random),
      worker.held[i].ending == nil
    else { return }
    let claim = worker.held[i].claim
    log.append("tell \(claim.name)")
    worker.held[i].isTold = true
    let word = claim.ending(.active, to: .active).sidecar
    _ = try? worker.spool.say(word, of: claim, durable: Bool.random(using: &random))
  }

  private func finish(_ worker: Worker) {
    var batch: [(Int, Ending)] = []
    for i in worker.held.indices where Bool.random(using: &random) {
      let (claim, isTold) = (worker.held[i].claim, worker.held[i].isTold)
      var ending = worker.held[i].ending
      if ending == nil {
        let place: Place = pick([.done, .done, .failed, .pending])
        let last = claim.ending(Sidecar.State(rawValue: place.rawValue)!, to: place)
        ending = Ending(claim, last.sidecar, to: place, isFirstWord: !isTold)
        if place == .done { lives[claim.facts.inode]?.mayBeDone = true }
        worker.held[i].ending = ending
      }
      if let ending { batch.append((i, ending)) }
    }
    let results = worker.spool.commit(
      batch.map(\.1), wholeFilesystem: Bool.random(using: &random))
    for ((i, ending), result) in zip(batch, results).reversed() {
      log.append("finish \(ending.claim.name) to \(ending.place): \(result)")
      if case .failed = result { continue }
      if result == .committed { committed += 1 }
      worker.held.remove(at: i)
    }
  }

  private func recover(_ spool: Spool) throws {
    for name in try spool.jobs(in: .active) {
      let isHeld = workers.contains { $0.held.contains { $0.claim.name == name } }
      _ = try spool.recovered(name.description, isHeld: isHeld)
    }
    for name in try yard.spool.calls.names(in: yard.spool.progress.raw)
    where JobName.isJob(name) {
      _ = try spool.orphan(name)
    }
  }

  // MARK: The person and the producers

  private func drop(_ name: String) throws {
    guard yard.folder.facts(path(.pending, name)) == nil else { return }
    dropped += 1
    let text = #"{"to": "https://files.example.com/\#(dropped)/", "files": ["/data/a.jpg"]}"#
    yard.folder.write("spool/pending/.drop.tmp", text)
    guard let facts = yard.folder.facts("spool/pending/.drop.tmp") else { throw fail("no drop") }
    lives[facts.inode] = Life(text: Array(text.utf8), id: jobID(facts, bytes: Array(text.utf8)))
    log.append("drop \(name) as \(facts.inode)")
    yard.folder.move("spool/pending/.drop.tmp", to: path(.pending, name))
  }

  /// As `mv -n` does.
  private func move(_ name: String, from: Place, to: Place) {
    let directory = yard.spool.directory(from)
    guard let facts = yard.folder.facts(path(from, name)) else { return }
    do throws(Errno) {
      try Calls.live.move(Name(name), from: directory, to: yard.spool.directory(to))
      log.append("mv \(from)/\(name) \(to)")
      if to == .done { lives[facts.inode]?.mayBeDone = true }
    } catch {}
  }

  private func remove(_ name: String, _ place: Place) {
    guard let facts = yard.folder.facts(path(place, name)) else { return }
    log.append("rm \(place)/\(name), \(facts.inode)")
    yard.folder.remove(path(place, name))
    lives[facts.inode] = nil
  }

  // MARK: What must hold

  private func verify() throws {
    var seen: [UInt64: String] = [:]
    for place in Place.allCases {
      for name in try Calls.live.names(in: yard.spool.directory(place)) {
        let path = "\(place)/\(name)"
        guard let facts = yard.folder.facts("spool/" + path) else { continue }
        guard let life = lives[facts.inode] else { throw fail("\(path) is nobody's job") }
        if let other = seen.updateValue(path, forKey: facts.inode) {
          throw fail("\(path) is \(other), too")
        }
        if yard.folder.read("spool/" + path) != life.text { throw fail("\(path) was written to") }
        if place == .done && !life.mayBeDone { throw fail("\(path) was never sent") }
        if place == .active, !life.mayBeDone, let word = yard.word(name.description),
          word.state == .done, word.id == life.id
        {
          throw fail("\(path) was never sent and its sidecar says done")
        }
      }
    }
    for inode in lives.keys where seen[inode] == nil { throw fail("job \(inode) is lost") }
  }
}
