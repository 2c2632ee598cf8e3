/// A directory being read, batch by batch.
package final class Listing {
  private let directory: Descriptor
  private lazy var buffer = [UInt8](repeating: 0, count: 32 << 10)
  /// By a simulated kernel, which gives all at once.
  private var isRead = false

  package init(_ directory: consuming Descriptor) { self.directory = directory }

  /// The next names; nil at the end.
  package func next(_ calls: Calls) throws(Errno) -> [Name]? {
    try batch(calls) { _, name in name }
  }
  /// The same with the directory's own inode numbers: on some filesystems (overlay) those are not
  /// the ones that statx(2) gives, but they tell two files of one name apart.
  package func entries(_ calls: Calls) throws(Errno) -> [(inode: UInt64, name: Name)]? {
    try batch(calls) { inode, name in (inode, name) }
  }

  @inline(__always)
  private func batch<T>(_ calls: Calls, _ make: (UInt64, Name) -> T) throws(Errno) -> [T]? {
    let fd = directory.raw
    if let kernel = calls.kernel {
      if isRead { return nil }
      isRead = true
      return try calls.entries(kernel, fd).map(make)
    }
    var failure: Errno?
    let names: [T]? = unsafe buffer.withUnsafeMutableBytes { buffer in
      let count: Int
      do throws(Errno) {
        count = unsafe try calls.directoryEntries(fd, buffer)
      } catch {
        failure = error
        return nil
      }
      if count == 0 { return nil }
      // linux_dirent64: inode 8, offset 8, length 2, type 1, name (getdents64(2)).
      var names: [T] = []
      var at = 0
      while at < count {
        let length = unsafe Int(buffer.loadUnaligned(fromByteOffset: at + 16, as: UInt16.self))
        let start = unsafe (buffer.baseAddress! + at + 19).assumingMemoryBound(to: CChar.self)
        let name = unsafe Name(cString: start)
        if name.cString != [46, 0] && name.cString != [46, 46, 0] {
          let inode = unsafe buffer.loadUnaligned(fromByteOffset: at, as: UInt64.self)
          names.append(make(inode, name))
        }
        at += length
      }
      return names
    }
    if let failure { throw failure }
    return names
  }
}
