internal import Configuration
internal import Glibc
internal import Jobs
internal import Spool
internal import System

/// What several commands find out in the same way: which spool, which configuration.
extension Invocation {
  /// `--spool`, else $UPSPOOL, else ./spool.
  func spoolPath(_ console: Console) throws -> String {
    let path = try text(.spool) ?? console.variable("UPSPOOL") ?? "spool"
    if path.isEmpty { throw UsageError("--spool: must name a directory") }
    return path
  }

  /// Opens a spool that is there, for reading or as a producer.
  func openSpool(_ console: Console) throws -> Spool {
    let path = try spoolPath(console)
    do {
      let spool = try Spool(path)
      try spool.checkFormat()
      return spool
    } catch let error as SpoolError {
      guard error.errno == .missing else { throw error }
      throw Failure(
        "\(error.description); start a worker there (upspool run --spool \(shellQuoted(path))), or "
          + "name the spool with --spool DIR or $UPSPOOL")
    }
  }

  /// `--config`, else $UPSPOOL_CONFIG, else /etc/upspool.json if it is there.
  func configurationPath(_ console: Console) throws -> String? {
    if let path = try text(.config) ?? console.variable("UPSPOOL_CONFIG") { return path }
    let usual = "/etc/upspool.json"
    return (try? Calls.live.target(of: Name(usual))) == nil ? nil : usual
  }

  /// The configuration and where it came from; exit code 2 when it is wrong.
  func loadConfiguration(_ console: Console) throws -> (Configuration, path: String?) {
    guard let path = try configurationPath(console) else { return (Configuration(), nil) }
    do throws(Malformed) {
      return (try Configuration.load(path), path)
    } catch {
      throw Failure("\(path): \(error)", .wrongCall)
    }
  }

  /// The directories of `--root`, absolute.
  func roots() throws -> [String] {
    try texts(.root).map { text in
      if text.isEmpty { throw UsageError("--root: must name a directory") }
      return try absolutePath(text)
    }
  }
}

/// A path against the current directory, without resolving symbolic links: `.` and empty parts go,
/// and so does each leading `..`, together with a part of the current directory (whose path has no
/// links in it). A `..` further in stays: what stands before it may be a link.
func absolutePath(_ path: String) throws -> String {
  if path.utf8.first == UInt8(ascii: "/") { return clean(path, below: []) }
  var buffer = [CChar](repeating: 0, count: Int(PATH_MAX) + 1)
  guard unsafe getcwd(&buffer, buffer.count) != nil,
    let directory = String(
      validating: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  else {
    throw Failure("the current directory's path can't be had; use absolute paths")
  }
  return clean(path, below: directory.utf8.split(separator: UInt8(ascii: "/")).map(Substring.init))
}

private func clean(_ path: String, below directory: [Substring]) -> String {
  var parts = directory
  var isLeading = true
  for part in path.utf8.split(separator: UInt8(ascii: "/")).map(Substring.init) {
    if part.utf8.elementsEqual(".".utf8) { continue }
    if isLeading, part.utf8.elementsEqual("..".utf8) {
      if !parts.isEmpty { parts.removeLast() }
      continue
    }
    isLeading = false
    parts.append(part)
  }
  let slash = path.utf8.last == UInt8(ascii: "/") && !parts.isEmpty ? "/" : ""
  return "/" + parts.joined(separator: "/") + slash
}

/// A word as a shell takes it: as it is when it is plain, else in single quotes.
func shellQuoted(_ word: String) -> String {
  let isPlain =
    !word.isEmpty
    && word.utf8.allSatisfy {
      0x30...0x39 ~= $0 || 0x40...0x5a ~= $0 || 0x61...0x7a ~= $0 || "/._-+,:%".utf8.contains($0)
        || $0 >= 0x80
    }
  if isPlain { return word }
  return "'"
    + word.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''") + "'"
}
