internal import Glibc
package import Jobs
package import System

/// The end of a job's time in active/: what to say last, and where to.
package final class Ending: Sendable {
  package let claim: Claim
  /// The sidecar's last word.
  package let sidecar: Sidecar
  package let place: Place
  /// Nothing was written for this job yet.
  package let isFirstWord: Bool
  private let bytes: [UInt8]

  package init(_ claim: Claim, _ sidecar: Sidecar, to place: Place, isFirstWord: Bool) {
    (self.claim, self.sidecar, self.place) = (claim, sidecar, place)
    self.isFirstWord = isFirstWord
    bytes = sidecar.encoded()
  }
  fileprivate var encoded: [UInt8] { bytes }
}

/// How an ending went.
package enum Ended: Sendable, Equatable {
  case committed
  /// active/NAME is no longer the job's file: a person moved or removed it meanwhile.
  case moved
  /// Not now: the disk is full, or worse. Nothing is lost; try again.
  case failed(Errno)
}

extension Spool {
  /// Commits many endings at once: all sidecars, one sync, all renames, one sync for each directory.
  ///
  /// The rename is the commit. In `full` durability a job counts as committed when its sidecar and
  /// its name can't be lost in a power cut. Blocks for as long as the disk takes: never on the loop.
  /// - `wholeFilesystem`: one `syncfs` for all sidecars instead of one fsync each.
  package func commit(_ endings: [Ending], wholeFilesystem: Bool) -> [Ended] {
    var results = [Ended](repeating: .committed, count: endings.count)
    for (i, ending) in endings.enumerated() {
      do throws(Errno) {
        try writeLastWord(ending, sync: durability == .full && !wholeFilesystem)
      } catch {
        results[i] = .failed(error)
      }
    }
    if durability == .full {
      do throws(Errno) {
        if wholeFilesystem {
          try calls.syncFilesystem(progress.raw)
        } else {
          try calls.sync(progress.raw)
        }
      } catch {
        return results.map { $0 == .committed ? .failed(error) : $0 }
      }
    }
    var touched: Set<Place> = []
    for (i, ending) in endings.enumerated() where results[i] == .committed {
      do throws(Errno) {
        results[i] = try move(ending)
        touched.insert(ending.place)
      } catch {
        results[i] = .failed(error)
      }
    }
    if !touched.isEmpty {
      do throws(Errno) {
        for place in touched { try syncDirectory(directory(place)) }
        try syncDirectory(active.raw)
      } catch {
        // The renames are done and can't be taken back; only a power cut could undo them, and
        // then the job is in active/ with its last word: recovery repeats the rename.
        return results
      }
    }
    return results
  }

  private func writeLastWord(_ ending: Ending, sync: Bool) throws(Errno) {
    let name = ending.claim.name
    if ending.isFirstWord, try createSidecar(ending.encoded, as: name) {
      if sync {
        let file = try calls.open(name, in: progress.raw, O_RDONLY | O_NOFOLLOW)
        try calls.sync(file.raw)
      }
      return
    }
    // A sidecar that appeared meanwhile speaks for another file of this name, or is a left-over.
    guard let there = try calls.factsIfThere(of: name, in: active.raw),
      there.isSameFile(as: ending.claim.facts)
    else { return }
    if ending.isFirstWord { try giveWay(name, to: ending.claim.id) }
    try publish(ending.encoded, as: name, durable: sync)
  }

  /// The last rename. Older namesakes step aside; a taken name in pending/ makes it `NAME~N`.
  private func move(_ ending: Ending) throws(Errno) -> Ended {
    let (claim, place) = (ending.claim, ending.place)
    // RENAME_NOREPLACE judges the target, not the source: that it is our file is for us to see.
    var tries = 0
    while true {
      guard let there = try calls.factsIfThere(of: claim.name, in: active.raw),
        there.isSameFile(as: claim.facts)
      else { return .moved }
      do throws(Errno) {
        try calls.move(claim.name, from: active.raw, to: directory(place))
        return .committed
      } catch {
        switch error {
        case .missing:
          try checkDirectory(place)
          return .moved
        case .exists:
          tries += 1
          if tries > 100 { throw error }
          if let target = try calls.factsIfThere(of: claim.name, in: directory(place)),
            target.isSameFile(as: claim.facts)
          {
            // A half-done move where rename has no NOREPLACE, or a second name that a person gave.
            if try dropName(claim.name, in: .active, keeping: place) { return .committed }
            continue
          }
          if place == .pending {
            try moveBack(claim)
            return .committed
          }
          // Filled by hand, since a job that a worker knew has a sidecar and stepped aside before
          // the claim. Held by somebody: wait for it.
          guard try stepAside(claim.name, in: place) else { throw .wouldBlock }
        default: throw error
        }
      }
    }
  }

  /// Back to pending/ though the name is taken there: as `NAME~N`.
  func moveBack(_ claim: Claim) throws(Errno) {
    // Asked afresh: an interrupted try may have given it a second name.
    let facts = try calls.facts(of: claim.file.raw)
    try moveAside(claim.name, of: facts, id: claim.id, from: .active, to: .pending)
  }
}

/// A pending job that ends without having run.
extension Spool {
  /// Moves pending/NAME, if it is still the judged file, to failed/ or done/ with its last word in the
  /// sidecar. False when it changed or is held.
  package func conclude(
    _ name: Name, judged: Facts, in place: Place, sidecar make: (String) -> Sidecar
  ) throws(Errno) -> Bool {
    guard let file = try lockPending(name, judged: judged) else { return false }
    let id = try id(of: file.raw, try calls.facts(of: file.raw))
    guard try makeRoom(for: name) else { return false }
    try publish(make(id), as: name, durable: true)
    do throws(Errno) {
      try calls.move(name, from: pending.raw, to: directory(place))
    } catch {
      guard error == .missing else { throw error }
      try checkDirectory(place)
      return false
    }
    try syncDirectory(directory(place))
    return true
  }
}
