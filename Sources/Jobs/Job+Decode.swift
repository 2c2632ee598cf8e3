extension Job {
  /// Reads and judges a job file's bytes; see `Job` for what it may hold.
  ///
  /// `format` is judged before any other key: a newer worker's job may look different throughout.
  package static func decode(_ bytes: [UInt8]) throws(Refusal) -> Job {
    if bytes.count > sizeLimit {
      throw .invalid(Malformed("", "a job has at most 1 MiB, this one \(bytes.count) bytes"))
    }
    let json: JSON
    do throws(JSON.Failure) {
      json = try JSON(parsing: bytes)
    } catch {
      switch error {
      case .syntax(let what): throw .malformed(what)
      case .forbidden(let what): throw .invalid(what)
      }
    }
    if json.kind != .object {
      throw .invalid(
        Malformed(
          "", "a job is a JSON object, {\"to\": …, \"files\": […]}, not \(json.kind.words)"))
    }
    if let value = json.member("format") {
      guard let number = value.integer, number >= 1 else {
        throw .invalid(Malformed("format", "must be a whole number from 1"))
      }
      if number > Int64(format) { throw .newerFormat(Int(number)) }
    }
    do throws(Malformed) {
      return try Job(json)
    } catch {
      throw .invalid(error)
    }
  }

  private static let keys = [
    "to", "files", "title", "priority", "notBefore", "expires", "attempts", "parallel", "onError",
    "format", "method", "form", "headers", "group", "dedupe",
  ]
  private static let laterKeys = [
    "params", "notify", "from", "into", "prepare", "after",
  ]

  private init(_ json: JSON) throws(Malformed) {
    self.init(to: "", destination: .url(""), files: [])
    for (key, value) in json.members {
      do throws(Malformed) {
        try set(key, value)
      } catch {
        throw error.within(pathElement(key))
      }
    }
    if to.isEmpty {
      throw Malformed("to", "is missing; write a URL, or NAME:PATH with a destination's name")
    }
    if files.isEmpty { throw Malformed("files", "is missing; write a list of absolute paths") }
    try checkTogether()
  }

  private mutating func set(_ key: String, _ value: JSON) throws(Malformed) {
    switch key {
    case "to":
      to = try value.asString()
      destination = try Destination(to)
    case "files": files = try Self.files(value)
    case "title":
      let text = try value.asString()
      if text.utf8.count > 1000 { throw Malformed("", "is longer than 1,000 bytes") }
      title = text
    case "priority": priority = Int(try value.asInteger(0...9))
    case "notBefore": notBefore = try value.asTime()
    case "expires": expires = try value.asTime()
    case "attempts": attempts = Int(try value.asInteger(1...1000))
    case "parallel": parallel = Int(try value.asInteger(1...64))
    case "onError": onError = try value.asCase()
    case "method": method = try value.asCase()
    case "form": form = try value.asForm()
    case "headers": headers = try value.asHeaders()
    case "group": group = try Self.label(value)
    case "dedupe": dedupe = try Self.label(value)
    case "format": break
    case _ where key.utf8.starts(with: "x-".utf8):
      extra.append(Extra(key: key, json: value.compact))
      if extra.reduce(0, { $0 + $1.key.utf8.count + $1.json.utf8.count }) > 64 << 10 {
        throw Malformed("", "the \"x-\" keys have more than 64 KiB in all")
      }
    default: throw unknownKey(key, known: Self.keys, later: Self.laterKeys)
    }
  }

  private static func label(_ json: JSON) throws(Malformed) -> String {
    let text = try json.asString()
    if text.isEmpty || text.utf8.count > 200 || text.hasControlCharacters {
      throw Malformed("", "must have 1 to 200 bytes and no control characters")
    }
    return text
  }

  private static func files(_ json: JSON) throws(Malformed) -> [File] {
    guard json.kind == .array else {
      throw Malformed("", "must be a list of absolute paths, not \(json.kind.words)")
    }
    if json.count == 0 {
      throw Malformed(
        "",
        "must not be empty: a job without files needs a \"notify\", which this version doesn't know "
          + "yet")
    }
    if json.count > fileLimit {
      throw Malformed("", "a job has at most 100,000 files, this one \(json.count)")
    }
    var all: [File] = []
    all.reserveCapacity(json.count)
    for index in 0..<json.count {
      guard let element = json.element(index) else { break }
      do throws(Malformed) {
        all.append(try File(element))
      } catch {
        throw error.within("[\(index)]")
      }
    }
    return all
  }

  /// The rules that concern more than one key.
  private mutating func checkTogether() throws(Malformed) {
    if let notBefore, let expires, expires <= notBefore {
      throw Malformed("expires", "is not after \"notBefore\": the job could never run")
    }
    if form != nil {
      if method == .put {
        throw Malformed("method", "a \"form\" is always sent by POST; leave \"method\" out")
      }
      method = .post
    }
    // What the sidecar says of each file has its URL in it.
    if files.count * to.utf8.count > 128 << 20 {
      throw Malformed("files", "too many for so long a \"to\"; make several jobs of them")
    }
    guard files.count > 1, form == nil else { return }
    if destination.takesNames {
      try checkRemoteNames()
    } else if method != .post {
      throw Malformed(
        "to",
        "names one place for \(files.count) files; end it in \"/\" so that each file keeps "
          + "its name")
    }
  }

  private func checkRemoteNames() throws(Malformed) {
    var seen: [[UInt8]: Int] = [:]
    seen.reserveCapacity(files.count)
    for (index, file) in files.enumerated() {
      guard let first = seen.updateValue(index, forKey: Array(file.remoteName.utf8)) else {
        continue
      }
      throw Malformed(
        "files[\(index)]",
        "\(file.path.quoted) and \(files[first].path.quoted) (files[\(first)]) would both be called "
          + "\(file.remoteName.quoted) over there; give one of them another \"as\"")
    }
  }
}

