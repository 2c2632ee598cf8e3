internal import Glibc
internal import Jobs
internal import System
internal import TestKit
internal import Testing

/// Tests of the built program. One after the other: they measure how soon something happens.
@Suite(.serialized) enum EndToEnd {}

/// A spool in a folder of its own, and the built program that runs it.
final class Field: Sendable {
  let folder: Folder
  private let drops = Locked(0)

  init(in parent: String = "/tmp") {
    folder = Folder(in: parent)
    for name in ["s", "s/pending", "s/paused", "out", "src"] { folder.makeDirectory(name) }
  }

  var spool: String { folder.at("s") }
  var log: String { folder.text("log") ?? "" }

  /// A source file; its path.
  func source(_ name: String, _ bytes: [UInt8]) -> String {
    folder.write("src/\(name)", bytes)
    return folder.at("src/\(name)")
  }

  func configure(_ json: String) { folder.write("upspool.json", json) }

  /// Starts a worker; it ends with the test.
  func start(_ options: String..., prefix: [String] = []) -> Child {
    var arguments = prefix + [products + "/upspool", "run", "--spool", spool]
    if folder.exists("upspool.json") { arguments += ["--config", folder.at("upspool.json")] }
    return spawn(
      arguments + options, environment: ["UPSPOOL": nil, "UPSPOOL_CONFIG": nil],
      output: folder.at("log"))
  }

  /// Runs a worker until there is nothing left; its exit code.
  @discardableResult
  func drain(_ options: String...) async -> Int32 {
    var arguments = [products + "/upspool", "run", "--spool", spool, "--drain"]
    if folder.exists("upspool.json") { arguments += ["--config", folder.at("upspool.json")] }
    return await spawn(arguments + options, output: folder.at("log")).ended(60) ?? -1
  }

  /// Drops a job as a careful producer does: written elsewhere, then renamed into pending/.
  func drop(_ name: String, _ json: String, in place: String = "pending") {
    let n = drops.with { n in
      n += 1
      return n
    }
    folder.write("s/.drop\(n)", json)
    folder.move("s/.drop\(n)", to: "s/\(place)/\(name).json")
  }
  func drop(_ name: String, to: String, _ files: [String], _ more: String = "") {
    let list = files.map { "\"\($0)\"" }.joined(separator: ", ")
    drop(name, "{\"to\": \"\(to)\", \"files\": [\(list)]\(more.isEmpty ? "" : ", " + more)}")
  }

  func sidecar(_ name: String) -> Sidecar? {
    folder.read("s/progress/\(name).json").flatMap { Sidecar.decode($0) }
  }
  func place(_ name: String) -> String? {
    ["pending", "active", "paused", "done", "failed"].first {
      folder.exists("s/\($0)/\(name).json")
    }
  }
  func move(_ name: String, _ from: String, _ to: String) -> Bool {
    folder.move("s/\(from)/\(name).json", to: "s/\(to)/\(name).json")
  }
  func remove(_ name: String, _ from: String) -> Bool { folder.remove("s/\(from)/\(name).json") }

  func wait(_ name: String, in place: String, seconds: Double = 20) async -> Bool {
    await eventually(seconds) { self.folder.exists("s/\(place)/\(name).json") }
  }
  func wait(_ name: String, state: Sidecar.State, seconds: Double = 20) async -> Bool {
    await eventually(seconds) { self.sidecar(name)?.state == state }
  }

  /// Nothing of a worker or a transfer is left over.
  var strays: [String] {
    ["s", "s/pending", "s/active", "s/paused", "s/done", "s/failed", "s/progress", "out"]
      .flatMap { directory in
        folder.names(directory).filter { $0.hasPrefix(".") }.map { directory + "/" + $0 }
      }
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

extension Child {
  /// Its exit code; nil when `seconds` are over and it still runs. Waits without holding up the other
  /// tests.
  func ended(_ seconds: Double) async -> Int32? {
    await eventually(seconds) { !self.isRunning } ? wait() : nil
  }
}
