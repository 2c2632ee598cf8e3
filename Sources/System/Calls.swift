internal import CLinux
package import Glibc

/// The raw calls that tests can make fail.
package enum Call: String, CaseIterable, Sendable {
  case open, statx, flock, lease, read, write, fsync, syncfs, rename, link, unlink, mkdir, getdents
  /// A rename that replaces what bears the target's name.
  case replace
  case space, truncate
}

/// The table that every raw filesystem call goes through.
///
/// `fault` is asked before each call: nil lets the call happen, a number makes it fail with that
/// errno; EINTR is repeated like the kernel's own, so that it is asked again. A test may also use it
/// to look at the disk, or to end the process, before the n-th call.
/// It is a value that is handed down, not a global, so that tests can run beside each other.
package struct Calls: Sendable {
  package static let live = Calls(fault: nil)

  private let fault: (@Sendable (Call) -> Int32?)?
  /// Nil: the machine's own.
  package let kernel: (any Kernel)?
  package init(fault: (@Sendable (Call) -> Int32?)?) { (self.fault, kernel) = (fault, nil) }
  /// All calls go to a simulated kernel.
  package init(kernel: any Kernel) { (fault, self.kernel) = (nil, kernel) }

  /// Runs a call of a simulated kernel, which returns -errno; repeats it on EINTR.
  private func simulated(_ body: () -> Int) throws(Errno) -> Int {
    while true {
      let result = body()
      if result >= 0 { return result }
      if result != -Int(EINTR) { throw Errno(Int32(-result)) }
    }
  }

  /// Runs a call that returns -1 and sets errno; repeats it on EINTR.
  @inline(__always)
  private func posix<T: SignedInteger>(_ call: Call, _ body: () -> T) throws(Errno) -> T {
    while true {
      if let fault, let code = fault(call) {
        if code == EINTR { continue }
        throw Errno(code)
      }
      let result = body()
      if result >= 0 { return result }
      let code = errno
      if code != EINTR { throw Errno(code) }
    }
  }

  /// Runs a CLinux call, which returns -errno; repeats it on EINTR.
  @inline(__always)
  private func linux<T: SignedInteger>(_ call: Call, _ body: () -> T) throws(Errno) -> T {
    while true {
      if let fault, let code = fault(call) {
        if code == EINTR { continue }
        throw Errno(code)
      }
      let result = body()
      if result >= 0 { return result }
      if result != -T(EINTR) { throw Errno(Int32(-result)) }
    }
  }
}

