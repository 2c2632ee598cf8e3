extension Sidecar {
  /// The text for the file: the most asked-for on top, each file on one line, a newline at the end.
  ///
  /// Valid JSON whatever the strings hold. Absent values of the contract's keys are written as
  /// null; `phase` and the keys for recovery alone are left out.
  package func encoded() -> [UInt8] {
    var out: [UInt8] = []
    out.reserveCapacity(1024 + files.count * 384 + resume.count * 512)
    out.append(raw: "{\n  \"state\": \"")
    out.append(contentsOf: state.rawValue.utf8)
    out.append(raw: "\"")
    if let phase {
      out.append(raw: ", \"phase\": \"")
      out.append(contentsOf: phase.rawValue.utf8)
      out.append(raw: "\"")
    }
    out.append(raw: ", \"percent\": ")
    out.append(percent: percent)
    out.append(raw: ", \"error\": ")
    encodeError(to: &out)
    out.append(raw: ",\n  \"job\": ")
    out.append(string: job)
    out.append(raw: ", \"id\": ")
    out.append(string: id)
    out.append(raw: ", \"run\": ")
    out.append(integer: Int64(run))
    out.append(raw: ", \"title\": ")
    out.append(stringOrNull: title)
    out.append(raw: ", \"bytes\": ")
    out.append(integer: bytes)
    out.append(raw: ", \"totalBytes\": ")
    out.append(integerOrNull: totalBytes)
    out.append(raw: ", \"bytesPerSecond\": ")
    out.append(integerOrNull: bytesPerSecond)
    out.append(raw: ", \"etaSeconds\": ")
    out.append(integerOrNull: etaSeconds)
    out.append(raw: ",\n  \"attempt\": ")
    out.append(integer: Int64(attempt))
    out.append(raw: ", \"crashes\": ")
    out.append(integer: Int64(crashes))
    out.append(raw: ", \"worker\": ")
    out.append(stringOrNull: worker)
    out.append(raw: ", \"queuedAt\": ")
    out.append(timeOrNull: queuedAt)
    out.append(raw: ", \"startedAt\": ")
    out.append(timeOrNull: startedAt)
    out.append(raw: ", \"updatedAt\": ")
    out.append(timeOrNull: updatedAt)
    out.append(raw: ", \"finishedAt\": ")
    out.append(timeOrNull: finishedAt)
    out.append(raw: ",\n  \"files\": [")
    for (index, file) in files.enumerated() {
      if index > 0 { out.append(raw: ",") }
      out.append(raw: files.count == 1 ? "" : "\n    ")
      file.encode(to: &out)
    }
    if files.count > 1 { out.append(raw: "\n  ") }
    out.append(raw: "],\n  \"wait\": ")
    encodeWait(to: &out)
    out.append(raw: ", \"resume\": {")
    for (index, state) in resume.enumerated() {
      if index > 0 { out.append(raw: ",") }
      out.append(raw: "\n    ")
      state.encode(to: &out)
    }
    out.append(raw: resume.isEmpty ? "}" : "\n  }")
    encodeRecovery(to: &out)
    for (key, json) in extra.lazy.map({ ($0.key, $0.json) }) {
      out.append(raw: ",\n  ")
      out.append(key: key)
      out.append(raw: ": ")
      out.append(contentsOf: json.utf8)
    }
    out.append(raw: "\n}\n")
    return out
  }

  private func encodeError(to out: inout [UInt8]) {
    guard let error else { return out.append(raw: "null") }
    out.append(raw: "{\"kind\": ")
    out.append(string: error.kind)
    out.append(raw: ", \"status\": ")
    out.append(integerOrNull: error.status.map(Int64.init))
    out.append(raw: ", \"message\": ")
    out.append(string: error.message)
    out.append(raw: ", \"advice\": ")
    out.append(stringOrNull: error.advice)
    out.append(raw: ", \"retryAt\": ")
    out.append(exactTimeOrNull: error.retryAt)
    out.append(raw: "}")
  }

  private func encodeWait(to out: inout [UInt8]) {
    guard let wait else { return out.append(raw: "null") }
    out.append(raw: "{\"until\": ")
    out.append(exactTimeOrNull: wait.until)
    out.append(raw: ", \"mtime\": ")
    out.append(exactTimeOrNull: wait.mtime)
    out.append(raw: ", \"reason\": ")
    out.append(string: wait.reason)
    out.append(raw: "}")
  }

  private func encodeRecovery(to out: inout [UInt8]) {
    func add(_ key: StaticString, _ text: String?) {
      guard let text else { return }
      out.append(raw: key)
      out.append(string: text)
    }
    add(",\n  \"group\": ", group)
    add(",\n  \"duplicateOf\": ", duplicateOf)
    if failures != 0 {
      out.append(raw: ",\n  \"failures\": ")
      out.append(integer: Int64(failures))
    }
    if let crashProgress {
      out.append(raw: ",\n  \"crashProgress\": ")
      out.append(integer: crashProgress)
    }
    add(",\n  \"boot\": ", boot)
    if mayRefund { out.append(raw: ",\n  \"mayRefund\": true") }
  }
}

