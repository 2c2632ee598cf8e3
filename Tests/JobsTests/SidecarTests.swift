internal import Jobs
internal import TestKit
internal import Testing

@Suite struct SidecarTests {
  private func decode(_ text: String) -> Sidecar? { Sidecar.decode(Array(text.utf8)) }

  @Test func theTextIsForPeopleFirst() {
    var it = Sidecar(
      state: .active, job: "site-visit", id: "i1234-6f", queuedAt: 1_796_112_000_000_000_000,
      updatedAt: 1_796_112_012_900_000_000)
    it.phase = .sending
    it.percent = 41.79
    it.title = "Site \"visit\""
    it.bytes = 437_253_120
    it.totalBytes = 1_048_576_000
    it.bytesPerSecond = 52_428_800
    it.etaSeconds = 12
    it.attempt = 1
    it.worker = "host-a/6f1c"
    it.startedAt = 1_796_112_001_000_000_000
    it.files = [
      .init(
        path: "/data/a.jpg", remoteName: "a.jpg", state: .done, bytes: 1_048_576,
        totalBytes: 1_048_576, modifiedAt: 1_796_000_000_000_000_007, url: "https://h/a.jpg",
        sha256: "9f", etag: "\"x\""),
      .init(path: "/data/b.jpg", remoteName: "b.jpg"),
    ]
    it.resume = [
      .init(
        file: 1, url: "https://h/b.jpg", size: 9, modifiedAt: 1_796_000_000_000_000_000, offset: 4,
        data: [.init(name: "upload", value: "u1")])
    ]
    it.extra = [.init(key: "x-user", json: "\"7\"")]
    let expected = #"""
      {
        "state": "active", "phase": "sending", "percent": 41.7, "error": null,
        "job": "site-visit", "id": "i1234-6f", "run": 1, "title": "Site \"visit\"", "bytes": 437253120, "totalBytes": 1048576000, "bytesPerSecond": 52428800, "etaSeconds": 12,
        "attempt": 1, "crashes": 0, "worker": "host-a/6f1c", "queuedAt": "2026-12-01T08:00:00Z", "startedAt": "2026-12-01T08:00:01Z", "updatedAt": "2026-12-01T08:00:12Z", "finishedAt": null,
        "files": [
          {"path": "/data/a.jpg", "as": "a.jpg", "state": "done", "bytes": 1048576, "totalBytes": 1048576, "modifiedAt": "2026-11-30T00:53:20.000000007Z", "url": "https://h/a.jpg", "sha256": "9f", "etag": "\"x\""},
          {"path": "/data/b.jpg", "as": "b.jpg", "state": "waiting", "bytes": 0, "totalBytes": null, "url": null, "sha256": null, "etag": null}
        ],
        "wait": null, "resume": {
          "1": {"url": "https://h/b.jpg", "size": 9, "modifiedAt": "2026-11-30T00:53:20Z", "offset": 4, "data": {"upload": "u1"}}
        },
        "x-user": "7"
      }

      """#
    #expect(String(decoding: it.encoded(), as: UTF8.self) == expected)
  }

  @Test func aFailureSaysWhatAndWhatToDo() {
    var it = Sidecar(state: .pending, job: "j", id: "i", queuedAt: 0, updatedAt: 0)
    it.error = .init(
      kind: "unreachable", status: 503, message: "busy", advice: "wait",
      retryAt: 1_796_112_000_500_000_000)
    it.wait = .init(until: 1_796_112_000_500_000_000, mtime: 1, reason: "busy")
    it.failures = 2
    it.mayRefund = true
    let text = String(decoding: it.encoded(), as: UTF8.self)
    #expect(
      text.contains(
        #""error": {"kind": "unreachable", "status": 503, "message": "busy", "advice": "wait", "retryAt": "2026-12-01T08:00:00.500000000Z"},"#
      ))
    #expect(
      text.contains(
        #""wait": {"until": "2026-12-01T08:00:00.500000000Z", "mtime": "1970-01-01T00:00:00.000000001Z", "reason": "busy"}, "resume": {},"#
      ))
    #expect(text.hasSuffix("  \"failures\": 2,\n  \"mayRefund\": true\n}\n"))
  }

  /// By jansson: the writer is ours, the reader is not.
  @Test func whatWasWrittenIsReadAgain() throws {
    var random = Seeded(for: "whatWasWrittenIsReadAgain")
    for round in 0..<3_000 {
      let it = random.sidecar()
      let bytes = it.encoded()
      let json = try? JSON(parsing: bytes, lenient: true)
      #expect(json != nil, "seed \(random.seed), round \(round)")
      let again = Sidecar.decode(bytes)
      #expect(again == it, "seed \(random.seed), round \(round)")
      // `==` of strings is looser than bytes.
      #expect(again?.encoded() == bytes, "seed \(random.seed), round \(round)")
    }
  }

  @Test func noControlCharacterReachesATerminal() {
    var random = Seeded(for: "noControlCharacterReachesATerminal")
    for _ in 0..<500 {
      let text = String(decoding: random.sidecar().encoded(), as: UTF8.self)
      #expect(
        !text.replacing("\n", with: "").hasControlCharacters, "seed \(random.seed)")
    }
  }

  @Test func percentHasOneDecimalAndIsNeverRoundedUp() {
    func percent(_ value: Double) -> String {
      var it = Sidecar(state: .active, job: "", id: "i", queuedAt: 0, updatedAt: 0)
      it.percent = value
      let text = String(decoding: it.encoded(), as: UTF8.self)
      return String(text[text.firstRange(of: "percent\": ")!.upperBound...].prefix { $0 != "," })
    }
    for tenths in 0...1000 {
      #expect(percent(Double(tenths) / 10) == "\(tenths / 10).\(tenths % 10)")
    }
    #expect(percent(99.999) == "99.9")
    #expect(percent(-5) == "0.0" && percent(.nan) == "0.0" && percent(.infinity) == "100.0")
  }

  @Test(arguments: [
    "", " ", "\0\0\0", "{", "[]", "7", "{}", #"{"state": "active"}"#, #"{"id": "i"}"#,
    #"{"state": "active", "id": ""}"#, #"{"state": "lost", "id": "i"}"#,
    #"{"state": 7, "id": "i"}"#, #"{"state": "active", "id": 7}"#,
  ])
  func whatIsNoSidecarCountsAsNone(text: String) { #expect(decode(text) == nil) }

  @Test func halfASidecarCountsAsNone() {
    var random = Seeded(for: "halfASidecarCountsAsNone")
    let bytes = random.sidecar().encoded()
    for end in 0..<bytes.count - 2 {
      #expect(Sidecar.decode(Array(bytes.prefix(end))) == nil, "seed \(random.seed), \(end)")
    }
  }

  @Test func unknownAndMistypedKeysAreIgnored() {
    let it = decode(
      #"""
      {"state": "done", "id": "i", "percent": "many", "error": 7, "run": -3, "bytes": -1,
       "attempt": 1e9, "crashes": 99999999999, "queuedAt": "soon", "updatedAt": 3, "wait": [],
       "files": [{"path": "/a", "state": "odd", "bytes": "x", "modifiedAt": false}], "resume": {
         "x": {}, "-1": {}, "100000": {"url": "u", "size": 1, "modifiedAt": "1970-01-01T00:00:00Z", "offset": 0},
         "0": {"url": "u", "size": 1, "modifiedAt": "1970-01-01T00:00:00Z", "offset": 2},
         "2": {"url": "u", "size": 1, "modifiedAt": "1970-01-01T00:00:00Z", "offset": 1, "data": {"a": 1, "b": "2"}}},
       "notify": {"state": "waiting"}, "later": {"a": [1]}}
      """#)
    var expected = Sidecar(state: .done, job: "", id: "i", queuedAt: 0, updatedAt: 0)
    expected.files = [.init(path: "/a", remoteName: "")]
    expected.resume = [
      .init(
        file: 2, url: "u", size: 1, modifiedAt: 0, offset: 1, data: [.init(name: "b", value: "2")])
    ]
    #expect(it == expected)
  }

  /// An index into the job's files must not shift.
  @Test func aListOfFilesIsReadWholeOrNotAtAll() {
    #expect(
      decode(#"{"state": "done", "id": "i", "files": [{"path": "/a"}, 7, {"path": "/b"}]}"#)?
        .files == [])
  }

  @Test func manyFilesAreWrittenAndRead() throws {
    var it = Sidecar(state: .active, job: "j", id: "i", queuedAt: 0, updatedAt: 0)
    for index in 0..<Job.fileLimit {
      it.files.append(.init(path: "/\(index)", remoteName: "\(index)"))
    }
    #expect(Sidecar.decode(it.encoded()) == it)
    it.files.append(.init(path: "/x", remoteName: "x"))
    #expect(try #require(Sidecar.decode(it.encoded())).files == [])
  }
}
