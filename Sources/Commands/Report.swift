internal import Glibc
internal import Jobs
internal import Spool
internal import System

/// A job and what its sidecar says, as far as that speaks for it.
struct Report {
  var job: Listed
  /// Nil where there is none, or it is another file's.
  var bytes: [UInt8]?
  /// What it came to, when its file is in no directory any more.
  var end: Sidecar.State?

  /// Nil when the job has gone meanwhile.
  init?(_ listed: Listed, _ spool: Spool) throws(Errno) {
    job = listed
    guard let text = try sidecarBytes(listed.name, spool) else { return }
    var id = try spool.id(of: job.name, in: job.place)
    if id == nil {
      // Moved while this was read: where it is now is its state.
      guard let place = try spool.place(of: job.name),
        let facts = try spool.calls.factsIfThere(of: job.name, in: spool.directory(place))
      else { return nil }
      job = Listed(job.name, place, facts)
      id = try spool.id(of: job.name, in: place)
    }
    if let id, let json = try? JSON(parsing: text, lenient: true), json.kind == .object,
      json.member("id")?.string == id
    {
      bytes = text
    }
  }

  /// A job whose file has gone, with the last that is known of it.
  init(gone listed: Listed, as end: Sidecar.State, id: String?, _ spool: Spool) throws(Errno) {
    (job, self.end) = (listed, end)
    guard let id, let text = try sidecarBytes(listed.name, spool),
      let json = try? JSON(parsing: text, lenient: true), json.member("id")?.string == id
    else { return }
    bytes = text
  }

  /// What its sidecar itself calls its state.
  var lastWord: Sidecar.State? { bytes.flatMap { Sidecar.decode($0) }?.state }

  /// As the directory has it.
  var state: Sidecar.State { end ?? Sidecar.State(rawValue: job.place.rawValue) ?? .pending }

  /// The sidecar's values, with its state and what follows from it as the directory has it.
  var sidecar: Sidecar? {
    guard let bytes, var sidecar = Sidecar.decode(bytes) else { return nil }
    sidecar.state = state
    if state != .active {
      (sidecar.phase, sidecar.bytesPerSecond, sidecar.etaSeconds) = (nil, nil, nil)
    }
    // A wait is for one mtime of the job file.
    if sidecar.wait?.mtime != job.modified || state != .pending { sidecar.wait = nil }
    return sidecar
  }

  /// One line of JSON: `name` and `state` first, then the sidecar as it is; without one the keys
  /// that hold for any job.
  var line: [UInt8] {
    var out: [UInt8] = Array("{\"name\":".utf8)
    out.append(string: JobName.stem(job.name))
    out += ",\"state\":\"\(state.rawValue)\"".utf8
    guard let bytes, let json = try? JSON(parsing: bytes, lenient: true) else {
      out += ",\"percent\":0.0,\"error\":null,\"job\":".utf8
      out.append(string: JobName.stem(job.name))
      return out + "}".utf8
    }
    let isActive = state == .active
    let waits = sidecar?.wait != nil
    for (key, value) in json.members {
      switch key {
      case "name", "state": continue
      case "phase" where !isActive: continue
      case "bytesPerSecond" where !isActive, "etaSeconds" where !isActive, "wait" where !waits:
        out += ",\"\(key)\":null".utf8
      default:
        out += ",".utf8
        out.append(string: key)
        out += ":\(value.compact)".utf8
      }
    }
    return out + "}".utf8
  }
}

/// The bytes of progress/NAME; nil when there is none or it is no regular file.
private func sidecarBytes(_ name: Name, _ spool: Spool) throws(Errno) -> [UInt8]? {
  do throws(Errno) {
    let file = try spool.calls.open(
      name, in: spool.progress.raw, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
    let facts = try spool.calls.facts(of: file.raw)
    guard facts.isRegular, facts.size <= Sidecar.sizeLimit else { return nil }
    return try spool.calls.read(file.raw, upTo: Int(facts.size))
  } catch {
    // Another user's sidecar may be closed to this one; the job is shown all the same.
    if [.missing, .symlink, .denied].contains(error) { return nil }
    throw error
  }
}
