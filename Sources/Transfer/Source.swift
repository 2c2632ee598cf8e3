internal import CLinux
internal import Glibc
internal import Loop
package import System

/// An open file that is sent, and what it was when it was opened.
package final class Source: Sendable {
  /// At opening: size and times that must still be the same when it has been sent.
  package let facts: Facts
  /// On a local disk. Others (FUSE, NFS …) are read on threads of our own only, since any call
  /// may hang there.
  package let isLocal: Bool
  private let descriptor: Descriptor
  private let calls: Calls

  /// Takes over an open regular file; `facts` are of this very descriptor.
  package init(
    _ descriptor: consuming Descriptor, facts: Facts, isLocal: Bool, calls: Calls = .live
  ) {
    self.descriptor = descriptor
    self.facts = facts
    self.isLocal = isLocal
    self.calls = calls
  }

  /// A message digest of `count` bytes from the offset `from` on, made on threads of our own in
  /// pieces of 1 MiB. Cancelling the task ends it at once. `.sourceChanged` when the file is
  /// shorter or was written to, `.sourceUnreadable`, `.cancelled`.
  @OnLoop package func digest(
    _ kind: Digest.Kind, from: Int64 = 0, count: Int64? = nil, limit: Int64 = 300 * second
  ) async throws(TransferError) -> [UInt8] {
    let count = count ?? facts.size - from
    let hashing = Hashing(kind)
    var done: Int64 = 0
    while done < count {
      let (at, n) = (from + done, Int(min(count - done, Int64(Hashing.pieceSize))))
      let got = try await unhung(limit) { () -> Result<Int, Errno> in
        Result { () throws(Errno) in try hashing.add(self, at, n) }
      }
      switch got {
      case .success(n): done += Int64(n)
      case .success(let got): throw shorter(at + Int64(got))
      case .failure(let errno): throw .sourceUnreadable(errno)
      }
    }
    if let change = try await change(limit: limit) { throw change }
    return hashing.digest.finish()
  }

  /// What has happened to the file since it was opened; nil when it is as it was.
  @OnLoop package func change(limit: Int64) async throws(TransferError) -> TransferError? {
    isLocal ? look() : try await unhung(limit) { self.look() }
  }
  private func look() -> TransferError? {
    do throws(Errno) {
      let now = try calls.facts(of: descriptor.raw)
      if now.size != facts.size {
        return .sourceChanged(
          "the file changed while it was read: it had \(facts.size) bytes, now \(now.size)")
      }
      // The ctime can't be set: an editor that restores the mtime is found out, too.
      if now.modified != facts.modified || now.changed != facts.changed {
        return .sourceChanged("the file was written to while it was read")
      }
      return nil
    } catch {
      return .sourceUnreadable(error)
    }
  }
  package func shorter(_ size: Int64) -> TransferError {
    .sourceChanged("the file became shorter while it was read: \(facts.size) bytes, now \(size)")
  }

  /// Reads until `buffer` is full or the file ends; blocks.
  package func read(_ buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws(Errno) -> Int
  {
    var count = 0
    while count < buffer.count {
      let rest = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[count...])
      let got = unsafe try calls.read(descriptor.raw, rest, at: offset + Int64(count))
      if got == 0 { break }
      count += got
    }
    return count
  }
  /// What is in the page cache, at least one byte; 0 at the file's end, nil when it would block.
  /// Filesystems that can't be asked (tmpfs), have no disk to wait for either: a plain read.
  @OnLoop func readCached(_ buffer: UnsafeMutableRawBufferPointer, at offset: Int64)
    throws(Errno) -> Int?
  {
    if !isLocal { return nil }
    if !Self.unaskable.contains(facts.device) {
      let got = unsafe clinux_read_cached(
        descriptor.raw, buffer.baseAddress, UInt64(buffer.count), offset)
      if got >= 0 { return Int(got) }
      switch Int32(-got) {
      case EAGAIN, EINTR: return nil
      case EOPNOTSUPP, ENOSYS, EINVAL: Self.unaskable.insert(facts.device)
      default: throw Errno(Int32(-got))
      }
    }
    return unsafe try calls.read(descriptor.raw, buffer, at: offset)
  }
  /// Devices whose filesystem doesn't know RWF_NOWAIT (preadv2(2)).
  @OnLoop private static var unaskable: Set<UInt64> = []

  /// Tells the kernel what will be read next; may block for a moment.
  func readAhead(_ offset: Int64, _ count: Int64) {
    posix_fadvise(descriptor.raw, off_t(offset), off_t(count), POSIX_FADV_WILLNEED)
  }
}

/// A piece of memory that stays until the last user is gone, be it a thread that hangs in a read.
/// It is written by one thread at a time: whoever filled it hands it on by the loop.
@safe final class Piece: @unchecked Sendable {
  let memory: UnsafeMutableRawBufferPointer
  /// Where in the source its bytes come from, and how many are there.
  private(set) var start: Int64 = 0
  private(set) var count = 0
  var end: Int64 { start + Int64(count) }

  init(_ size: Int) { unsafe memory = .allocate(byteCount: size, alignment: 4096) }
  deinit { unsafe memory.deallocate() }

  /// Reads up to `size` bytes; fewer at the file's end. Blocks.
  func load(_ source: Source, at offset: Int64, _ size: Int) throws(Errno) {
    (start, count) = (offset, 0)
    count = unsafe try source.read(
      UnsafeMutableRawBufferPointer(rebasing: memory[..<min(size, memory.count)]), at: offset)
  }
  /// Reads only what is cached; false when not all of it is, or the file is shorter.
  @OnLoop func loadCached(_ source: Source, at offset: Int64, _ size: Int) throws(Errno) -> Bool {
    (start, count) = (offset, 0)
    while count < size {
      let got = unsafe try source.readCached(
        UnsafeMutableRawBufferPointer(rebasing: memory[count..<size]), at: end)
      guard let got, got > 0 else { return false }
      count += got
    }
    return true
  }
}

/// A digest in the making; used by one thread at a time.
private final class Hashing: @unchecked Sendable {
  static let pieceSize = 1 << 20
  let digest: Digest
  private let piece = Piece(pieceSize)
  init(_ kind: Digest.Kind) { digest = Digest(kind) }

  func add(_ source: Source, _ at: Int64, _ size: Int) throws(Errno) -> Int {
    try piece.load(source, at: at, size)
    unsafe digest.update(UnsafeRawBufferPointer(rebasing: piece.memory[..<piece.count]))
    return piece.count
  }
}

/// Runs `body` on a thread of our own and gives up waiting for it when the task is cancelled
/// (`.cancelled`) or the limit is over (`.sourceUnreadable`, ETIMEDOUT); the thread ends when it
/// can.
@OnLoop package func unhung<T: Sendable>(_ limit: Int64, _ body: @escaping @Sendable () -> T)
  async throws(TransferError) -> T
{
  let once = Once<Result<T, TransferError>>()
  let timer = Loop.shared.after(Clock.monotonic() + limit) {
    once.end(.failure(.sourceUnreadable(Errno(ETIMEDOUT))))
  }
  Blocking.submit {
    let value = body()
    Loop.shared.post { once.end(.success(value)) }
  }
  let result = await withTaskCancellationHandler {
    await once.value()
  } onCancel: {
    Loop.shared.onLoop { once.end(.failure(.cancelled)) }
  }
  Loop.shared.cancel(timer)
  return try result.get()
}
