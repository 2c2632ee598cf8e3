internal import Glibc
package import Jobs
internal import System

extension Configuration {
  /// Bytes that a configuration file may have at most.
  package static let sizeLimit: Int64 = 1 << 20

  /// Reads and judges a configuration; no error repeats a value from `destinations`.
  ///
  /// `environment` and `readFile` give what `${env:NAME}` and `${file:/path}` stand for.
  package static func decode(
    _ bytes: [UInt8], environment: @escaping (String) -> String?,
    readFile: @escaping (String) throws -> [UInt8]
  ) throws(Malformed) -> Configuration {
    if bytes.count > sizeLimit { throw Malformed("", "a configuration has at most 1 MiB") }
    let json: JSON
    do throws(JSON.Failure) {
      json = try JSON(parsing: bytes, quoting: false)
    } catch {
      throw error.malformed
    }
    guard json.kind == .object else {
      throw Malformed("", "a configuration is a JSON object, not \(json.kind.words)")
    }
    var configuration = Configuration()
    var expander = Expander(environment: environment, readFile: readFile)
    for (key, value) in json.members {
      do throws(Malformed) {
        try configuration.set(key, value, &expander)
      } catch {
        throw error.within(pathElement(key))
      }
    }
    configuration.secrets = expander.secrets
    return configuration
  }

  /// Reads the file at `path` with this process's environment; the errors don't name the path.
  package static func load(_ path: String) throws(Malformed) -> Configuration {
    let bytes: [UInt8]
    do throws(Errno) {
      bytes = try contents(of: path, upTo: Int(sizeLimit) + 1)
    } catch {
      throw Malformed("", "can't read it: \(error)")
    }
    return try decode(
      bytes,
      environment: { name in unsafe getenv(name).map { unsafe String(cString: $0) } },
      readFile: { path in try contents(of: path, upTo: (64 << 10) + 3) })
  }

  private static func contents(of path: String, upTo limit: Int) throws(Errno) -> [UInt8] {
    // O_NONBLOCK: a FIFO must not hold the start up.
    let file = try Calls.live.open(Name(path), O_RDONLY | O_NONBLOCK)
    guard try Calls.live.facts(of: file.raw).isRegular else { throw .invalid }
    return try Calls.live.read(file.raw, upTo: limit)
  }

  private static let keys = [
    "roots", "writeRoots", "hosts", "concurrency", "slots", "destinations", "retention",
    "giveUpAfter", "crashes", "attempts",
  ]

  private mutating func set(
    _ key: String, _ value: JSON, _ expander: inout Expander
  ) throws(Malformed) {
    switch key {
    case "roots":
      roots = try Self.directories(value)
      if roots == [] {
        throw Malformed("", "an empty list would let jobs read nothing; leave it out to allow all")
      }
    case "writeRoots": writeRoots = try Self.directories(value)
    case "hosts": hosts = try Hosts(try Self.strings(value))
    case "concurrency": concurrency = Int(try value.asInteger(1...1024))
    case "slots": slots = Int(try value.asInteger(1...1024))
    case "destinations": try setDestinations(value, &expander)
    case "retention": try setRetention(value)
    case "giveUpAfter":
      giveUpAfter = try value.asDuration()
      if giveUpAfter == 0 { throw Malformed("", "must be more than 0, or no job would ever run") }
    case "crashes": crashes = Int(try value.asInteger(1...1000))
    case "attempts": attempts = Int(try value.asInteger(1...1000))
    default: throw unknownKey(key, known: Self.keys, later: ["recipes"])
    }
  }

  private static func strings(_ json: JSON) throws(Malformed) -> [String] {
    guard json.kind == .array else {
      throw Malformed("", "must be a list of strings, not \(json.kind.words)")
    }
    var all: [String] = []
    for index in 0..<json.count {
      guard let text = json.element(index)?.string else {
        throw Malformed("[\(index)]", "must be a string")
      }
      all.append(text)
    }
    return all
  }

  private static func directories(_ json: JSON) throws(Malformed) -> [String] {
    let all = try strings(json)
    for (index, path) in all.enumerated() where path.utf8.first != UInt8(ascii: "/") {
      throw Malformed("[\(index)]", "must be an absolute path, beginning with \"/\"")
    }
    return all
  }

  private mutating func setRetention(_ json: JSON) throws(Malformed) {
    guard json.kind == .object else {
      throw Malformed("", "must be {\"done\": …, \"failed\": …}, not \(json.kind.words)")
    }
    for (key, value) in json.members {
      do throws(Malformed) {
        switch key {
        case "done": retention.done = try value.asDuration()
        case "failed": retention.failed = try value.asDuration()
        default: throw unknownKey(key, known: ["done", "failed"])
        }
      } catch {
        throw error.within(pathElement(key))
      }
    }
  }

  private mutating func setDestinations(
    _ json: JSON, _ expander: inout Expander
  ) throws(Malformed) {
    guard json.kind == .object else {
      throw Malformed("", "must be an object of names and destinations, not \(json.kind.words)")
    }
    for (name, value) in json.members {
      do throws(Malformed) {
        if !isDestinationName(name) {
          throw Malformed("", "a destination's name has 1 to 64 of A-Z, a-z, 0-9, _ and -")
        }
        if isScheme(name) {
          throw Malformed("", "a destination can't be called like the scheme of a URL")
        }
        destinations[name] = try Destination(value, &expander)
      } catch {
        throw error.within(pathElement(name))
      }
    }
  }
}
