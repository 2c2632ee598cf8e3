internal import Glibc
package import Jobs
internal import Loop
package import System
package import Transfer

/// A directory of this machine: each file is copied to a temporary beside its place, synced and
/// renamed into it, so that nobody ever sees half of it.
package struct FileDestination: Destination {
  package let key: String
  /// Absolute, without a slash at its end; it must be there.
  private let base: String
  /// A path below it that the job named, with a slash at its end unless it is a file's name.
  private let below: String
  private let takesNames: Bool
  /// Directories below which it must lie; nil: anywhere.
  private let writeRoots: [String]?
  private let throttle: Throttle?
  private let durable: Bool
  private let calls: Calls

  package init(
    key: String, base: String, below: String, takesNames: Bool, writeRoots: [String]?,
    throttle: Throttle? = nil, durable: Bool = true, calls: Calls = .live
  ) {
    (self.key, self.below, self.takesNames) = (key, below, takesNames)
    self.base = base.count > 1 && base.hasSuffix("/") ? String(base.dropLast()) : base
    (self.writeRoots, self.throttle) = (writeRoots, throttle)
    (self.durable, self.calls) = (durable, calls)
  }

  /// The path below `base`.
  private func relative(_ remoteName: String) -> String {
    takesNames ? below + remoteName : below
  }
  private func path(_ remoteName: String) -> String {
    (base == "/" ? "" : base) + "/" + relative(remoteName)
  }
  private static func url(_ path: String) -> String { "file://" + URL.encoded(path) }

  package func target(_ remoteName: String) -> Target {
    Target(url: Self.url(path(remoteName)))
  }

  /// Every byte but a slash may be in a file's name; the temporary's own name is short.
  private func temporaryName(_ ticket: String) -> Name { Name(".upspool-\(ticket).part") }

  package func leftover(_ remoteName: String, ticket: String, index: Int) -> Sidecar.Resume? {
    Sidecar.Resume(
      file: index, url: target(remoteName).url, size: 0, modifiedAt: 0, offset: 0,
      data: [.init(name: "part", value: temporaryName(ticket).description)])
  }

  private func resume(_ upload: Upload, _ offset: Int64) -> Sidecar.Resume {
    Sidecar.Resume(
      file: upload.index, url: target(upload.remoteName).url, size: upload.source.facts.size,
      modifiedAt: upload.source.facts.modified, offset: offset,
      data: [.init(name: "part", value: temporaryName(upload.ticket).description)])
  }

  package func send(
    _ upload: Upload, report: @escaping @OnLoop (Int64, Sidecar.Resume?) -> Void
  ) async throws(SendError) -> Receipt {
    let relative = relative(upload.remoteName)
    let parts = relative.utf8.split(separator: UInt8(ascii: "/")).map { String($0)! }
    guard let last = parts.last else {
      throw SendError(.jobForGood, "invalid", "\"to\" names no file below \(base)")
    }
    let name = Name(last)
    let part = temporaryName(upload.ticket)
    let size = upload.source.facts.size
    let url = target(upload.remoteName).url
    var offset: Int64 = 0
    if let resume = upload.resume, resume.url == url, resume.size == size,
      resume.modifiedAt == upload.source.facts.modified
    {
      offset = resume.offset
    }
    let start = offset
    if upload.resume == nil { report(0, resume(upload, 0)) }
    // A thread that is still in it when this gives up makes nothing that nobody would clean up.
    let isAbandoned = Locked(false)
    let place: OpenPlace
    do throws(SendError) {
      place = try await run { () throws(SendError) in
        let place = try self.open(Array(parts.dropLast()), part, keeping: start, of: size)
        if isAbandoned.with({ $0 }) {
          try? self.calls.unlink(part, in: place.directory.descriptor.raw)
        }
        return place
      }
    } catch {
      if upload.resume == nil { isAbandoned.with { $0 = true } }
      throw error
    }
    offset = place.offset
    report(offset, resume(upload, offset))
    var synced = offset
    while offset < size {
      if Task.isCancelled { throw SendError(.cancelled, "cancelled", "cancelled") }
      let at = offset
      if let start = throttle?.turn(min(Self.piece, size - at)), start > Clock.monotonic() {
        do throws(CancellationError) {
          try await Loop.shared.sleep(until: start)
        } catch {
          throw SendError(.cancelled, "cancelled", "cancelled")
        }
      }
      let mustSync = durable && at + Self.piece - synced >= Self.syncEvery
      let copied = try await run { () throws(SendError) in
        try self.copy(upload.source, to: place, at: at, sync: mustSync)
      }
      if copied == 0 { throw HTTPStatus.trouble(upload.source.shorter(at)) }
      offset += copied
      if mustSync { synced = offset }
      // Only what is on the disk counts for going on; without a promise against power cuts, all.
      report(offset, resume(upload, durable ? synced : offset))
    }
    do throws(TransferError) {
      if let change = try await upload.source.change(limit: 300 * second) { throw change }
    } catch {
      throw HTTPStatus.trouble(error)
    }
    try await run { () throws(SendError) in try self.publish(place, part, as: name, size) }
    return Receipt()
  }

  package func remove(_ resume: Sidecar.Resume) async throws(SendError) {
    guard let part = resume.data.first(where: { $0.name == "part" })?.value,
      part.hasPrefix(".upspool-"), !part.utf8.contains(UInt8(ascii: "/")),
      let path = Self.decodedPath(resume.url), let rest = relativePath(path, below: base)
    else { return }
    let parts = rest.description.utf8.split(separator: UInt8(ascii: "/")).map { String($0)! }
    try await run { () throws(SendError) in
      guard let directory = try self.directory(Array(parts.dropLast()), create: false)
      else { return }
      do throws(Errno) {
        try self.calls.unlink(Name(part), in: directory.descriptor.raw)
      } catch {
        if error != .missing { throw self.trouble(error, "remove \(part) from") }
      }
    }
  }

  private static let piece: Int64 = 1 << 20
  private static let syncEvery: Int64 = 64 << 20

  /// Runs blocking work on a thread of our own; a disk that hangs hangs nothing else, and cancelling
  /// ends the wait at once.
  @OnLoop private func run<T: Sendable>(
    _ body: @escaping @Sendable () throws(SendError) -> T
  ) async throws(SendError) -> T {
    let result: Result<T, SendError>
    do throws(TransferError) {
      result = try await unhung(300 * second) {
        Result { () throws(SendError) in try body() }
      }
    } catch {
      throw HTTPStatus.trouble(error)
    }
    return try result.get()
  }
}

