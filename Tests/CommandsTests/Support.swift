internal import Glibc
internal import Jobs
internal import Spool
internal import System
internal import TestKit

/// The binary under test.
let binary = products + "/upspool"

/// What a call of the program gave.
struct Result {
  var code: Int32
  var out: String
  var err: String
  var lines: [Substring] { out.split(separator: "\n") }
}

/// Nothing of the surroundings may decide a test.
private let surroundings: [String: String?] = [
  "UPSPOOL": nil, "UPSPOOL_CONFIG": nil, "NO_COLOR": nil, "POSIXLY_CORRECT": nil, "TZ": "UTC",
]

/// Runs the program to its end.
func upspool(
  _ arguments: [String], environment: [String: String?] = [:], directory: String? = nil,
  prefix: [String] = []
) -> Result {
  let folder = Folder()
  let child = spawn(
    prefix + [binary] + arguments, environment: surroundings.merging(environment) { $1 },
    directory: directory, output: folder.at("out"), errors: folder.at("err"))
  let code = child.wait()
  return Result(code: code, out: folder.text("out") ?? "", err: folder.text("err") ?? "")
}

/// Starts the program; its output goes to a file.
func start(_ arguments: [String], output: String, prefix: [String] = []) -> Child {
  spawn(prefix + [binary] + arguments, environment: surroundings, output: output)
}

/// Runs a line of sh(1) with the binary as $0.
func shell(_ line: String) -> Result {
  let folder = Folder()
  let child = spawn(
    ["/bin/sh", "-c", line, binary], environment: surroundings, output: folder.at("out"),
    errors: folder.at("err"))
  let code = child.wait()
  return Result(code: code, out: folder.text("out") ?? "", err: folder.text("err") ?? "")
}

/// A spool in a folder of its own.
struct TestSpool {
  let folder = Folder()
  let spool: Spool
  var path: String { spool.path }

  init() throws {
    let path = folder.at("spool")
    try Spool.create(path)
    spool = try Spool(path)
  }

  /// Puts a job there; `modified` in nanoseconds since 1970.
  @discardableResult
  func job(_ name: String, in place: Place, modified: Int64? = nil) -> String {
    folder.write(
      "spool/\(place.rawValue)/\(name).json",
      #"{"to": "file:///nowhere/", "files": ["/etc/hostname"]}"#, modified: modified)
  }
  /// Writes a job's sidecar as a worker would.
  func sidecar(
    _ name: String, of place: Place, _ state: Sidecar.State? = nil,
    _ change: (inout Sidecar) -> Void = { _ in }
  ) throws {
    let file = Name("\(name).json")
    let state = state ?? Sidecar.State(rawValue: place.rawValue) ?? .pending
    let id = try spool.id(of: file, in: place) ?? "none"
    var sidecar = Sidecar(
      state: state, job: name, id: id, queuedAt: Clock.wall(), updatedAt: Clock.wall())
    change(&sidecar)
    try spool.publish(sidecar, as: file, durable: false)
  }
  func names(_ place: Place) -> [String] { folder.names("spool/\(place.rawValue)") }
  /// Runs a command on this spool.
  func run(_ arguments: [String], environment: [String: String?] = [:]) -> Result {
    upspool(
      [arguments[0], "--spool", path] + arguments.dropFirst(), environment: environment)
  }
}

/// Starts a program as an ordinary user; empty when this one can't do that.
let asNobody: [String] = {
  let prefix = [
    "/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
  ]
  guard geteuid() == 0, unsafe access(prefix[0], X_OK) == 0 else { return [] }
  // The build's folder may be closed to others.
  return upspool(["--version"], prefix: prefix).code == 0 ? prefix : []
}()