extension Job.File {
  fileprivate init(_ json: JSON) throws(Malformed) {
    if let path = json.string {
      try self.init(path: path, as: nil, type: nil)
      return
    }
    guard json.kind == .object else {
      throw Malformed("", "must be a path or {\"path\", \"as\", \"type\"}, not \(json.kind.words)")
    }
    var (path, name, type): (String?, String?, String?)
    for (key, value) in json.members {
      do throws(Malformed) {
        switch key {
        case "path": path = try value.asString()
        case "as": name = try value.asString()
        case "type": type = try value.asMediaType()
        default:
          throw unknownKey(
            key, known: ["path", "as", "type"], later: ["prepare", "params", "headers"])
        }
      } catch {
        throw error.within(pathElement(key))
      }
    }
    guard let path else { throw Malformed("path", "is missing") }
    do throws(Malformed) {
      try self.init(path: path, as: name, type: type)
    } catch {
      throw error.path.isEmpty ? error.within("path") : error
    }
  }

  private init(path: String, as name: String?, type: String?) throws(Malformed) {
    guard path.utf8.first == slash else {
      throw Malformed("", "must be an absolute path, beginning with \"/\"")
    }
    if path.utf8.count > 4095 { throw Malformed("", "is longer than 4,095 bytes") }
    let lastPart = path.utf8[
      (path.utf8.lastIndex(of: slash).map(path.utf8.index(after:)) ?? path.startIndex)...]
    let last = String(Substring(lastPart))
    if let name {
      if let fault = remoteNameFault(name) { throw Malformed("as", fault) }
    } else {
      if lastPart.isEmpty || isDots(lastPart) {
        throw Malformed("", "must name a file, not a directory")
      }
      if last.hasControlCharacters {
        throw Malformed(
          "",
          "the file's name has a control character in it; say by \"as\" what it is to be called "
            + "over there")
      }
      if let fault = remoteNameFault(last) { throw Malformed("", "the file's name \(fault)") }
    }
    self.init(path: path, remoteName: name ?? last, type: type)
  }
}

/// What is wrong with the name that a file is to have at its destination; nil if it is fine.
///
/// Segments are separated by `/`, each 1 to 255 bytes and neither `.` nor `..`; 1,024 bytes in all;
/// no control characters.
package func remoteNameFault(_ name: String) -> String? {
  if name.isEmpty { return "must not be empty" }
  if name.utf8.count > 1024 { return "is longer than 1,024 bytes" }
  if name.hasControlCharacters { return "has a control character in it" }
  if name.utf8.first == slash || name.utf8.last == slash {
    return "must not begin or end with \"/\""
  }
  for segment in name.utf8.split(separator: slash, omittingEmptySubsequences: false) {
    if segment.isEmpty { return "must not have \"//\" in it" }
    if isDots(segment) { return "must not have \".\" or \"..\" between slashes" }
    if segment.count > 255 { return "has more than 255 bytes between slashes" }
  }
  return nil
}

// Paths are taken apart as bytes: to `String` a slash with a combining accent is no slash.
let slash = UInt8(ascii: "/")

/// `.` or `..`, which lead elsewhere.
func isDots(_ segment: Substring.UTF8View) -> Bool {
  segment.elementsEqual(".".utf8) || segment.elementsEqual("..".utf8)
}