/// What blocks; on threads of our own.
extension FileDestination {
  /// The directory of the file's place, below the first write root that holds it: no symbolic link
  /// leads out of that root. Missing directories below `base` are made. Nil when it isn't there
  /// and not to be made.
  private func directory(_ parts: [String], create: Bool) throws(SendError) -> OpenDirectory? {
    let root = writeRoots?.first { relativePath(base, below: $0) != nil }
    if writeRoots != nil && root == nil {
      throw SendError(
        .jobForGood, "forbidden", "jobs may not write to \(base)",
        advice: "name a directory that holds it in \"writeRoots\" of the configuration")
    }
    do throws(Errno) {
      var here: Descriptor
      if let root, let rest = relativePath(base, below: root) {
        here = try calls.openDirectory(Name(root))
        here = try calls.openBeneath(rest, in: here.raw, O_RDONLY | O_DIRECTORY)
      } else {
        here = try calls.openDirectory(Name(base))
      }
      for part in parts {
        if create { try calls.makeDirectory(Name(part), in: here.raw) }
        do throws(Errno) {
          here = try calls.openBeneath(Name(part), in: here.raw, O_RDONLY | O_DIRECTORY)
        } catch {
          if error == .missing && !create { return nil }
          throw error
        }
      }
      return OpenDirectory(here)
    } catch {
      throw trouble(error, "open the directory")
    }
  }

  private func open(_ parts: [String], _ part: Name, keeping offset: Int64, of size: Int64)
    throws(SendError) -> OpenPlace
  {
    guard let directory = try directory(parts, create: true) else {
      throw trouble(.missing, "open the directory")
    }
    do throws(Errno) {
      let file = try calls.open(
        part, in: directory.descriptor.raw, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK)
      let facts = try calls.facts(of: file.raw)
      guard facts.isRegular else { throw .invalid }
      let kept = facts.size >= offset && offset <= size ? offset : 0
      if facts.size != kept { try calls.truncate(file.raw, to: kept) }
      return OpenPlace(directory, file, kept)
    } catch {
      throw trouble(error, "write to \(parts.joined(separator: "/"))\(parts.isEmpty ? "" : "/")")
    }
  }

