internal import CLinux
internal import Destinations
internal import Glibc
internal import Loop
internal import System
internal import Transfer

/// Opens the files that jobs name, within the directories that they may read from, without ever
/// letting a hung disk hang the loop.
@OnLoop final class SourceOpener {
  /// Nil: everything that the worker may read.
  private let roots: [String]?
  private let calls: Calls
  /// Directories known to lie on a local filesystem, and until when that is believed (monotonic
  /// nanoseconds): opening below them can't hang.
  private var local: [String: Int64] = [:]
  private static let belief: Int64 = 10 * second

  init(roots: [String]?, calls: Calls) {
    (self.roots, self.calls) = (roots, calls)
  }

  /// An open regular file, or whose trouble it is that there is none.
  func open(_ path: String) async throws(SendError) -> Source {
    let root = try allowedRoot(path)
    let directory = path.utf8.lastIndex(of: UInt8(ascii: "/")).map { String(path[..<$0]) } ?? ""
    let now = Clock.monotonic()
    if let until = local[directory], now < until {
      // O_NOFOLLOW: a link could lead to a disk that hangs; then the slow way decides.
      switch Self.tryOpen(path, root, O_NOFOLLOW, calls) {
      case .success(let source): return try check(source, path)
      case .failure(let error) where error != .symlink: throw Self.trouble(error, path)
      case .failure: break
      }
    }
    let calls = self.calls
    let result: Result<Source, Errno>
    do throws(TransferError) {
      result = try await unhung(300 * second) { Self.tryOpen(path, root, 0, calls) }
    } catch {
      throw HTTPStatus.trouble(error)
    }
    switch result {
    case .failure(let error): throw Self.trouble(error, path)
    case .success(let source):
      if source.isLocal {
        if local.count > 1000 { local.removeAll() }
        local[directory] = Clock.monotonic() + Self.belief
      }
      return try check(source, path)
    }
  }

  /// Size and mtime of many files at once; nil for those that can't be had now, or may not be.
  func facts(_ paths: [String]) async -> [Facts?] {
    let calls = self.calls
    let roots = paths.map { path in Result { () throws(SendError) in try allowedRoot(path) } }
    do throws(TransferError) {
      return try await unhung(300 * second) {
        zip(paths, roots).map { path, root in
          guard case .success(let root) = root else { return nil }
          return Self.facts(path, root, calls)
        }
      }
    } catch {
      return paths.map { _ in nil }
    }
  }

  private nonisolated static func facts(_ path: String, _ root: String?, _ calls: Calls) -> Facts? {
    do throws(Errno) {
      guard let root, let rest = relativePath(path, below: root) else {
        return try calls.target(of: Name(path))
      }
      let top = try calls.openDirectory(Name(root))
      let file = try calls.openBeneath(rest, in: top.raw, Int32(CLINUX_PATH))
      return try calls.facts(of: file.raw)
    } catch {
      return nil
    }
  }

  private func allowedRoot(_ path: String) throws(SendError) -> String? {
    guard let roots else { return nil }
    if let root = roots.first(where: { relativePath(path, below: $0) != nil }) { return root }
    throw SendError(
      .jobForGood, "forbidden", "jobs may not read \(path)",
      advice: "name a directory that holds it with --root or in \"roots\" of the configuration")
  }

  private nonisolated static func tryOpen(
    _ path: String, _ root: String?, _ flags: Int32, _ calls: Calls
  ) -> Result<Source, Errno> {
    Result { () throws(Errno) in
      // O_NONBLOCK: opening a pipe without a writer returns.
      let flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | flags
      let file: Descriptor
      if let root, let rest = relativePath(path, below: root) {
        let top = try calls.openDirectory(Name(root))
        file = try calls.openBeneath(rest, in: top.raw, flags)
      } else {
        file = try calls.open(Name(path), flags)
      }
      let facts = try calls.facts(of: file.raw)
      let isLocal =
        flags & O_NOFOLLOW != 0 ? true : try calls.filesystemType(file.raw).isLocal
      return Source(file, facts: facts, isLocal: isLocal, calls: calls)
    }
  }

  private func check(_ source: Source, _ path: String) throws(SendError) -> Source {
    if source.facts.isRegular { return source }
    throw SendError(
      .jobForGood, "source", "\(path) is \(source.facts.kind), not a file",
      advice: source.facts.isDirectory
        ? "name its files one by one: directories are not sent" : "name a regular file")
  }

  private nonisolated static func trouble(_ error: Errno, _ path: String) -> SendError {
    switch error {
    case .missing, .notADirectory:
      SendError(
        .jobForGood, "missing", "\(path): there is no such file",
        advice: "put it there, or correct \"files\"; then move the job back to pending/")
    case .denied, .notPermitted:
      SendError(
        .jobForGood, "denied", "\(path): the worker (user \(geteuid())) may not read it",
        advice: "change its mode or owner, or that of a directory above it; then move the job back "
          + "to pending/")
    case .otherFilesystem, .symlink:
      SendError(
        .jobForGood, "forbidden", "\(path): a symbolic link leads out of the allowed directories",
        advice: "name the real place, or add it to \"roots\"")
    case .tooLong:
      SendError(
        .jobForGood, "missing", "\(path): the path is too long", advice: "correct \"files\"")
    case .isDirectory:
      SendError(
        .jobForGood, "source", "\(path) is a directory, not a file",
        advice: "name its files one by one: directories are not sent")
    default:
      SendError(
        .jobForNow, "source", "\(path): cannot open it: \(error)", advice: "it is tried again")
    }
  }
}
