internal import Glibc
internal import Loop
internal import System

/// Gives curl a part of a source, byte for byte and never more than was announced.
///
/// A local file is read straight into curl's buffer as long as it lies in the page cache; else, and
/// for other filesystems always, a thread of our own reads a piece while the transfer is paused.
/// Of other filesystems the next piece is read while one is being sent.
@OnLoop final class Feed {
  enum Step {
    case bytes(Int)
    /// Nothing yet; `wake` will be called.
    case wait
    case failed
  }
  let count: Int64
  private let source: Source
  private let from: Int64
  private let wake: @OnLoop () -> Void
  /// The next byte, counted from `from`.
  private var position: Int64 = 0
  /// Loaded and not yet wholly given, in order; at most two.
  private var pieces: [Piece] = []
  private var spare: Piece?
  /// A thread is reading for this generation; a seek begins a new one and forgets it.
  private var isLoading = false
  private var generation = 0
  private(set) var failure: TransferError?
  /// Since when curl waits for the source (monotonic nanoseconds).
  private(set) var waitingSince: Int64?

  nonisolated private static let pieceSize = 1 << 20
  nonisolated private static let readAhead: Int64 = 8 << 20

  init(_ source: Source, from: Int64, count: Int64, wake: @escaping @OnLoop () -> Void) {
    (self.source, self.from, self.count, self.wake) = (source, from, count, wake)
  }

  /// Back to a position, since curl sends again.
  func seek(_ offset: Int64) -> Bool {
    if offset < 0 || offset > count { return false }
    position = offset
    generation += 1
    (isLoading, pieces, waitingSince) = (false, [], nil)
    return true
  }

  func fill(_ buffer: UnsafeMutableRawPointer, _ room: Int) -> Step {
    if failure != nil { return .failed }
    let wanted = Int(min(Int64(room), count - position))
    if wanted == 0 { return .bytes(0) }
    if let piece = pieces.first {
      let offset = Int(from + position - piece.start)
      let n = min(wanted, piece.count - offset)
      unsafe buffer.copyMemory(from: piece.memory.baseAddress! + offset, byteCount: n)
      position += Int64(n)
      if offset + n == piece.count {
        spare = pieces.removeFirst()
        if !source.isLocal { load() }
      }
      return .bytes(n)
    }
    do throws(Errno) {
      let target = unsafe UnsafeMutableRawBufferPointer(start: buffer, count: wanted)
      if let got = unsafe try source.readCached(target, at: from + position) {
        if got == 0 { return fail(source.shorter(from + position)) }
        position += Int64(got)
        return .bytes(got)
      }
    } catch {
      return fail(.sourceUnreadable(error))
    }
    load()
    waitingSince = Clock.monotonic()
    return .wait
  }
  private func fail(_ error: TransferError) -> Step {
    failure = error
    return .failed
  }

  /// Starts to read what comes behind the loaded pieces, unless a thread does already.
  private func load() {
    let start = pieces.last?.end ?? from + position
    let size = Int(min(from + count - start, Int64(Self.pieceSize)))
    if isLoading || size <= 0 || pieces.count > 1 { return }
    isLoading = true
    let (piece, source, generation) = (spare ?? Piece(Self.pieceSize), source, generation)
    spare = nil
    Blocking.submit {
      let loaded = Result { () throws(Errno) in try piece.load(source, at: start, size) }
      Loop.shared.post { self.loaded(piece, loaded, size, generation) }
      // The transfer goes on meanwhile; what it reads next will be in the cache.
      if source.isLocal { source.readAhead(start + Int64(size), Self.readAhead) }
    }
  }
  private func loaded(
    _ piece: Piece, _ result: Result<Void, Errno>, _ size: Int, _ generation: Int
  ) {
    if generation != self.generation { return }
    isLoading = false
    switch result {
    case .failure(let errno): failure = .sourceUnreadable(errno)
    case .success where piece.count < size: failure = source.shorter(piece.end)
    case .success: pieces.append(piece)
    }
    if failure == nil && !source.isLocal { load() }
    if waitingSince != nil {
      waitingSince = nil
      wake()
    }
  }
}
