internal import CLinux
internal import Glibc

/// What statx(2) knows of a file. Times are nanoseconds since 1970, sizes bytes.
package struct Facts: Sendable, Equatable {
  package var device: UInt64
  package var inode: UInt64
  package var size: Int64
  package var modified: Int64
  package var changed: Int64
  /// Nil where the filesystem keeps no birth times.
  package var born: Int64?
  package var mode: UInt32
  package var links: UInt32
  package var owner: UInt32
  package var group: UInt32

  package init(
    inode: UInt64, size: Int64, modified: Int64, changed: Int64, born: Int64?, mode: UInt32,
    links: UInt32
  ) {
    (device, owner, group) = (1, 0, 0)
    (self.inode, self.size, self.modified, self.changed) = (inode, size, modified, changed)
    (self.born, self.mode, self.links) = (born, mode, links)
  }
  init(_ f: clinux_facts) {
    device = f.device
    inode = f.inode
    size = Int64(clamping: f.size)
    modified = f.mtime_ns
    changed = f.ctime_ns
    born = f.birth_ns < 0 ? nil : f.birth_ns
    mode = f.mode
    links = f.links
    owner = f.uid
    group = f.gid
  }

  package var isRegular: Bool { mode & S_IFMT == S_IFREG }
  package var isDirectory: Bool { mode & S_IFMT == S_IFDIR }
  package var permissions: UInt32 { mode & 0o7777 }

  /// "a symbolic link", "a directory" and so on.
  package var kind: String {
    switch mode & S_IFMT {
    case S_IFREG: "a regular file"
    case S_IFDIR: "a directory"
    case S_IFLNK: "a symbolic link"
    case S_IFIFO: "a named pipe"
    case S_IFSOCK: "a socket"
    case S_IFBLK, S_IFCHR: "a device"
    default: "no regular file"
    }
  }

  /// The same file, though it may bear another name by now.
  package func isSameFile(as other: Facts) -> Bool {
    inode == other.inode && device == other.device && born == other.born
  }
  /// The same file, not written since.
  package func isUnchanged(since other: Facts) -> Bool {
    isSameFile(as: other) && size == other.size && modified == other.modified
  }
}

/// A descriptor that closes itself.
package struct Descriptor: ~Copyable, Sendable {
  package let raw: Int32
  package init(owning raw: Int32) { self.raw = raw }
  deinit {
    if raw >= SimulatedKernel.firstDescriptor {
      SimulatedKernel.close(raw)
    } else {
      _ = Glibc.close(raw)
    }
  }
  /// Closes it and tells of a failure; never to be repeated, not on EINTR either.
  package consuming func close() throws(Errno) {
    let fd = raw
    discard self
    if fd >= SimulatedKernel.firstDescriptor { return SimulatedKernel.close(fd) }
    if Glibc.close(fd) < 0 {
      let code = errno
      if code != EINTR { throw Errno(code) }
    }
  }
}

/// Room on a filesystem for an ordinary user; `totalInodes` is 0 where there is no such limit.
package struct Space: Sendable, Equatable {
  package var freeBytes: Int64
  package var totalBytes: Int64
  package var freeInodes: Int64
  package var totalInodes: Int64
  package init(freeBytes: Int64, totalBytes: Int64, freeInodes: Int64, totalInodes: Int64) {
    self.freeBytes = freeBytes
    self.totalBytes = totalBytes
    self.freeInodes = freeInodes
    self.totalInodes = totalInodes
  }
}

/// A filesystem's kind by its magic number (statfs(2)).
package struct FilesystemType: Sendable, Equatable {
  package let magic: Int64
  package init(_ magic: Int64) { self.magic = magic }

  package static let overlay = FilesystemType(0x794c_7630)
  package static let tmpfs = FilesystemType(0x0102_1994)

  private static let local: [Int64: String] = [
    0xef53: "ext4", 0x5846_5342: "xfs", 0x9123_683e: "btrfs", 0x0102_1994: "tmpfs",
    0x794c_7630: "overlay", 0xf2f5_2010: "f2fs", 0x2fc1_2fc1: "zfs", 0xca45_1a4e: "bcachefs",
    0x8584_58f6: "ramfs", 0x3153_464a: "jfs", 0x5265_4973: "reiserfs",
  ]
  private static let remote: [Int64: String] = [
    0x6573_5546: "FUSE", 0x6969: "NFS", 0xff53_4d42: "SMB", 0xfe53_4d42: "SMB2", 0x517b: "SMB",
    0x00c3_6400: "CephFS", 0x0102_1997: "9p", 0x0bd0_0bd0: "Lustre", 0x4750_4653: "GPFS",
    0x7461_636f: "OCFS2", 0x0116_1970: "GFS2", 0x6a65_6a63: "virtiofs",
  ]
  /// A lock there ends only with its holder; false on network, FUSE and unknown filesystems.
  package var isLocal: Bool { Self.local[magic] != nil }
  package var name: String {
    Self.local[magic] ?? Self.remote[magic] ?? "0x" + String(magic, radix: 16)
  }
}