extension Sidecar.FileStatus {
  fileprivate func encode(to out: inout [UInt8]) {
    out.append(raw: "{\"path\": ")
    out.append(string: path)
    out.append(raw: ", \"as\": ")
    out.append(string: remoteName)
    out.append(raw: ", \"state\": \"")
    out.append(contentsOf: state.rawValue.utf8)
    out.append(raw: "\", \"bytes\": ")
    out.append(integer: bytes)
    out.append(raw: ", \"totalBytes\": ")
    out.append(integerOrNull: totalBytes)
    if let modifiedAt {
      out.append(raw: ", \"modifiedAt\": ")
      out.append(exactTimeOrNull: modifiedAt)
    }
    out.append(raw: ", \"url\": ")
    out.append(stringOrNull: url)
    out.append(raw: ", \"sha256\": ")
    out.append(stringOrNull: sha256)
    out.append(raw: ", \"etag\": ")
    out.append(stringOrNull: etag)
    if let target {
      out.append(raw: ", \"target\": ")
      out.append(string: target)
    }
    if let error {
      out.append(raw: ", \"error\": ")
      out.append(string: error)
    }
    out.append(raw: "}")
  }
}

extension Sidecar.Resume {
  fileprivate func encode(to out: inout [UInt8]) {
    out.append(raw: "\"")
    out.append(integer: Int64(file))
    out.append(raw: "\": {\"url\": ")
    out.append(string: url)
    out.append(raw: ", \"size\": ")
    out.append(integer: size)
    out.append(raw: ", \"modifiedAt\": ")
    out.append(exactTimeOrNull: modifiedAt)
    out.append(raw: ", \"offset\": ")
    out.append(integer: offset)
    out.append(raw: ", \"data\": {")
    for (index, datum) in data.enumerated() {
      if index > 0 { out.append(raw: ", ") }
      out.append(key: datum.name)
      out.append(raw: ": ")
      out.append(string: datum.value)
    }
    out.append(raw: "}}")
  }
}

extension [UInt8] {
  /// One decimal, rounded down, from 0.0 to 100.0; what is no number is 0.0.
  fileprivate mutating func append(percent: Double) {
    // The addend is for tenths that binary fractions put a hair too low.
    let tenths = percent > 0 ? Int64(Swift.min(percent, 100) * 10 + 1e-9) : 0
    append(integer: tenths / 10)
    append(UInt8(ascii: "."))
    append(UInt8(48 + tenths % 10))
  }
  fileprivate mutating func append(stringOrNull text: String?) {
    if let text { append(string: text) } else { append(raw: "null") }
  }
  fileprivate mutating func append(integerOrNull integer: Int64?) {
    if let integer { append(integer: integer) } else { append(raw: "null") }
  }
  fileprivate mutating func append(timeOrNull time: Int64?) {
    guard let time else { return append(raw: "null") }
    append(UInt8(ascii: "\""))
    append(time: time)
    append(UInt8(ascii: "\""))
  }
  fileprivate mutating func append(exactTimeOrNull time: Int64?) {
    guard let time else { return append(raw: "null") }
    append(UInt8(ascii: "\""))
    append(exactTime: time)
    append(UInt8(ascii: "\""))
  }
}
