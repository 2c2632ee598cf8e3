internal import Glibc
internal import Jobs
internal import System
internal import TestKit
internal import Testing

/// What is measured by the clock runs one after the other.
@Suite(.serialized) enum EndToEnd {}

/// A spool in a folder of its own, with the built program to run it.
///
/// | below | what |
/// |---|---|
/// | s/ | the spool |
/// | src/ | what is sent |
/// | out/ | where `file` destinations write |
/// | log | what all its workers say |
final class Yard: Sendable {
  let folder: Folder
  private let drops = Locked(0)
  private let children = Locked<[Child]>([])

  init(_ parent: String = "/tmp") {
    folder = Folder(in: parent)
    for name in ["s", "s/pending", "s/paused", "out", "src"] { folder.makeDirectory(name) }
  }

  var spool: String { folder.at("s") }
  var out: String { folder.at("out") }
  var log: String { folder.text("log") ?? "" }
  /// Lines of the log with that event, and that text if one is given.
  func lines(_ event: String, _ text: String = "") -> [String] {
    log.split(separator: "\n").map(String.init).filter {
      $0.contains("Z \(event)") && (text.isEmpty || $0.contains(text))
    }
  }

  // MARK: Workers

  func configure(_ json: String) { folder.write("upspool.json", json) }
  /// A configuration of named destinations.
  func destinations(_ all: [(String, String)], _ more: String = "") {
    let list = all.map { "\"\($0.0)\": {\($0.1)}" }.joined(separator: ", ")
    configure("{\"destinations\": {\(list)}\(more.isEmpty ? "" : ", " + more)}")
  }

  /// Starts a worker; it is ended with the yard.
  @discardableResult
  func start(
    _ options: String..., prefix: [String] = [], environment: [String: String?] = [:],
    log: String = "log", spool: String? = nil
  ) -> Child {
    var words = prefix + [products + "/upspool", "run", "--spool", spool ?? self.spool]
    if folder.exists("upspool.json") { words += ["--config", folder.at("upspool.json")] }
    let surroundings: [String: String?] = ["UPSPOOL": nil, "UPSPOOL_CONFIG": nil]
    let child = spawn(
      words + options, environment: surroundings.merging(environment) { $1 },
      output: folder.at(log))
    children.with { $0.append(child) }
    return child
  }
  /// Ends a worker by SIGTERM; its exit code, nil when it doesn't end.
  @discardableResult
  func stop(_ worker: Child, seconds: Double = 20) async -> Int32? {
    worker.send(SIGTERM)
    return await worker.ended(seconds)
  }
  func kill(_ worker: Child) async {
    worker.send(SIGKILL)
    _ = await worker.ended(10)
  }
  /// Runs a worker until nothing is left to do; its exit code.
  @discardableResult
  func drain(_ options: [String] = [], seconds: Double = 60) async -> Int32? {
    var words = [products + "/upspool", "run", "--spool", spool, "--drain"]
    if folder.exists("upspool.json") { words += ["--config", folder.at("upspool.json")] }
    let child = spawn(words + options, output: folder.at("log"))
    children.with { $0.append(child) }
    return await child.ended(seconds)
  }
  fileprivate func end() async {
    for child in children.with({ $0 }) where child.isRunning {
      child.send(SIGCONT)
      child.send(SIGKILL)
      _ = await child.ended(10)
    }
  }

  // MARK: Files and jobs

  /// A source file; its path.
  @discardableResult
  func source(_ name: String, _ bytes: [UInt8]) -> String { folder.write("src/\(name)", bytes) }
  /// A source of zeros that takes no room; its path.
  func sparse(_ name: String, _ size: Int) -> String {
    let path = source(name, [])
    #expect(unsafe truncate(path, size) == 0)
    return path
  }

  /// Drops a job as a careful producer does: written elsewhere, then renamed.
  func drop(_ name: String, _ json: String, in place: String = "pending", modified: Int64? = nil) {
    let n = drops.with { n in
      n += 1
      return n
    }
    folder.write("s/.drop\(n)", Array(json.utf8), modified: modified)
    folder.move("s/.drop\(n)", to: "s/\(place)/\(name).json")
  }
  func drop(
    _ name: String, to: String, _ files: [String], _ more: String = "",
    in place: String = "pending", modified: Int64? = nil
  ) {
    drop(name, Yard.job(to, files, more), in: place, modified: modified)
  }
  static func job(_ to: String, _ files: [String], _ more: String = "") -> String {
    let list = files.map { quoted($0) }.joined(separator: ", ")
    return "{\"to\": \(quoted(to)), \"files\": [\(list)]\(more.isEmpty ? "" : ", " + more)}"
  }