/// Opening, reading and writing.
extension Calls {
  /// Corresponds to `openat`; O_CLOEXEC is always set.
  package func open(
    _ name: Name, in directory: Int32 = AT_FDCWD, _ flags: Int32, mode: mode_t = 0o644
  ) throws(Errno) -> Descriptor {
    if let kernel {
      let fd = try simulated { kernel.open(name, in: directory, flags) }
      return Descriptor(owning: Int32(fd))
    }
    return Descriptor(
      owning: try posix(.open) {
        unsafe openat(directory, name.cString, flags | O_CLOEXEC, mode)
      })
  }
  /// Opens a directory to work below it.
  package func openDirectory(_ name: Name, in directory: Int32 = AT_FDCWD) throws(Errno)
    -> Descriptor
  {
    try open(name, in: directory, O_RDONLY | O_DIRECTORY)
  }
  /// Opens what lies below `root`: no `..`, no symbolic link and no magic link leads out of it
  /// (openat2(2), RESOLVE_BENEATH). EXDEV when the path would leave it.
  package func openBeneath(_ name: Name, in root: Int32, _ flags: Int32) throws(Errno)
    -> Descriptor
  {
    if kernel != nil { return try open(name, in: root, flags) }
    return Descriptor(
      owning: try linux(.open) {
        unsafe clinux_openat2(
          root, name.cString, UInt64(UInt32(bitPattern: flags | O_CLOEXEC)),
          UInt64(CLINUX_BENEATH | CLINUX_NO_MAGICLINKS))
      })
  }
  package func facts(of fd: Int32) throws(Errno) -> Facts {
    try facts(fd, Name(""), CLINUX_EMPTY_PATH)
  }
  /// Of the name itself: a symbolic link is not followed.
  package func facts(of name: Name, in directory: Int32 = AT_FDCWD) throws(Errno) -> Facts {
    try facts(directory, name, CLINUX_NOFOLLOW)
  }
  /// What a path leads to, links followed, without opening it.
  package func target(of name: Name) throws(Errno) -> Facts { try facts(AT_FDCWD, name, 0) }
  /// Nil when there is no such name.
  package func factsIfThere(of name: Name, in directory: Int32) throws(Errno) -> Facts? {
    do throws(Errno) {
      return try facts(of: name, in: directory)
    } catch {
      if error == .missing { return nil }
      throw error
    }
  }
  private func facts(_ fd: Int32, _ name: Name, _ flags: Int) throws(Errno) -> Facts {
    if let kernel {
      var facts: Facts?
      _ = try simulated { kernel.facts(fd, name, &facts) }
      if let facts { return facts }
      throw .missing
    }
    var f = clinux_facts()
    _ = try linux(.statx) { unsafe clinux_statx(fd, name.cString, Int32(flags), &f) }
    return Facts(f)
  }
  /// Up to `limit` bytes from the start; fewer only at the file's end.
  package func read(_ fd: Int32, upTo limit: Int) throws(Errno) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: limit)
    var count = 0
    while count < limit {
      let piece = unsafe bytes.withUnsafeMutableBytes { buffer in
        Result { () throws(Errno) in
          unsafe try read(
            fd, UnsafeMutableRawBufferPointer(rebasing: buffer[count...]), at: Int64(count))
        }
      }
      let got = try piece.get()
      if got == 0 { break }
      count += got
    }
    bytes.removeLast(limit - count)
    return bytes
  }
  package func write(_ fd: Int32, _ bytes: [UInt8]) throws(Errno) {
    var done = 0
    while done < bytes.count {
      if let kernel {
        done += try simulated { kernel.write(fd, bytes[done...], at: nil) }
        continue
      }
      done += try posix(.write) {
        unsafe bytes.withUnsafeBytes { buffer in
          unsafe Glibc.write(fd, buffer.baseAddress! + done, buffer.count - done)
        }
      }
    }
  }
  package func write(_ fd: Int32, _ buffer: UnsafeRawBufferPointer, at offset: Int64) throws(Errno)
    -> Int
  {
    if let kernel {
      return try simulated { unsafe kernel.write(fd, Array(buffer)[...], at: offset) }
    }
    return try posix(.write) {
      unsafe pwrite(fd, buffer.baseAddress, buffer.count, off_t(offset))
    }
  }
  package func read(_ fd: Int32, _ buffer: UnsafeMutableRawBufferPointer, at offset: Int64)
    throws(Errno) -> Int
  {
    if let kernel { return try simulated { unsafe kernel.read(fd, buffer, at: offset) } }
    return try posix(.read) {
      unsafe pread(fd, buffer.baseAddress, buffer.count, off_t(offset))
    }
  }
  /// Corresponds to `ftruncate`.
  package func truncate(_ fd: Int32, to size: Int64) throws(Errno) {
    if let kernel {
      _ = try simulated { kernel.truncate(fd, to: size) }
      return
    }
    _ = try posix(.truncate) { ftruncate(fd, off_t(size)) }
  }
  /// Corresponds to `fsync`; of a directory it makes its names durable.
  package func sync(_ fd: Int32) throws(Errno) {
    if let kernel {
      _ = try simulated { kernel.sync(fd) }
      return
    }
    _ = try posix(.fsync) { fsync(fd) }
  }
  /// Corresponds to `syncfs`: everything on the filesystem of `fd`.
  package func syncFilesystem(_ fd: Int32) throws(Errno) {
    if let kernel {
      _ = try simulated { kernel.syncAll() }
      return
    }
    _ = try linux(.syncfs) { clinux_syncfs(fd) }
  }
}

