internal import Glibc
internal import Loop
internal import Spool
internal import System

/// One process of the simulated machine, as its kernel sees it: 0 is the people and producers.
final class Process: Kernel, @unchecked Sendable {
  let world: World
  let number: Int
  private(set) var isDead = false
  /// Calls until it dies; nil: it lives on.
  var fuse: Int?
  var watches: [(directory: Inode, mask: UInt32, tell: @Sendable (UInt32, Name?) -> Void)] = []

  init(_ world: World, _ number: Int) { (self.world, self.number) = (world, number) }

  var uuid: String { "00000000-0000-4000-8000-0000" + String(10_000_000 + number) }
  var isPerson: Bool { number == 0 }

  func die() {
    if isDead { return }
    isDead = true
    watches = []
    world.processDied(number)
  }

  /// Its end in good order.
  func exit() {
    if isDead { return }
    isDead = true
    watches = []
    world.processEnded(number)
  }

  /// What happens before a call: perhaps the end of this process, somebody else's doing, or a fault.
  private func enter(_ call: Call, _ inode: Inode? = nil) -> Int {
    if isPerson { return 0 }
    if isDead { return -Int(EREMOTEIO) }
    if let left = fuse {
      fuse = left - 1
      if left == 0 {
        die()
        return -Int(EREMOTEIO)
      }
    }
    world.meanwhile(self)
    if isDead { return -Int(EREMOTEIO) }
    // A source's faults are its job's trouble: those are the server's to throw.
    if let inode, world.sources.contains(where: { $0 === inode }) { return 0 }
    return -Int(world.fault(call))
  }

  private func directory(_ fd: Int32) -> Inode? {
    fd == AT_FDCWD ? world.disk.root : world.files[fd]?.inode
  }

  private func find(_ name: Name, in fd: Int32) -> Inode? {
    guard var here = directory(fd) else { return nil }
    if name.cString.contains(47) {
      for part in name.bytes.split(separator: 47) {
        guard let next = here.entries[Name(bytes: Array(part))] else { return nil }
        here = next
      }
      return here
    }
    return name.cString == [46, 0] ? here : here.entries[name]
  }

  func open(_ name: Name, in directory: Int32, _ flags: Int32) -> Int {
    let trouble = enter(.open, name.cString.count > 4 ? find(name, in: directory) : nil)
    if trouble < 0 { return trouble }
    var inode = find(name, in: directory)
    if inode != nil, flags & O_EXCL != 0 { return -Int(EEXIST) }
    if inode == nil {
      guard flags & O_CREAT != 0, let parent = self.directory(directory) else {
        return -Int(ENOENT)
      }
      if world.disk.isFull && !isPerson { return -Int(ENOSPC) }
      let new = world.disk.make(isDirectory: false)
      world.change([(parent, name, new)], by: self)
      world.tell(parent, UInt32(IN_CREATE), name)
      inode = new
    }
    guard let inode else { return -Int(ENOENT) }
    return Int(world.open(inode, process: number, writes: flags & (O_WRONLY | O_RDWR) != 0, name))
  }

  func facts(_ fd: Int32, _ name: Name, _ facts: inout Facts?) -> Int {
    let trouble = enter(.statx, world.files[fd]?.inode)
    if trouble < 0 { return trouble }
    guard let inode = name.count == 0 ? directory(fd) : find(name, in: fd) else {
      return -Int(ENOENT)
    }
    facts = world.facts(inode)
    return 0
  }

