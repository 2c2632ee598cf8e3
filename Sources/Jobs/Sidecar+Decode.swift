extension Sidecar {
  /// Bytes of a sidecar that are looked at; a job's largest possible one is smaller.
  package static let sizeLimit: Int64 = 256 << 20

  /// Reads what a worker wrote; nil (as good as none) when it is empty, no JSON object, too large,
  /// or has no known state or no id.
  ///
  /// Unknown keys and keys of an unexpected kind are ignored, so that a person's edit or another
  /// version's keys can't stop a job.
  package static func decode(_ bytes: [UInt8]) -> Sidecar? {
    guard !bytes.isEmpty, bytes.count <= sizeLimit,
      let json = try? JSON(parsing: bytes, lenient: true), json.kind == .object,
      let state = json.member("state")?.string.flatMap(State.init(rawValue:)),
      let id = json.member("id")?.string, !id.isEmpty
    else { return nil }
    let queuedAt = json.time("queuedAt")
    let updatedAt = json.time("updatedAt")
    var it = Sidecar(
      state: state, job: json.member("job")?.string ?? "", id: id,
      queuedAt: queuedAt ?? updatedAt ?? 0, updatedAt: updatedAt ?? queuedAt ?? 0)
    it.phase = json.member("phase")?.string.flatMap(Phase.init(rawValue:))
    it.percent = min(max(json.member("percent")?.number ?? 0, 0), 100)
    it.error = json.member("error").flatMap(Failure.init)
    it.run = json.count("run", atLeast: 1) ?? 1
    it.title = json.member("title")?.string
    it.bytes = json.size("bytes") ?? 0
    it.totalBytes = json.size("totalBytes")
    it.bytesPerSecond = json.size("bytesPerSecond")
    it.etaSeconds = json.size("etaSeconds")
    it.attempt = json.count("attempt") ?? 0
    it.crashes = json.count("crashes") ?? 0
    it.worker = json.member("worker")?.string
    it.startedAt = json.time("startedAt")
    it.finishedAt = json.time("finishedAt")
    it.files = json.member("files").map(files) ?? []
    it.wait = json.member("wait").flatMap(Wait.init)
    it.resume = (json.member("resume")?.members ?? []).compactMap(Resume.init)
      .sorted { $0.file < $1.file }
    it.failures = json.count("failures") ?? 0
    it.crashProgress = json.size("crashProgress")
    it.boot = json.member("boot")?.string
    it.group = json.member("group")?.string
    it.duplicateOf = json.member("duplicateOf")?.string
    it.mayRefund = json.member("mayRefund")?.boolean ?? false
    for (key, value) in json.members where key.utf8.starts(with: "x-".utf8) {
      it.extra.append(Job.Extra(key: key, json: value.compact))
    }
    return it
  }

  /// A list with one that can't be read counts as none: the index says which file is which.
  private static func files(_ json: JSON) -> [FileStatus] {
    guard json.count <= Job.fileLimit else { return [] }
    var all: [FileStatus] = []
    all.reserveCapacity(json.count)
    for index in 0..<json.count {
      guard let file = json.element(index).flatMap(FileStatus.init) else { return [] }
      all.append(file)
    }
    return all
  }
}

extension Sidecar.Failure {
  fileprivate init?(_ json: JSON) {
    guard json.kind == .object else { return nil }
    self.init(
      kind: json.member("kind")?.string ?? "", status: json.count("status"),
      message: json.member("message")?.string ?? "", advice: json.member("advice")?.string,
      retryAt: json.time("retryAt"))
  }
}

extension Sidecar.FileStatus {
  fileprivate init?(_ json: JSON) {
    guard let path = json.member("path")?.string else { return nil }
    self.init(
      path: path, remoteName: json.member("as")?.string ?? "",
      state: json.member("state")?.string.flatMap(Sidecar.FileState.init(rawValue:)) ?? .waiting,
      bytes: json.size("bytes") ?? 0, totalBytes: json.size("totalBytes"),
      modifiedAt: json.time("modifiedAt"), url: json.member("url")?.string,
      target: json.member("target")?.string,
      sha256: json.member("sha256")?.string, etag: json.member("etag")?.string,
      error: json.member("error")?.string)
  }
}

extension Sidecar.Wait {
  fileprivate init?(_ json: JSON) {
    guard let mtime = json.time("mtime") else { return nil }
    self.init(
      until: json.time("until"), mtime: mtime, reason: json.member("reason")?.string ?? "")
  }
}

extension Sidecar.Resume {
  fileprivate init?(_ key: String, _ json: JSON) {
    guard let file = Int(key), 0..<Job.fileLimit ~= file, let url = json.member("url")?.string,
      let size = json.size("size"), let modifiedAt = json.time("modifiedAt"),
      let offset = json.size("offset"), offset <= size
    else { return nil }
    let data = (json.member("data")?.members ?? []).compactMap { name, value in
      value.string.map { Sidecar.Datum(name: name, value: $0) }
    }
    self.init(
      file: file, url: url, size: size, modifiedAt: modifiedAt, offset: offset, data: data)
  }
}

extension JSON {
  fileprivate func time(_ key: String) -> Int64? { member(key)?.string.flatMap(Times.parse) }
  /// Not negative.
  fileprivate func size(_ key: String) -> Int64? {
    member(key)?.integer.flatMap { $0 < 0 ? nil : $0 }
  }
  /// Small enough that counting on can't overflow.
  fileprivate func count(_ key: String, atLeast least: Int64 = 0) -> Int? {
    member(key)?.integer.flatMap { least...1_000_000_000 ~= $0 ? Int($0) : nil }
  }
}
