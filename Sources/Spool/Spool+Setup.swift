internal import Glibc
package import System

/// Making a spool, and finding out whether this one can keep its promises.
extension Spool {
  /// The layout's number in spool/format.
  package static let format = 1
  private static let directories = [
    "pending", "active", "paused", "done", "failed", "progress", "workers",
  ]

  /// Creates what is missing of a spool, 0755.
  package static func create(_ path: String, calls: Calls = .live) throws(SpoolError) {
    do throws(Errno) {
      try makeParents(path, calls)
      let root = try calls.openDirectory(Name(path))
      for name in directories {
        if try calls.makeDirectory(Name(name), in: root.raw) {
          // Whatever the umask: progress/ and workers/ must be this user's alone to write.
          let made = try calls.openDirectory(Name(name), in: root.raw)
          if fchmod(made.raw, 0o755) < 0 { throw Errno(errno) }
        }
      }
      if try calls.factsIfThere(of: Name("format"), in: root.raw) == nil {
        do throws(Errno) {
          let file = try calls.open(
            Name("format"), in: root.raw, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW)
          try calls.write(file.raw, Array("\(format)\n".utf8))
        } catch {
          // Another worker was faster.
          if error != .exists { throw error }
        }
      }
    } catch {
      throw SpoolError(
        path, error, doing: "create the spool",
        advice: "name a directory that this user may write to with --spool DIR")
    }
  }

  private static func makeParents(_ path: String, _ calls: Calls) throws(Errno) {
    do throws(Errno) {
      try calls.makeDirectory(Name(path))
    } catch {
      guard error == .missing, let slash = path.lastIndex(of: "/"), slash != path.startIndex else {
        throw error
      }
      try makeParents(String(path[..<slash]), calls)
      try calls.makeDirectory(Name(path))
    }
  }

  /// Refuses a layout that is newer than this program; one line for a person.
  package func checkFormat() throws(SpoolError) {
    var bytes: [UInt8] = []
    do throws(Errno) {
      let file = try calls.open(Name("format"), in: root.raw, O_RDONLY | O_NONBLOCK)
      bytes = try calls.read(file.raw, upTo: 64)
    } catch {
      // What can't be read may be newer.
      if error != .missing { throw SpoolError(path + "/format", error, doing: "read the file") }
    }
    let text = String(decoding: bytes.prefix { $0 != 0x0a }, as: UTF8.self)
    if let number = Int(text), number <= Self.format { return }
    if text.isEmpty { return }
    throw SpoolError(
      "\(path)/format says \"\(text.prefix(20))\", and this version knows up to \(Self.format); "
        + "run a newer upspool")
  }

  /// What a start's self-test found; each is one line.
  package struct Findings: Sendable {
    package var warnings: [String] = []
  }

  /// Tries what the spool's promises rest on: one filesystem, writable, locks that follow the inode,
  /// renames that overwrite nothing; and that what it trusts is the worker's alone to write.
  ///
  /// - `singleHost`: the operator says that one machine alone uses it, where locks prove nothing.
  /// - `hasRoots`: the configuration limits what jobs may read.
  package func selfTest(singleHost: Bool, hasRoots: Bool) throws(SpoolError) -> Findings {
    var findings = Findings()
    try checkFormat()
    try checkOneFilesystem()
    try checkFilesystemType(singleHost: singleHost, &findings)
    try checkOwners(hasRoots: hasRoots, &findings)
    try probe()
    return findings
  }

  private func checkOneFilesystem() throws(SpoolError) {
    var split: String?
    do throws(Errno) {
      let home = try calls.facts(of: pending.raw)
      for name in ["active", "paused", "done", "failed", "progress", "workers"]
      where split == nil {
        if try calls.facts(of: fd(name)).device != home.device { split = name }
      }
    } catch {
      throw SpoolError(path, error, doing: "look at the spool")
    }
    if let split { throw splitError(split) }
  }

  private func splitError(_ name: String) -> SpoolError {
    SpoolError(
      "\(path)/pending and \(path)/\(name) are on different filesystems, so that a job can't move "
        + "between them in one step; put the whole spool on one")
  }

  private func checkFilesystemType(singleHost: Bool, _ findings: inout Findings)
    throws(SpoolError)
  {
    let type: FilesystemType
    do throws(Errno) {
      type = try calls.filesystemType(pending.raw)
    } catch {
      throw SpoolError(path, error, doing: "ask for the filesystem's type")
    }
    if !type.isLocal && !singleHost {
      throw SpoolError(
        "\(path) is on a filesystem of type \(type.name), where a lock can be lost while its holder "
          + "lives, so that two machines could run one job; use a local filesystem, or say "
          + "--single-host if this machine alone uses the spool")
    }
    if type == .overlay {
      findings.warnings.append(
        "\(path) lies on a container's own layer (overlay): it goes when the container goes; "
          + "mount a volume there")
    }
    if type == .tmpfs && durability == .full {
      findings.warnings.append("\(path) is in memory (tmpfs): a reboot empties it")
    }
  }