  /// Copies one piece; the bytes copied, 0 at the source's end.
  private func copy(_ source: Source, to place: OpenPlace, at offset: Int64, sync: Bool)
    throws(SendError) -> Int64
  {
    let buffer = UnsafeMutableRawBufferPointer.allocate(
      byteCount: Int(min(Self.piece, source.facts.size - offset)), alignment: 4096)
    defer { unsafe buffer.deallocate() }
    let got: Int
    do throws(Errno) {
      got = unsafe try source.read(buffer, at: offset)
    } catch {
      throw HTTPStatus.trouble(TransferError.sourceUnreadable(error))
    }
    do throws(Errno) {
      var done = 0
      while done < got {
        done += unsafe try calls.write(
          place.file.raw, UnsafeRawBufferPointer(rebasing: buffer[done..<got]),
          at: offset + Int64(done))
      }
      if sync { try calls.sync(place.file.raw) }
    } catch {
      throw trouble(error, "write to")
    }
    return Int64(got)
  }

  private func publish(_ place: OpenPlace, _ part: Name, as name: Name, _ size: Int64)
    throws(SendError)
  {
    do throws(Errno) {
      let facts = try calls.facts(of: place.file.raw)
      guard facts.size == size else {
        throw Errno.invalid
      }
      if durable { try calls.sync(place.file.raw) }
      try calls.replace(part, in: place.directory.descriptor.raw, as: name)
      if durable { try calls.sync(place.directory.descriptor.raw) }
    } catch {
      throw trouble(error, "put \(name) into place in")
    }
  }

  private func trouble(_ error: Errno, _ what: String) -> SendError {
    let text = "cannot \(what) \(base): \(error)"
    switch error {
    case .noSpace, .overQuota:
      return SendError(
        .destination(.full), "full", text, advice: "make room there; its jobs wait for it")
    case .missing:
      return SendError(
        .destination(.unreachable), "unreachable", text,
        advice: "create or mount the directory; its jobs wait for it")
    case .readOnly:
      return SendError(
        .destination(.unreachable), "unreachable", text, advice: "make the filesystem writable")
    case .denied, .notPermitted:
      return SendError(
        .destination(.signIn), "forbidden", text,
        advice: "let the worker's user write there; its jobs wait for it")
    case .symlink, .otherFilesystem, .notADirectory, .isDirectory, .tooLong, .invalid:
      return SendError(
        .jobForGood, "refused", text,
        advice: "the place must be a directory, not reached by symbolic links out of \"writeRoots\""
      )
    default:
      return SendError(.jobForNow, "disk", text, advice: "it is tried again")
    }
  }

  /// The path of a `file://` URL.
  package static func decodedPath(_ url: String) -> String? {
    guard url.hasPrefix("file://") else { return nil }
    var out: [UInt8] = []
    var bytes = Array(url.utf8.dropFirst(7))[...]
    if bytes.starts(with: "localhost/".utf8) { bytes = bytes.dropFirst(9) }
    while let byte = bytes.popFirst() {
      guard byte == UInt8(ascii: "%") else {
        out.append(byte)
        continue
      }
      let digits = bytes.prefix(2).compactMap { Character(Unicode.Scalar($0)).hexDigitValue }
      guard digits.count == 2 else { return nil }
      bytes = bytes.dropFirst(2)
      let value = UInt8(digits[0] * 16 + digits[1])
      if value == 0 { return nil }
      out.append(value)
    }
    return String(decoding: out, as: UTF8.self)
  }
}

/// An open directory, and the temporary in it.
private final class OpenDirectory: Sendable {
  let descriptor: Descriptor
  init(_ descriptor: consuming Descriptor) { self.descriptor = descriptor }
}
private final class OpenPlace: Sendable {
  let directory: OpenDirectory
  let file: Descriptor
  let offset: Int64
  init(_ directory: OpenDirectory, _ file: consuming Descriptor, _ offset: Int64) {
    (self.directory, self.offset) = (directory, offset)
    self.file = file
  }
}