  func sidecar(_ name: String) -> Sidecar? {
    folder.read("s/progress/\(name).json").flatMap { Sidecar.decode($0) }
  }
  static let places = ["pending", "active", "paused", "done", "failed"]
  func places(_ name: String) -> [String] {
    Self.places.filter { folder.exists("s/\($0)/\(name).json") }
  }
  func place(_ name: String) -> String? { places(name).first }
  func count(_ place: String) -> Int { folder.names("s/\(place)").count }
  @discardableResult
  func move(_ name: String, _ from: String, _ to: String) -> Bool {
    folder.move("s/\(from)/\(name).json", to: "s/\(to)/\(name).json")
  }
  @discardableResult
  func remove(_ name: String, _ place: String) -> Bool {
    folder.remove("s/\(place)/\(name).json")
  }
  /// As `touch -c` does: its time is now.
  func touch(_ name: String) {
    #expect(unsafe utimensat(AT_FDCWD, folder.at("s/pending/\(name).json"), nil, 0) == 0)
  }

  func wait(_ name: String, in place: String, seconds: Double = 20) async -> Bool {
    await eventually(seconds) { self.folder.exists("s/\(place)/\(name).json") }
  }
  func wait(_ name: String, _ state: Sidecar.State, seconds: Double = 20) async -> Bool {
    await eventually(seconds) { self.sidecar(name)?.state == state }
  }
  func wait(_ count: Int, in place: String, seconds: Double = 30) async -> Bool {
    await eventually(seconds) { self.count(place) == count }
  }

  /// Temporaries of workers and transfers.
  var strays: [String] {
    (["s", "s/progress", "s/workers", "out"] + Self.places.map { "s/" + $0 }).flatMap { place in
      folder.names(place).filter { $0.hasPrefix(".") }.map { place + "/" + $0 }
    }
  }
}

/// Runs a test in a yard of its own. Its workers are ended afterwards, and none may have crashed.
func inYard(in parent: String = "/tmp", _ body: (Yard) async throws -> Void) async rethrows {
  let yard = Yard(parent)
  try await body(yard)
  await yard.end()
  let crashed = ["Fatal error", "Crash", "fatal signal"].filter { yard.log.contains($0) }
  #expect(crashed.isEmpty, "\(yard.log.suffix(4000))")
}

/// A JSON string.
func quoted(_ text: String) -> String {
  var out = "\""
  for scalar in text.unicodeScalars {
    switch scalar {
    case "\"": out += "\\\""
    case "\\": out += "\\\\"
    case "\n": out += "\\n"
    default: out.unicodeScalars.append(scalar)
    }
  }
  return out + "\""
}

func pause(_ seconds: Double) async {
  try? await Task.sleep(nanoseconds: UInt64(seconds * 1e9))
}

extension Child {
  /// Its exit code; nil when `seconds` are over and it still runs. Holds up no other test.
  func ended(_ seconds: Double) async -> Int32? {
    await eventually(seconds) { !self.isRunning } ? wait() : nil
  }
  /// Bytes of memory that it has had at most.
  var peakMemory: Int {
    guard let file = try? Calls.live.open(Name("/proc/\(pid)/status"), O_RDONLY),
      let bytes = try? Calls.live.read(file.raw, upTo: 8192)
    else { return 0 }
    for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n")
    where line.hasPrefix("VmHWM:") {
      return (line.split { $0 == " " || $0 == "\t" }.compactMap { Int($0) }.first ?? 0) * 1024
    }
    return 0
  }
}

extension String {
  /// How often a text stands in it.
  func components(_ text: String) -> Int {
    var (count, rest) = (0, utf8[...])
    while !rest.isEmpty {
      if rest.starts(with: text.utf8) { count += 1 }
      rest = rest.dropFirst()
    }
    return count
  }
}