  func read(_ fd: Int32, _ buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> Int {
    let trouble = enter(.read, world.files[fd]?.inode)
    if trouble < 0 { return trouble }
    guard let file = world.files[fd] else { return -Int(EBADF) }
    let rest = file.inode.content.dropFirst(Int(offset)).prefix(buffer.count)
    unsafe buffer.copyBytes(from: rest)
    return rest.count
  }

  func write(_ fd: Int32, _ bytes: ArraySlice<UInt8>, at offset: Int64?) -> Int {
    let trouble = enter(.write)
    if trouble < 0 { return trouble }
    guard let file = world.files[fd], file.writes else { return -Int(EBADF) }
    if world.disk.isFull && !isPerson { return -Int(ENOSPC) }
    let inode = file.inode
    if inode.life != nil && !isPerson { world.broken("a worker wrote to a job's file") }
    // Sometimes less than was asked for.
    let bytes = bytes.count > 1 && world.chance(50) ? bytes.prefix(bytes.count / 2) : bytes
    let at = Int(offset ?? file.offset)
    if inode.content.count < at + bytes.count {
      inode.content += [UInt8](repeating: 0, count: at + bytes.count - inode.content.count)
    }
    inode.content.replaceSubrange(at..<(at + bytes.count), with: bytes)
    (inode.modified, inode.changed) = (world.disk.now, world.disk.now)
    if offset == nil { world.files[fd]?.offset += Int64(bytes.count) }
    return bytes.count
  }

  func truncate(_ fd: Int32, to size: Int64) -> Int {
    let trouble = enter(.truncate)
    if trouble < 0 { return trouble }
    guard let file = world.files[fd], file.writes else { return -Int(EBADF) }
    let inode = file.inode
    if inode.life != nil && !isPerson { world.broken("a worker truncated a job's file") }
    inode.content = Array(inode.content.prefix(Int(size)))
    (inode.modified, inode.changed) = (world.disk.now, world.disk.now)
    return 0
  }

  func sync(_ fd: Int32) -> Int {
    let trouble = enter(.fsync)
    if trouble < 0 { return trouble }
    guard let file = world.files[fd] else { return -Int(EBADF) }
    if !world.isSabotaged(.withoutSync) || isPerson { world.disk.sync(file.inode) }
    return 0
  }

  func syncAll() -> Int {
    let trouble = enter(.syncfs)
    if trouble < 0 { return trouble }
    if !world.isSabotaged(.withoutSync) { world.disk.syncAll() }
    return 0
  }

  func rename(_ name: Name, _ from: Int32, _ other: Name, _ to: Int32, replacing: Bool) -> Int {
    let trouble = enter(replacing ? .replace : .rename)
    if trouble < 0 { return trouble }
    guard let source = directory(from), let target = directory(to) else { return -Int(EBADF) }
    if !replacing && !world.disk.hasNoReplace && !isPerson { return -Int(EINVAL) }
    guard let inode = source.entries[name] else { return -Int(ENOENT) }
    let old = target.entries[other]
    if old === inode { return replacing ? 0 : -Int(EEXIST) }
    if old != nil && !replacing && !world.isSabotaged(.overwriting) { return -Int(EEXIST) }
    if world.disk.isFull && !isPerson && world.chance(2) {
      world.moveFailed()
      return -Int(ENOSPC)
    }
    world.change([(source, name, nil), (target, other, inode)], by: self)
    world.tell(source, UInt32(IN_MOVED_FROM), name)
    world.tell(target, UInt32(IN_MOVED_TO), other)
    return 0
  }

  func link(_ name: Name, _ from: Int32, _ other: Name, _ to: Int32) -> Int {
    let trouble = enter(.link)
    if trouble < 0 { return trouble }
    guard let source = directory(from), let target = directory(to) else { return -Int(EBADF) }
    guard let inode = source.entries[name] else { return -Int(ENOENT) }
    if target.entries[other] != nil { return -Int(EEXIST) }
    if world.disk.isFull && !isPerson {
      world.moveFailed()
      return -Int(ENOSPC)
    }
    world.change([(target, other, inode)], by: self)
    world.tell(target, UInt32(IN_CREATE), other)
    return 0
  }

  func unlink(_ name: Name, in directory: Int32) -> Int {
    let trouble = enter(.unlink)
    if trouble < 0 { return trouble }
    guard let parent = self.directory(directory) else { return -Int(EBADF) }
    guard parent.entries[name] != nil else { return -Int(ENOENT) }
    world.change([(parent, name, nil)], by: self)
    world.tell(parent, UInt32(IN_DELETE), name)
    return 0
  }

  func makeDirectory(_ name: Name, in directory: Int32) -> Int {
    guard let parent = self.directory(directory) else { return -Int(EBADF) }
    if parent.entries[name] != nil { return -Int(EEXIST) }
    world.change([(parent, name, world.disk.make(isDirectory: true))], by: self)
    return 0
  }

  func entries(_ fd: Int32, _ entries: inout [(UInt64, Name)]) -> Int {
    let trouble = enter(.getdents)
    if trouble < 0 { return trouble }
    guard let inode = directory(fd) else { return -Int(EBADF) }
    entries = inode.entries.map { ($0.value.number, $0.key) }
    return 0
  }

  func lock(_ fd: Int32) -> Int {
    let trouble = enter(.flock)
    if trouble < 0 { return trouble }
    guard let file = world.files[fd] else { return -Int(EBADF) }
    if let holder = file.inode.lock, holder != fd, !world.isSabotaged(.withoutLocks) {
      return -Int(EWOULDBLOCK)
    }
    file.inode.lock = fd
    return 0
  }

  func hasNoWriter(_ fd: Int32) -> Bool? {
    if enter(.lease) < 0 { return nil }
    guard let file = world.files[fd] else { return nil }
    return file.inode.writers == 0
  }

  func space() -> Space {
    let free: Int64 = world.disk.isFull ? 0 : 1 << 40
    return Space(freeBytes: free, totalBytes: 1 << 41, freeInodes: 1 << 20, totalInodes: 1 << 21)
  }

  func touch(_ fd: Int32) {
    if isDead { return }
    if let inode = world.files[fd]?.inode { inode.modified = world.disk.now }
  }

  func watch(
    _ path: String, _ mask: UInt32, _ tell: @escaping @Sendable (UInt32, Name?) -> Void
  ) -> Bool {
    guard let inode = find(Name(path), in: AT_FDCWD), !world.hasNoEvents else { return false }
    watches.append((inode, mask, tell))
    return true
  }
}
