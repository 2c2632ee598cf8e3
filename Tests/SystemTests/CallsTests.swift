internal import Glibc
internal import System
internal import TestKit
internal import Testing

@Suite struct CallsTests {
  private let folder = Folder(in: unsafe access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp")
  private let calls = Calls.live

  @Test func `ten thousand names of any bytes are listed, each once`() throws {
    folder.makeDirectory("d")
    let directory = try calls.openDirectory(Name(folder.at("d")))
    var all: Set<Name> = []
    for byte in UInt8(1)...255 where byte != UInt8(ascii: "/") {
      all.insert(Name(bytes: [UInt8(ascii: "x"), byte]))
      if byte != UInt8(ascii: ".") { all.insert(Name(bytes: [byte])) }
      all.insert(Name(bytes: [UInt8](repeating: byte == 0x2e ? 0x2d : byte, count: 255)))
    }
    while all.count < 10_000 { all.insert(Name("name-\(all.count)")) }
    for name in all { _ = try calls.open(name, in: directory.raw, O_WRONLY | O_CREAT | O_EXCL) }
    let listed = try calls.names(in: directory.raw)
    #expect(listed.count == all.count && Set(listed) == all)
    // Stopped by its reader.
    var batches = 0
    try calls.list(directory.raw) { _ in
      batches += 1
      return false
    }
    #expect(batches == 1)
    for name in listed { try calls.unlink(name, in: directory.raw) }
    #expect(try calls.names(in: directory.raw) == [])
  }

  @Test func `names are compared as bytes`() {
    #expect(Name("é") != Name("e\u{301}"))
    #expect(Name(bytes: [0x7f]) < Name(bytes: [0x80]) && Name("a") < Name("aa"))
    #expect(Name(bytes: [0xff, 0x41]).description == "\u{fffd}A")
    #expect(Name(bytes: [0xff]).count == 1 && Array(Name(bytes: [0xff]).bytes) == [0xff])
  }

  @Test func `a move overwrites nothing, with and without the kernel's help`() throws {
    for calls in [Calls.live, Calls { $0 == .rename ? EINVAL : nil }] {
      folder.write("a", "a")
      folder.write("b", "b")
      let root = try calls.openDirectory(Name(folder.path))
      let (a, b, c) = (Name("a"), Name("b"), Name("c"))
      #expect(throws: Errno.exists) { try calls.move(a, from: root.raw, to: root.raw, as: b) }
      #expect(folder.text("a") == "a" && folder.text("b") == "b")
      try calls.move(a, from: root.raw, to: root.raw, as: c)
      #expect(folder.names() == ["b", "c"] && folder.text("c") == "a")
      #expect(throws: Errno.missing) { try calls.move(a, from: root.raw, to: root.raw, as: b) }
      folder.remove("c")
    }
  }

  @Test func `a link whose source somebody took meanwhile is taken back`() throws {
    folder.write("a", "a")
    let path = folder.path
    let taking = Calls { call in
      if call == .unlink { unsafe rename(path + "/a", path + "/taken") }
      return call == .rename ? EINVAL : nil
    }
    let root = try calls.openDirectory(Name(path))
    #expect(throws: Errno.missing) {
      try taking.move(Name("a"), from: root.raw, to: root.raw, as: Name("b"))
    }
    #expect(folder.names() == ["taken"])
  }

  @Test(arguments: [nil, EINVAL])
  func `without the kernel's help the new name is durable before the old one goes`(
    _ code: Int32?
  ) throws {
    folder.write("a", "a")
    let order = Locked<[Call]>([])
    let calls = Calls { call in
      order.with { $0.append(call) }
      // Some filesystems have no fsync for directories.
      return call == .rename ? EINVAL : call == .fsync ? code : nil
    }
    let root = try Calls.live.openDirectory(Name(folder.path))
    try calls.move(Name("a"), from: root.raw, to: root.raw, as: Name("b"))
    #expect(order.with { $0 } == [.rename, .link, .fsync, .unlink])
    #expect(folder.names() == ["b"])
  }

