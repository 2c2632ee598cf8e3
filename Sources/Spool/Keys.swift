internal import Glibc
internal import Jobs
package import System

/// Who does the work of a `dedupe` key: workers/key-HASH names the job.
///
/// Its flock guards the decision alone and is held for no longer than that, so that a dead worker
/// blocks nobody. It is only a hint where to look: the job's directory says whether it waits or runs,
/// its sidecar whether it is done. Empty or unreadable counts as nobody.
package struct KeyHolder: Equatable, Sendable {
  /// The job's id.
  package var id: String
  /// Its file's name when it took the key.
  package var name: Name
  /// When it was done (nanoseconds since 1970); nil: not known to be.
  package var doneAt: Int64?
  package init(id: String, name: Name, doneAt: Int64? = nil) {
    (self.id, self.name, self.doneAt) = (id, name, doneAt)
  }
}

/// What has become of the job that holds a key.
package enum KeyState: Equatable, Sendable {
  /// It waits, runs, or is paused.
  case undecided(Place)
  /// Done, at a time in nanoseconds since 1970.
  case done(Int64)
  /// Failed, cancelled, renamed or unknown: the key is free.
  case over
}

extension Spool {
  private func keyName(_ key: String) -> Name {
    Name("key-" + Digest.of(Array(key.utf8), .sha256).prefix(16).hex)
  }

  /// Reads and changes who holds a key, with its file locked; nil when another worker is just
  /// deciding. `decide` gets the holder and gives the new one (nil: no change).
  package func withKey<R>(
    _ key: String, _ decide: (KeyHolder?) throws(Errno) -> (R, KeyHolder?)
  ) throws(Errno) -> R? {
    let name = keyName(key)
    for _ in 0..<10 {
      let file = try calls.open(name, in: workers.raw, O_RDWR | O_CREAT | O_NOFOLLOW)
      guard try calls.tryLock(file.raw) else { return nil }
      // Removed between the two calls: begin anew.
      let mine = try calls.facts(of: file.raw)
      guard let there = try calls.factsIfThere(of: name, in: workers.raw),
        there.isSameFile(as: mine)
      else { continue }
      let (result, new) = try decide(holder(try calls.read(file.raw, upTo: 4096)))
      if let new {
        try calls.truncate(file.raw, to: 0)
        try write(new, file.raw)
      }
      return result
    }
    return nil
  }

  private func holder(_ bytes: [UInt8]) -> KeyHolder? {
    let lines = bytes.split(separator: 0x0a, omittingEmptySubsequences: false)
    guard lines.count == 4, !lines[0].isEmpty, JobName.isJob(Name(bytes: Array(lines[2]))) else {
      return nil
    }
    return KeyHolder(
      id: String(decoding: lines[0], as: UTF8.self), name: Name(bytes: Array(lines[2])),
      doneAt: Int64(String(decoding: lines[1], as: UTF8.self)))
  }

  private func write(_ holder: KeyHolder, _ fd: Int32) throws(Errno) {
    let done = holder.doneAt.map { String($0) } ?? "-"
    try calls.write(fd, Array("\(holder.id)\n\(done)\n".utf8) + holder.name.bytes + [0x0a])
  }

  /// What has become of a key's holder: by the directories, then by the sidecar that its job has, or
  /// had before it stepped aside.
  package func state(of holder: KeyHolder) throws(Errno) -> KeyState {
    var name = holder.name
    var n = 0
    while n <= 1000 {
      var isUsed = false
      for place in [Place.active, .pending, .paused, .done, .failed, .active] {
        guard let facts = try calls.factsIfThere(of: name, in: directory(place)) else { continue }
        isUsed = true
        guard try id(of: name, in: place) == holder.id else { continue }
        switch place {
        case .active, .pending, .paused: return .undecided(place)
        case .failed: return .over
        // When it came there; its sidecar has whole seconds only.
        case .done: return .done(holder.doneAt ?? facts.changed)
        }
      }
      if let sidecar = try sidecar(name) {
        isUsed = true
        if sidecar.id == holder.id, sidecar.state == .done {
          return .done(holder.doneAt ?? sidecar.finishedAt ?? sidecar.updatedAt)
        }
      }
      // `NAME~1` and so on have no gaps as long as nobody prunes; the first two are looked at anyway.
      if !isUsed && n >= 2 { break }
      n += 1
      name = JobName.stepAside(holder.name, n)
    }
    return holder.doneAt.map { .done($0) } ?? .over
  }

  /// Removes the files of keys whose work is over and that nobody has touched since `before`.
  package func removeOldKeys(before: Int64) throws(Errno) {
    for name in try calls.names(in: workers.raw) where name.bytes.starts(with: "key-".utf8) {
      guard let facts = try calls.factsIfThere(of: name, in: workers.raw), facts.isRegular,
        facts.modified < before
      else { continue }
      let file: Descriptor
      do throws(Errno) {
        file = try calls.open(name, in: workers.raw, O_RDONLY | O_NOFOLLOW)
      } catch {
        continue
      }
      guard try calls.tryLock(file.raw),
        let there = try calls.factsIfThere(of: name, in: workers.raw),
        there.isSameFile(as: try calls.facts(of: file.raw))
      else { continue }
      if let holder = holder(try calls.read(file.raw, upTo: 4096)),
        case .undecided = try state(of: holder)
      {
        continue
      }
      try calls.unlink(name, in: workers.raw)
    }
  }
}
