internal import Glibc
internal import Jobs
internal import Spool
internal import System
internal import TestKit
internal import Testing

/// A person moves the very file that a worker is handling, before each of its system calls in turn: the
/// file is never lost, whatever the worker makes of it.
@Suite struct InterferenceTests {
  enum Step: String, CaseIterable { case claim, recover, conclude, waiting, commit }

  /// Lets `person` act before the n-th call; how many calls there were.
  private func run(
    _ step: Step, _ yard: Yard, before n: Int, _ person: @escaping @Sendable () -> Void
  ) throws -> Int {
    // Opening the spool is not what is tried here.
    let count = Locked(Int.min)
    let calls = Calls { _ in
      let at = count.with { count in
        count += 1
        return count
      }
      if at == n { person() }
      return nil
    }
    let spool = try Spool(yard.path, durability: .full, calls: calls)
    let facts =
      yard.folder.facts("spool/pending/a.json") ?? yard.folder.facts("spool/active/a.json")
    let name = Name("a.json")
    count.with { $0 = 0 }
    do {
      switch step {
      case .claim:
        _ = try spool.claim(
          name, now: now, decide: { _, _, _ in true },
          start: { _, known, id, _ in
            known ?? Sidecar(state: .active, job: "a", id: id, queuedAt: now, updatedAt: now)
          })
      case .recover:
        _ = try spool.recover(name, now: now, boot: boot, limit: 5) { Int64($0) * second }
      case .conclude:
        _ = try spool.conclude(name, judged: try #require(facts), in: .failed) { id in
          Sidecar(state: .failed, job: "a", id: id, queuedAt: now, updatedAt: now)
        }
      case .waiting:
        _ = try spool.tellWaiting(name, try #require(facts)) { id in
          Sidecar(state: .pending, job: "a", id: id, queuedAt: now, updatedAt: now)
        }
      case .commit:
        guard
          case .claimed(let claim) = try Spool(yard.path).claim(
            name, now: now, decide: { _, _, _ in true },
            start: { _, _, id, _ in
              Sidecar(state: .active, job: "a", id: id, queuedAt: now, updatedAt: now)
            })
        else { return 0 }
        let word = Sidecar(state: .done, job: "a", id: claim.id, queuedAt: now, updatedAt: now)
        _ = spool.commit(
          [Ending(claim, word, to: .done, isFirstWord: true)], wholeFilesystem: false)
      }
    } catch {
      // What a worker can't do now it tries again.
    }
    return count.with { $0 }
  }

  @Test(arguments: Step.allCases, [Place.pending, .paused, .failed, .done])
  func aFileThatIsMovedAwayMeanwhileIsNeverLost(_ step: Step, _ to: Place) throws {
    for hasOlder in [false, true] {
      for isLinked in [false, true] {
        var n = 0
        var total = 1
        while n <= total + 12 {
          n += 1
          let yard = try Yard()
          let from: Place = step == .recover ? .active : .pending
          let job = try yard.put("a.json", in: from)
          if hasOlder { try yard.tell("a.json", .done, id: "1-2") }
          // A producer's own second name, as `ln` or a hard-linking drop leaves it for a moment.
          if isLinked {
            #expect(
              unsafe link(
                yard.folder.at("spool/\(from)/a.json"), yard.folder.at("spool/elsewhere")) == 0)
          }
          let path = yard.folder
          let done = Locked(false)
          let made = try run(step, yard, before: n) {
            done.with { $0 = true }
            for place in [from, .active] where place != to {
              let source = path.at("spool/\(place)/a.json")
              guard unsafe access(source, F_OK) == 0 else { continue }
              let target = path.at("spool/\(to)/a.json")
              // As mv -n does.
              if unsafe access(target, F_OK) != 0 { unsafe rename(source, target) }
              return
            }
          }
          total = max(total, made)
          if !done.with({ $0 }) { break }
          let places = Place.allCases.flatMap { place in
            yard.folder.names("spool/\(place)").filter {
              yard.folder.facts("spool/\(place)/\($0)")?.inode == job.inode
            }.map { "\(place)/\($0)" }
          }
          #expect(
            places.count >= 1,
            "\(step) → \(to) before call \(n), older: \(hasOlder), linked: \(isLinked)")
        }
      }
    }
  }
}
