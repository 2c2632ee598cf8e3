internal import Glibc
package import System

/// A worker's sign of life: workers/UUID.lock, flocked for as long as the process lives.
package final class Presence: Sendable {
  private let lock: Descriptor
  private let spool: Spool

  /// Creates and locks this process's file, before it does anything else in the spool.
  package init(_ spool: Spool) throws(SpoolError) {
    self.spool = spool
    do throws(Errno) {
      lock = try Self.lock(Name(spool.uuid + ".lock"), spool)
    } catch {
      throw SpoolError(
        spool.path + "/workers", error, doing: "say that this worker lives",
        advice: "its user must be able to write there")
    }
  }

  /// Between creating the file and locking it another worker may take it for a dead one's and remove
  /// it: then this begins anew, until the name bears what is locked.
  private static func lock(_ name: Name, _ spool: Spool) throws(Errno) -> Descriptor {
    for _ in 0..<100 {
      let file = try spool.calls.open(name, in: spool.workers.raw, O_RDWR | O_CREAT | O_NOFOLLOW)
      if try spool.calls.tryLock(file.raw) {
        let mine = try spool.calls.facts(of: file.raw)
        let there = try spool.calls.factsIfThere(of: name, in: spool.workers.raw)
        if there?.isSameFile(as: mine) == true { return file }
      }
      if !Clock.isSimulated { usleep(1_000) }
    }
    throw .wouldBlock
  }

  /// Sets the heartbeat: the lock file's mtime, now by the filesystem's own clock.
  package func beat() { spool.calls.touch(lock.raw) }

  /// Writes workers/UUID.json or UUID.prom for people and programs; best effort.
  package func publish(_ text: [UInt8], suffix: String) {
    let temporary = spool.temporary()
    let target = Name(spool.uuid + suffix)
    do throws(Errno) {
      let file = try spool.calls.open(
        temporary, in: spool.workers.raw, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW)
      try spool.calls.write(file.raw, text)
      try spool.calls.replace(temporary, in: spool.workers.raw, as: target)
    } catch {
      spool.discard(temporary, in: spool.workers.raw)
    }
  }

  /// Removes what this worker leaves behind, its lock last; the lock stays where a temporary does, so
  /// that the next worker takes both for a dead one's.
  package func leave() {
    for suffix in spool.hasLeftovers ? [".json", ".prom"] : [".json", ".prom", ".lock"] {
      try? spool.calls.unlink(Name(spool.uuid + suffix), in: spool.workers.raw)
    }
  }
}

extension Spool {
  /// The other workers of this spool.
  package struct Others: Sendable, Equatable {
    package var alive: [String] = []
    package var dead: [String] = []
  }

  /// Who else is there, by who holds his lock.
  package func otherWorkers() throws(Errno) -> Others {
    var others = Others()
    for name in try calls.names(in: workers.raw) {
      guard let id = Self.uuid(of: name), id != uuid else { continue }
      do throws(Errno) {
        let file = try calls.open(name, in: workers.raw, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
        if try calls.tryLock(file.raw) { others.dead.append(id) } else { others.alive.append(id) }
      } catch {
        if error != .missing { others.alive.append(id) }
      }
    }
    return others
  }

  /// Removes the temporaries and files of dead workers; whoever gets the dead lock does it. Returns
  /// whose.
  package func removeDeadWorkers(now: Int64) throws(Errno) -> [String] {
    var removed: [String] = []
    for name in try calls.names(in: workers.raw) {
      try? removeStray(name, in: workers.raw, now: now)
      guard let id = Self.uuid(of: name), id != uuid else { continue }
      let lock: Descriptor
      do throws(Errno) {
        lock = try calls.open(name, in: workers.raw, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
      } catch {
        continue
      }
      guard (try? calls.tryLock(lock.raw)) == true,
        let there = try calls.factsIfThere(of: name, in: workers.raw),
        there.isSameFile(as: try calls.facts(of: lock.raw))
      else { continue }
      let directories = [
        pending.raw, active.raw, paused.raw, done.raw, failed.raw, progress.raw, workers.raw,
      ]
      let prefix = Array(".\(id).".utf8)
      var isClean = true
      for directory in directories {
        var strays: [Name] = []
        try calls.list(directory) { names in
          strays += names.filter { $0.bytes.starts(with: prefix) }
          return true
        }
        for stray in strays {
          do throws(Errno) {
            try calls.unlink(stray, in: directory)
          } catch {
            isClean = isClean && error == .missing
          }
        }
      }
      // Where something stays, so does the lock, for the next look.
      if !isClean { continue }
      for suffix in [".json", ".prom", ".lock"] {
        try? calls.unlink(Name(id + suffix), in: workers.raw)
      }
      removed.append(id)
    }
    return removed
  }

  /// `UUID` of `.UUID.anything`.
  package static func temporaryOwner(_ name: Name) -> String? {
    let bytes = Array(name.bytes)
    guard bytes.count > 38, bytes[0] == UInt8(ascii: "."), bytes[37] == UInt8(ascii: ".") else {
      return nil
    }
    let uuid = bytes[1..<37]
    let isUUID = uuid.enumerated().allSatisfy { index, byte in
      [8, 13, 18, 23].contains(index)
        ? byte == UInt8(ascii: "-") : 0x30...0x39 ~= byte || 0x61...0x66 ~= byte
    }
    return isUUID ? String(decoding: uuid, as: UTF8.self) : nil
  }

  /// How old (nanoseconds) a temporary is at least that nobody can be writing any more.
  package static let strayAge = 3600 * second

  /// Removes a temporary whose writer's lock is gone, too, as a power cut may leave it; called for each
  /// name in progress/ and workers/, where workers write.
  package func removeStray(_ name: Name, in directory: Int32, now: Int64) throws(Errno) {
    guard let owner = Self.temporaryOwner(name), owner != uuid,
      try calls.factsIfThere(of: Name(owner + ".lock"), in: workers.raw) == nil,
      let facts = try calls.factsIfThere(of: name, in: directory),
      max(facts.changed, facts.modified) < now - Self.strayAge
    else { return }
    try calls.unlink(name, in: directory)
  }

  /// `UUID` of `UUID.lock`.
  private static func uuid(of name: Name) -> String? {
    let suffix = Array(".lock".utf8)
    guard name.count == 36 + suffix.count, name.bytes.suffix(suffix.count).elementsEqual(suffix)
    else { return nil }
    return String(decoding: name.bytes.prefix(36), as: UTF8.self)
  }

  /// A worker's workers/UUID.json as it wrote it, and how old its heartbeat is (nanoseconds).
  package func report(of uuid: String, now: Int64) throws(Errno) -> (json: [UInt8], age: Int64)? {
    guard let lock = try calls.factsIfThere(of: Name(uuid + ".lock"), in: workers.raw),
      let json = try contents(Name(uuid + ".json"), in: workers.raw, limit: 1 << 20)
    else { return nil }
    return (json, max(0, now - lock.modified))
  }
}