  @Test(arguments: [Call.fsync, .unlink])
  func `a move that fails half-way without the kernel's help is taken back`(_ failing: Call) throws
  {
    folder.write("a", "a")
    let left = Locked(1)
    let calls = Calls { call in
      if call == .rename { return EINVAL }
      return call == failing
        && left.with { n in
          n -= 1
          return n >= 0
        } ? EIO : nil
    }
    let root = try Calls.live.openDirectory(Name(folder.path))
    #expect(throws: Errno(EIO)) {
      try calls.move(Name("a"), from: root.raw, to: root.raw, as: Name("b"))
    }
    #expect(folder.names() == ["a"] && folder.text("a") == "a")
  }

  @Test func `EINTR is repeated, other errors are thrown`() throws {
    let left = Locked(3)
    let interrupted = Calls { _ in
      left.with { n in
        n -= 1
        return n >= 0 ? EINTR : nil
      }
    }
    folder.write("a", "abc")
    let file = try interrupted.open(Name(folder.at("a")), O_RDONLY)
    #expect(try interrupted.read(file.raw, upTo: 10) == Array("abc".utf8))
    for call in Call.allCases {
      let failing = Calls { $0 == call ? EDQUOT : nil }
      if call == .open {
        #expect(throws: Errno.overQuota) { _ = try failing.open(Name("/"), O_RDONLY) }
      }
    }
  }

  @Test func `nothing is opened outside of a root`() throws {
    folder.makeDirectory("root/sub")
    folder.makeDirectory("other")
    folder.write("root/sub/in", "in")
    folder.write("other/out", "out")
    for (link, target) in [
      ("up", "../other/out"), ("abs", folder.at("other/out")), ("dir", "../other"),
      ("self", "sub/in"), ("proc", "/proc/self/cwd"), ("loop", "loop"),
    ] {
      #expect(unsafe symlink(target, folder.at("root/\(link)")) == 0)
    }
    let root = try calls.openDirectory(Name(folder.at("root")))
    func error(_ path: String) -> Errno? {
      do throws(Errno) {
        _ = try calls.openBeneath(Name(path), in: root.raw, O_RDONLY)
        return nil
      } catch {
        return error
      }
    }
    for path in ["sub/in", "self", "./sub//in", "sub/../sub/in", ".", "sub"] {
      #expect(error(path) == nil, "\(path)")
    }
    for path in [
      "../other/out", "..", "sub/../../other/out", folder.at("root/sub/in"), "up", "abs", "dir/out",
      "proc/etc/passwd", "/etc/passwd",
    ] {
      #expect(error(path) == .otherFilesystem || error(path) == .symlink, "\(path)")
    }
    #expect(error("loop") == .symlink && error("sub/none") == .missing && error("") == .missing)
    #expect(error("sub/in/x") == .notADirectory)
  }

  @Test func `locks exclude each other and end with their descriptor`() throws {
    folder.write("a", "")
    let first = try calls.open(Name(folder.at("a")), O_RDONLY)
    #expect(try calls.tryLock(first.raw) && calls.tryLock(first.raw))
    let second = try calls.open(Name(folder.at("a")), O_RDONLY)
    #expect(try !calls.tryLock(second.raw))
    // The lock goes along with the file.
    #expect(folder.move("a", to: "b"))
    let third = try calls.open(Name(folder.at("b")), O_RDONLY)
    #expect(try !calls.tryLock(third.raw))
    try first.close()
    var isFree = false
    for _ in 0..<1_000 where !isFree {
      isFree = try calls.tryLock(second.raw)
      if !isFree { usleep(1_000) }
    }
    #expect(isFree)
  }

  @Test func `facts tell files apart and times to the nanosecond`() throws {
    folder.write("a", "12345", modified: 1_234_567_890_123_456_789)
    let facts = try calls.facts(of: Name(folder.at("a")))
    #expect(facts.size == 5 && facts.modified == 1_234_567_890_123_456_789 && facts.isRegular)
    #expect(facts.changed > facts.modified && facts.links == 1)
    folder.write("a", "54321", modified: 1_234_567_890_123_456_789)
    let again = try calls.facts(of: Name(folder.at("a")))
    #expect(again.isSameFile(as: facts) && again.isUnchanged(since: facts))
    folder.write("a", "5432", modified: 1_234_567_890_123_456_789)
    #expect(try !calls.facts(of: Name(folder.at("a"))).isUnchanged(since: facts))
    folder.write("b", "")
    #expect(try !calls.facts(of: Name(folder.at("b"))).isSameFile(as: facts))
    let root = try calls.openDirectory(Name(folder.path))
    #expect(try calls.factsIfThere(of: Name("c"), in: root.raw) == nil)
    #expect(unsafe symlink("a", folder.at("l")) == 0)
    #expect(try calls.facts(of: Name(folder.at("l"))).kind == "a symbolic link")
    #expect(try calls.target(of: Name(folder.at("l"))).isRegular)
    #expect(try calls.facts(of: root.raw).isDirectory)
    // Before 1970.
    folder.write("b", "", modified: 0)
    unsafe utimensat(
      AT_FDCWD, folder.at("b"),
      [timespec(tv_sec: -5, tv_nsec: 1), timespec(tv_sec: -5, tv_nsec: 1)],
      0)
    #expect(try calls.facts(of: Name(folder.at("b"))).modified == -5 * second + 1)
  }

  @Test func `reading ends at the file's end or the limit`() throws {
    folder.write("a", "12345")
    let file = try calls.open(Name(folder.at("a")), O_RDWR)
    #expect(try calls.read(file.raw, upTo: 3) == Array("123".utf8))
    #expect(try calls.read(file.raw, upTo: 0) == [])
    #expect(try calls.read(file.raw, upTo: 100) == Array("12345".utf8))
    try calls.truncate(file.raw, to: 2)
    #expect(try calls.read(file.raw, upTo: 5) == Array("12".utf8))
    try calls.write(file.raw, [])
    let directory = try calls.openDirectory(Name("/"))
    #expect(throws: Errno.isDirectory) { try calls.read(directory.raw, upTo: 5) }
  }

  @Test func `a writer is noticed, a reader is none`() throws {
    signal(SIGIO, SIG_IGN)
    folder.write("a", "x")
    let reader = try calls.open(Name(folder.at("a")), O_RDONLY)
    guard calls.hasNoWriter(reader.raw) != nil else { return }
    var isQuiet = false
    for _ in 0..<1_000 where !isQuiet {
      isQuiet = calls.hasNoWriter(reader.raw) == true
      if !isQuiet { usleep(1_000) }
    }
    #expect(isQuiet)
    let writer = try calls.open(Name(folder.at("a")), O_WRONLY)
    #expect(calls.hasNoWriter(reader.raw) == false)
    withExtendedLifetime(writer) {}
  }

  @Test func `room and type of a filesystem`() throws {
    let root = try calls.openDirectory(Name(folder.path))
    let space = try calls.space(root.raw)
    #expect(space.freeBytes > 0 && space.freeBytes <= space.totalBytes)
    let type = try calls.filesystemType(root.raw)
    #expect(type.isLocal && (type == .tmpfs) == folder.path.hasPrefix("/dev/shm"))
    let proc = try calls.openDirectory(Name("/proc"))
    #expect(try !calls.filesystemType(proc.raw).isLocal)
    #expect(!FilesystemType(0x6573_5546).isLocal && FilesystemType(0x6969).name == "NFS")
    #expect(FilesystemType(0x1234).name == "0x1234")
  }

  @Test func `errors have the C library's words`() {
    #expect(Errno.missing.description == "No such file or directory")
    #expect(Errno(99_999).description == "error 99999")
    #expect(Errno.noSpace.isFull && Errno.overQuota.isFull && !Errno.readOnly.isFull)
  }
}