  private func checkOwners(hasRoots: Bool, _ findings: inout Findings) throws(SpoolError) {
    let me = geteuid()
    func facts(_ fd: Int32, _ name: String) throws(SpoolError) -> Facts {
      do throws(Errno) {
        return try calls.facts(of: fd)
      } catch {
        throw SpoolError("\(path)/\(name)", error, doing: "look at the directory")
      }
    }
    let top = try facts(root.raw, "")
    if top.permissions & 0o002 != 0 && top.permissions & 0o1000 == 0 {
      throw SpoolError(
        "\(path) may be written to by anybody, who could replace its directories; run: "
          + "chmod o-w \(path)")
    }
    for (name, fd) in [("progress", progress.raw), ("workers", workers.raw)] {
      let f = try facts(fd, name)
      guard f.owner == me || f.owner == 0, f.permissions & 0o022 == 0 else {
        throw SpoolError(
          "\(path)/\(name) belongs to user \(f.owner) with mode \(octal(f.permissions)), but must be "
            + "this worker's (user \(me)) alone to write, since it is believed; run: "
            + "chown \(me) \(path)/\(name) && chmod 755 \(path)/\(name)")
      }
    }
    // What lies in active/ without a worker is moved to pending/, as if it had been put there.
    for place in [Place.pending, .active] where !hasRoots {
      let drop = try facts(directory(place), place.rawValue)
      guard drop.permissions & 0o022 != 0 || drop.owner != me && drop.owner != 0 else { continue }
      throw SpoolError(
        "\(path)/\(place.rawValue) may be written to by other users (owner \(drop.owner), mode "
          + "\(octal(drop.permissions))), whose jobs could send any file that this worker can read; "
          + "name the directories that jobs may read from with --root DIR or \"roots\" in the "
          + "configuration")
    }
  }

  private func octal(_ mode: UInt32) -> String {
    let digits = String(mode, radix: 8)
    return String(repeating: "0", count: max(0, 4 - digits.count)) + digits
  }

  /// A file's way through all directories.
  private func probe() throws(SpoolError) {
    let name = Name(".\(uuid).probe")
    let other = Name(".\(uuid).probe2")
    var place = "pending"
    var at = pending.raw
    do throws(Errno) {
      let file = try calls.open(name, in: at, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW)
      try calls.write(file.raw, [UInt8(ascii: "\n")])
      if durability == .full { try calls.sync(file.raw) }
      let reader = try calls.open(name, in: at, O_RDONLY | O_NOFOLLOW)
      guard try calls.tryLock(reader.raw) else { throw .wouldBlock }
      let second = try calls.open(name, in: at, O_RDONLY | O_NOFOLLOW)
      guard try !calls.tryLock(second.raw) else { throw Errno(ENOLCK) }
      for next in ["active", "paused", "done", "failed", "progress"] {
        let to = fd(next)
        let from = at
        place = next
        try calls.move(name, from: from, to: to)
        at = to
      }
      let blocker = try calls.open(other, in: at, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW)
      try blocker.close()
      do throws(Errno) {
        try calls.move(name, from: at, to: at, as: other)
        throw Errno(EREMOTEIO)
      } catch {
        if error != .exists { throw error }
      }
      guard try !calls.tryLock(second.raw) else { throw Errno(ENOLCK) }
      try calls.unlink(other, in: at)
      try calls.unlink(name, in: at)
    } catch {
      for directory in ["pending", "active", "paused", "done", "failed", "progress"] {
        try? calls.unlink(name, in: fd(directory))
        try? calls.unlink(other, in: fd(directory))
      }
      switch error.code {
      case ENOLCK:
        throw SpoolError(
          "\(path): this filesystem's locks don't exclude anybody (flock), so that two workers could "
            + "run one job; put the spool on a local filesystem")
      case EREMOTEIO:
        throw SpoolError(
          "\(path): this filesystem's rename overwrites though it was told not to; put the spool on "
            + "a local filesystem")
      case EXDEV:
        throw splitError(place)
      case ENOSPC, EDQUOT:
        // A worker that starts on a full disk waits for room like one that runs.
        return
      default:
        throw SpoolError(
          "\(path)/\(place)", error, doing: "write to the directory",
          advice: "the worker's user (\(geteuid())) must be able to create and rename files there")
      }
    }
  }

  private func fd(_ name: String) -> Int32 {
    Place(rawValue: name).map { directory($0) } ?? (name == "workers" ? workers.raw : progress.raw)
  }
}