/// Names.
extension Calls {
  /// Moves without ever overwriting: EEXIST when the target is there (RENAME_NOREPLACE). Where the
  /// filesystem refuses the flag it links and then unlinks, so that for a moment both names are
  /// there, never none.
  package func move(_ name: Name, from: Int32, to: Int32, as other: Name? = nil) throws(Errno) {
    let target = other ?? name
    do throws(Errno) {
      if let kernel {
        _ = try simulated { kernel.rename(name, from, target, to, replacing: false) }
        return
      }
      _ = try linux(.rename) {
        unsafe clinux_renameat2(
          from, name.cString, to, target.cString, UInt32(CLINUX_NOREPLACE))
      }
    } catch {
      guard error == .invalid || error.code == ENOSYS else { throw error }
      try link(name, from, target, to)
      do throws(Errno) {
        // No power cut may keep the second of the two and lose the first.
        do throws(Errno) {
          try sync(to)
        } catch {
          // Some filesystems have no fsync for directories, and say so (fsync(2)).
          if error != .invalid { throw error }
        }
        try unlink(name, in: from)
      } catch {
        // Taken back, so that no file has two names for long. Somebody moved or removed it after the
        // link: then this move never was, either.
        if error == .missing || isSame(name, from, target, to) { try? unlink(target, in: to) }
        throw error
      }
    }
  }
  private func isSame(_ name: Name, _ from: Int32, _ target: Name, _ to: Int32) -> Bool {
    guard let one = try? facts(of: name, in: from), let other = try? facts(of: target, in: to)
    else {
      return false
    }
    return one.isSameFile(as: other)
  }
  private func link(_ name: Name, _ from: Int32, _ target: Name, _ to: Int32) throws(Errno) {
    if let kernel {
      _ = try simulated { kernel.link(name, from, target, to) }
      return
    }
    _ = try posix(.link) { unsafe linkat(from, name.cString, to, target.cString, 0) }
  }
  /// Corresponds to `renameat`: what bears the target's name is replaced.
  package func replace(_ name: Name, in directory: Int32, as target: Name) throws(Errno) {
    if let kernel {
      _ = try simulated { kernel.rename(name, directory, target, directory, replacing: true) }
      return
    }
    _ = try posix(.replace) {
      unsafe renameat(directory, name.cString, directory, target.cString)
    }
  }
  package func unlink(_ name: Name, in directory: Int32) throws(Errno) {
    if let kernel {
      _ = try simulated { kernel.unlink(name, in: directory) }
      return
    }
    _ = try posix(.unlink) { unsafe unlinkat(directory, name.cString, 0) }
  }
  /// False when it was there already.
  @discardableResult
  package func makeDirectory(_ name: Name, in directory: Int32 = AT_FDCWD, mode: mode_t = 0o755)
    throws(Errno) -> Bool
  {
    do throws(Errno) {
      if let kernel {
        _ = try simulated { kernel.makeDirectory(name, in: directory) }
        return true
      }
      _ = try posix(.mkdir) { unsafe mkdirat(directory, name.cString, mode) }
      return true
    } catch {
      if error == .exists { return false }
      throw error
    }
  }
  /// Streams a directory's names, `.` and `..` left out, in the order that the filesystem gives.
  /// `next` is called for each batch (up to 32 KiB of entries) and returns false to stop.
  package func list(_ directory: Int32, _ next: ([Name]) -> Bool) throws(Errno) {
    let listing = try Listing(open(Name("."), in: directory, O_RDONLY | O_DIRECTORY))
    while let batch = try listing.next(self) {
      if !next(batch) { return }
    }
  }
  /// All names of a directory.
  package func names(in directory: Int32) throws(Errno) -> [Name] {
    var all: [Name] = []
    try list(directory) {
      all += $0
      return true
    }
    return all
  }
  package func directoryEntries(_ fd: Int32, _ buffer: UnsafeMutableRawBufferPointer) throws(Errno)
    -> Int
  {
    Int(
      try linux(.getdents) {
        unsafe clinux_getdents(fd, buffer.baseAddress, UInt64(buffer.count))
      })
  }
}

/// Locks, leases and the filesystem itself.
extension Calls {
  func entries(_ kernel: any Kernel, _ fd: Int32) throws(Errno) -> [(UInt64, Name)] {
    var all: [(UInt64, Name)] = []
    _ = try simulated { kernel.entries(fd, &all) }
    return all
  }
  /// False when somebody else holds it (flock(2), exclusive, without waiting).
  package func tryLock(_ fd: Int32) throws(Errno) -> Bool {
    do throws(Errno) {
      if let kernel {
        _ = try simulated { kernel.lock(fd) }
        return true
      }
      _ = try posix(.flock) { flock(fd, LOCK_EX | LOCK_NB) }
      return true
    } catch {
      if error == .wouldBlock { return false }
      throw error
    }
  }
  /// True when nobody on this machine has the file open for writing, false when somebody has, nil
  /// where that can't be asked (another owner's file, most network filesystems); F_SETLEASE, fcntl(2).
  package func hasNoWriter(_ fd: Int32) -> Bool? {
    if let kernel { return kernel.hasNoWriter(fd) }
    do throws(Errno) {
      _ = try linux(.lease) { clinux_no_writer(fd) }
      return true
    } catch {
      return error == .wouldBlock ? false : nil
    }
  }
  package func filesystemType(_ fd: Int32) throws(Errno) -> FilesystemType {
    if kernel != nil { return .tmpfs }
    var code: Int32 = 0
    let number = unsafe clinux_filesystem_type(fd, &code)
    if code < 0 { throw Errno(-code) }
    return FilesystemType(number)
  }
  /// Sets mtime to now by the filesystem's own clock; corresponds to `futimens`.
  package func touch(_ fd: Int32) {
    if let kernel { kernel.touch(fd) } else { _ = futimens(fd, nil) }
  }
  package func space(_ fd: Int32) throws(Errno) -> Space {
    if let kernel { return kernel.space() }
    var s = clinux_space()
    _ = try linux(.space) { unsafe clinux_space(fd, &s) }
    return Space(
      freeBytes: Int64(clamping: s.free_bytes), totalBytes: Int64(clamping: s.total_bytes),
      freeInodes: Int64(clamping: s.free_inodes), totalInodes: Int64(clamping: s.total_inodes))
  }
}
