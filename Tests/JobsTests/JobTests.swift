internal import Jobs
internal import Testing

private func decode(_ text: String) throws(Refusal) -> Job { try Job.decode(Array(text.utf8)) }

private func refusal(_ text: String) -> Refusal? {
  do throws(Refusal) {
    _ = try decode(text)
    return nil
  } catch {
    return error
  }
}

/// The least job with more keys.
private func job(_ more: String) -> String {
  #"{"to": "https://h/in/", "files": ["/a.jpg"]"# + (more.isEmpty ? "" : ", ") + more + "}"
}
private func job(file: String) -> String { #"{"to": "https://h/in/", "files": ["# + file + "]}" }

/// A job and what is said of it. `+`: more keys for the least job, `-`: the files of it.
private let wrongJobs = #"""
  [1]
    a job is a JSON object, {"to": …, "files": […]}, not a list
  {"to": "a:", "to": "b:"}
    line 1, column 17: duplicate object key near '"to"'
  {"files": ["/a"]}
    to: is missing; write a URL, or NAME:PATH with a destination's name
  {"to": 7}
    to: must be a string, not a number
  {"to": ""}
    to: must not be empty; write a URL or NAME:PATH
  {"to": "a:"}
    files: is missing; write a list of absolute paths
  {"to": "a:", "files": []}
    files: must not be empty: a job without files needs a "notify", which this version doesn't know yet
  {"to": "a:", "files": "/a"}
    files: must be a list of absolute paths, not a string
  + "notbefore": "x"
    notbefore: unknown key; the nearest known one is "notBefore"
  + "a\nb": 1
    "a�b": unknown key; the nearest known one is "to"
  + "notify": {}
    notify: this version doesn't know this key yet
  + "after": []
    after: this version doesn't know this key yet
  + "group": "a\nb"
    group: must have 1 to 200 bytes and no control characters
  + "dedupe": ""
    dedupe: must have 1 to 200 bytes and no control characters
  + "priority": 10
    priority: must be a whole number from 0 to 9
  + "priority": -1
    priority: must be a whole number from 0 to 9
  + "priority": 5.0
    priority: must be a whole number from 0 to 9
  + "priority": null
    priority: must be a whole number from 0 to 9
  + "attempts": 0
    attempts: must be a whole number from 1 to 1000
  + "attempts": 1001
    attempts: must be a whole number from 1 to 1000
  + "parallel": 0
    parallel: must be a whole number from 1 to 64
  + "parallel": 65
    parallel: must be a whole number from 1 to 64
  + "onError": "go"
    onError: must be "stop" or "continue"
  + "method": "put"
    method: must be "PUT" or "POST"
  + "method": "PUT", "form": {}
    method: a "form" is always sent by POST; leave "method" out
  + "form": "file"
    form: must be {"field": …, "fields": {…}}, not a string
  + "form": {"feild": "x"}
    form.feild: unknown key; the nearest known one is "field"
  + "form": {"field": ""}
    form.field: a form field's name has 1 to 255 bytes and no control characters
  + "form": {"fields": {"a": true}}
    form.fields.a: must be a string or a number, not true or false
  + "notBefore": "tomorrow"
    notBefore: must be a time with date and zone, as "2026-12-01T08:00:00Z" or "2026-12-01T09:00:00+01:00", from 1970 to 2200
  + "notBefore": "2026-12-02T00:00:00Z", "expires": "2026-12-02T00:00:00Z"
    expires: is not after "notBefore": the job could never run
  + "headers": []
    headers: must be an object of names and strings, not a list
  + "headers": {"X": 1}
    headers.X: must be a string, not a number
  + "headers": {"Content-Length": "1"}
    headers.Content-Length: is set by the transfer itself; leave it out
  + "headers": {"Proxy-Authorization": "1"}
    headers.Proxy-Authorization: is set by the transfer itself; leave it out
  + "headers": {"A:": "1"}
    headers."A:": is no header's name (letters, digits and !#$%&'*+-.^_`|~)
  + "headers": {"X": "a\r\nHost: b"}
    headers.X: has a line break or another control character in it
  + "headers": {"X-A": "1", "x-a": "2"}
    headers.x-a: is there twice; upper and lower case make no difference in headers
  - 7
    files[0]: must be a path or {"path", "as", "type"}, not a number
  - "a.jpg"
    files[0]: must be an absolute path, beginning with "/"
  - ""
    files[0]: must be an absolute path, beginning with "/"
  - "/a/"
    files[0]: must name a file, not a directory
  - "/a/.."
    files[0]: must name a file, not a directory
  - "/a", {"path": "b"}
    files[1].path: must be an absolute path, beginning with "/"
  - {"as": "b"}
    files[0].path: is missing
  - {"path": "/a", "type": 7}
    files[0].type: must be a string, not a number
  - {"path": "/a", "type": "jpeg"}
    files[0].type: must be a media type, as "image/jpeg"
  - {"path": "/a", "type": "a/b;\n"}
    files[0].type: must be a media type, as "image/jpeg"
  - {"path": "/a", "typ": "a/b"}
    files[0].typ: unknown key; the nearest known one is "type"
  - {"path": "/a", "prepare": "x"}
    files[0].prepare: this version doesn't know this key yet
  - {"path": "/a", "as": ""}
    files[0].as: must not be empty
  - {"path": "/a", "as": "/b"}
    files[0].as: must not begin or end with "/"
  - {"path": "/a", "as": "b/"}
    files[0].as: must not begin or end with "/"
  - {"path": "/a", "as": "a//b"}
    files[0].as: must not have "//" in it
  - {"path": "/a", "as": "a/../b"}
    files[0].as: must not have "." or ".." between slashes
  - {"path": "/a", "as": "."}
    files[0].as: must not have "." or ".." between slashes
  - {"path": "/a", "as": "..\/\u0301b"}
    files[0].as: must not have "." or ".." between slashes
  - {"path": "/a", "as": "\/\u0301b"}
    files[0].as: must not begin or end with "/"
  - {"path": "/a", "as": "a\tb"}
    files[0].as: has a control character in it
  - "/a\nb"
    files[0]: the file's name has a control character in it; say by "as" what it is to be called over there
  - "/x/a.jpg", "/y/b.jpg", "/y/a.jpg"
    files[2]: "/y/a.jpg" and "/x/a.jpg" (files[0]) would both be called "a.jpg" over there; give one of them another "as"
  {"to": "https://h/in", "files": ["/a", "/b"]}
    to: names one place for 2 files; end it in "/" so that each file keeps its name
  {"to": "photos:in", "files": ["/a", "/b"]}
    to: names one place for 2 files; end it in "/" so that each file keeps its name
  """#

@Suite struct JobTests {
  @Test func theLeastJob() throws {
    let job = try decode(#"{"to": "https://files.example.com/in/", "files": ["/data/a.jpg"]}"#)
    #expect(job.destination == .url("https://files.example.com/in/"))
    #expect(job.files == [Job.File(path: "/data/a.jpg", remoteName: "a.jpg")])
    #expect(job.priority == 5 && job.parallel == 1 && job.onError == .stop)
    #expect(job.attempts == nil && job.method == nil && job.form == nil && job.title == nil)
    #expect(job.notBefore == nil && job.expires == nil && job.headers.isEmpty && job.extra.isEmpty)
  }

  @Test func everyKeyOfToday() throws {
    let job = try decode(
      """
      {"to": "photos:2026/11/", "title": "Site visit",
       "files": ["/data/a.jpg", {"path": "/data/b.jpg", "as": "sub/cover.jpg", "type": "image/jpeg"}],
       "priority": 0, "notBefore": "2026-12-01T08:00:00Z", "expires": "2026-12-08T01:00:00.5+01:00",
       "attempts": 3, "parallel": 64, "onError": "continue", "format": 1, "method": "POST",
       "form": {"field": "photo", "fields": {"order": "42", "n": 7, "f": 1.5}},
       "headers": {"X-One": "1", "Authorization": "Bearer x"}, "x-user": "7", "x-tree": {"a": [1, 2]}}
      """)
    #expect(job.destination == .named("photos", path: "2026/11/"))
    #expect(
      job.files[1] == .init(path: "/data/b.jpg", remoteName: "sub/cover.jpg", type: "image/jpeg"))
    #expect(job.title == "Site visit" && job.priority == 0 && job.attempts == 3)
    #expect(job.parallel == 64 && job.onError == .continue && job.method == .post)
    #expect(job.notBefore == 1_796_112_000_000_000_000)
    #expect(job.expires == 1_796_688_000_500_000_000)
    #expect(
      job.form
        == Job.Form(
          field: "photo",
          fields: [
            .init(name: "order", value: "42"), .init(name: "n", value: "7"),
            .init(name: "f", value: "1.5"),
          ]))
    #expect(
      job.headers == [
        .init(name: "X-One", value: "1"), .init(name: "Authorization", value: "Bearer x"),
      ])
    #expect(
      job.extra == [
        .init(key: "x-user", json: "\"7\""), .init(key: "x-tree", json: #"{"a":[1,2]}"#),
      ])
  }

  @Test func aFormImpliesPost() throws {
    let it = try decode(job(#""form": {}"#))
    #expect(it.method == .post && it.form == Job.Form(field: "file"))
  }

  @Test func formatIsJudgedBeforeAnyOtherKey() {
    #expect(refusal(#"{"files": 7, "new": {}, "format": 2}"#) == .newerFormat(2))
    #expect(refusal(#"{"format": 9223372036854775807}"#) == .newerFormat(.max))
    #expect(
      refusal(#"{"format": 2}"#)?.description
        == "format 2 is newer than this version knows (1); it waits for a newer worker")
    for bad in ["0", "\"1\"", "1.0", "null", "-1"] {
      #expect(
        refusal("{\"format\": \(bad)}")
          == .invalid(Malformed("format", "must be a whole number from 1")))
    }
  }

  @Test func halfAJobIsMalformedAndNotInvalid() throws {
    let whole = job(#""title": "Ü", "priority": 5"#)
    for end in 0..<whole.utf8.count {
      guard
        case .malformed? = refusal(String(decoding: Array(whole.utf8.prefix(end)), as: UTF8.self))
      else {
        Issue.record("\(end)")
        continue
      }
    }
    #expect(throws: Never.self) { try decode(whole) }
    #expect(
      refusal("{\"to\":\n7,}")?.description
        == "not JSON: line 2, column 3: string or '}' expected near '}'")
  }

  @Test func aCutInsideACharacterIsMalformed() {
    let bytes = Array(job(#""title": "Ü"#).utf8).dropLast(2)
    do throws(Refusal) {
      _ = try Job.decode(Array(bytes))
      Issue.record("accepted")
    } catch {
      guard case .malformed = error else {
        Issue.record("\(error)")
        return
      }
    }
  }

  /// What a person finds in the sidecar of a job that will never run.
  @Test(arguments: examples(wrongJobs))
  func whatIsWrongIsSaidWithItsPlace(it: Example) {
    let text =
      it.text.first == "+"
      ? job(String(it.text.dropFirst(2)))
      : it.text.first == "-" ? job(file: String(it.text.dropFirst(2))) : it.text
    let error = refusal(text)
    guard case .invalid? = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(error?.description == it.words)
  }

  @Test(arguments: [
    "params", "notify", "from", "into", "prepare", "after",
  ])
  func aKeyOfALaterVersionIsNotATypo(key: String) {
    #expect(
      refusal(job("\"\(key)\": 1"))
        == .invalid(Malformed(key, "this version doesn't know this key yet")))
  }

  @Test(arguments: [
    "Host", "content-length", "Transfer-Encoding", "connection", "Expect", "trailer", "TE",
    "upgrade", "proxy-connection", "Idempotency-Key",
  ])
  func headersOfTheTransferItselfAreRefused(name: String) {
    #expect(
      refusal(job("\"headers\": {\"\(name)\": \"1\"}"))
        == .invalid(
          Malformed("headers.\(name)", "is set by the transfer itself; leave it out")))
  }

  @Test func limitsHoldAtTheirEdge() throws {
    func x(_ count: Int) -> String { String(repeating: "x", count: count) }
    func accepts(_ text: String) -> Bool { refusal(text) == nil }
    #expect(accepts(job("\"title\": \"\(x(1000))\"")) && !accepts(job("\"title\": \"\(x(1001))\"")))
    #expect(accepts(job(file: "{\"path\": \"/a\", \"as\": \"\(x(255))\"}")))
    #expect(!accepts(job(file: "{\"path\": \"/a\", \"as\": \"\(x(256))\"}")))
    let long = Array(repeating: x(204), count: 5).joined(separator: "/")  // 1,024 bytes
    #expect(accepts(job(file: "{\"path\": \"/a\", \"as\": \"\(long)\"}")))
    #expect(!accepts(job(file: "{\"path\": \"/a\", \"as\": \"\(long)x\"}")))
    let directory = "/" + Array(repeating: x(99), count: 40).joined(separator: "/") + "/"
    #expect(accepts(job(file: "\"\(directory + x(4095 - directory.utf8.count))\"")))
    #expect(!accepts(job(file: "\"\(directory + x(4096 - directory.utf8.count))\"")))
    let headers = { (count: Int) in (0..<count).map { "\"h\($0)\": \"\"" }.joined(separator: ",") }
    #expect(accepts(job("\"headers\": {\(headers(64))}")))
    #expect(!accepts(job("\"headers\": {\(headers(65))}")))
    #expect(accepts(job("\"x-a\": \"\(x(65531))\"")) && !accepts(job("\"x-a\": \"\(x(65532))\"")))
    #expect(accepts(job("\"priority\": 0")) && accepts(job("\"priority\": 9")))
    #expect(accepts(job("\"attempts\": 1000")))
  }

  @Test func aHundredThousandFilesAreAJobAndOneMoreIsNot() throws {
    func files(_ count: Int) -> String {
      "{\"to\":\"a:\",\"files\":["
        + (0..<count).map { "\"/\(String($0, radix: 36))\"" }.joined(separator: ",") + "]}"
    }
    #expect(try decode(files(100_000)).files.count == 100_000)
    #expect(
      refusal(files(100_001))?.description
        == "files: a job has at most 100,000 files, this one 100001")
    let long = files(100_000).replacing(
      "a:", with: "a:" + String(repeating: "x", count: 2000) + "/")
    #expect(
      refusal(long)?.description
        == "files: too many for so long a \"to\"; make several jobs of them")
    #expect(
      refusal(job("\"title\": \"" + String(repeating: "x", count: 1 << 20) + "\""))?.description
        .hasPrefix("a job has at most 1 MiB, this one 10") == true)
  }

  @Test func namesAreComparedByTheirBytes() throws {
    let both = #"{"path": "/a", "as": "\u00e9"}, {"path": "/b", "as": "e\u0301"}"#
    #expect(try decode(job(file: both)).files.count == 2)
  }

  @Test func severalFilesToOnePlaceAreFineByPost() throws {
    for more in [#""method": "POST""#, #""form": {}"#] {
      let text = #"{"to": "https://h/upload", "files": ["/x/a", "/y/a"], "# + more + "}"
      #expect(try decode(text).files.count == 2)
    }
    #expect(throws: Never.self) {
      try decode(#"{"to": "https://h/upload/", "files": ["/x/a", "/y/a"], "form": {}}"#)
    }
  }

  @Test func aPathMayHoldWhatAFileNameMay() throws {
    #expect(
      try decode(job(file: #"{"path": "/a\nb \"ü", "as": "ok"}"#)).files[0].path == "/a\nb \"ü")
    #expect(try decode(job(file: #""/x/../a""#)).files[0].remoteName == "a")
  }
}

private let wrongDestinations = #"""
  photos
    "photos" is neither a URL (https://…) nor NAME:PATH with a destination of the configuration (A-Z, a-z, 0-9, _ and -, up to 64)
  http:/h/in/
    "http:/h/in/" isn't a URL; write http://…
  p:/a
    the path after "p:" must not begin with "/"; it is below the destination's own url
  p:a/../b
    the path after "p:" must not have "." or ".." in it
  p:.
    the path after "p:" must not have "." or ".." in it
  gopher://h/
    this version sends to http://, https:// and file:// URLs, not to "gopher://"
  https://h/a b
    has a space in it; write %20
  https://h/a#b
    has a "#" in it, which never reaches a server; write %23
  https:///a
    the URL names no host
  https://:80/a
    the URL names no host
  https://user@/a
    the URL names no host
  file://srv/in/
    a file URL has three slashes, as in file:///srv/in/
  file://
    a file URL has three slashes, as in file:///srv/in/
  """#

@Suite struct JobDestinationTests {
  private func parse(_ text: String) throws -> Job.Destination { try Job.Destination(text) }

  @Test(arguments: [
    ("https://h/in/", true), ("https://h/in", false), ("https://h", true), ("https://h/", true),
    ("https://h/in/?sig=a/b", true), ("https://h/in?dir=x/", false), ("https://h?x", true),
    ("file:///srv/in/", true), ("file://localhost/srv/in", false), ("HTTPS://h/in/", true),
    ("https://u:p@[::1]:8443/in/", true),
  ])
  func aURLIsKeptAndSaysWhetherItTakesNames(text: String, takesNames: Bool) throws {
    #expect(try parse(text) == .url(text))
    #expect(try parse(text).takesNames == takesNames)
  }

  @Test(arguments: [
    ("photos:", "photos", "", true), ("photos:2026/11/", "photos", "2026/11/", true),
    ("a-B_9:x:y", "a-B_9", "x:y", false), ("p:a//b", "p", "a//b", false),
    ("p:...", "p", "...", false),
  ])
  func aNameAndAPath(text: String, name: String, path: String, takesNames: Bool) throws {
    #expect(try parse(text) == .named(name, path: path))
    #expect(try parse(text).takesNames == takesNames)
  }

  @Test(arguments: examples(wrongDestinations))
  func whatIsNeitherIsRefused(it: Example) {
    #expect(throws: Malformed("", it.words)) { try parse(it.text) }
  }

  @Test func hiddenSlashesAndControlCharactersAreRefused() {
    #expect(throws: Malformed.self) { try parse("") }
    #expect(throws: Malformed("", "the path after \"p:\" must not have \".\" or \"..\" in it")) {
      try parse("p:../\u{301}b")
    }
    #expect(throws: Malformed("", "has a control character in it")) { try parse("p:a\nb") }
    #expect(throws: Malformed("", "is longer than 8,192 bytes")) {
      try parse("https://h/" + String(repeating: "x", count: 8192))
    }
  }

  @Test func destinationNamesHaveALimit() throws {
    let longest = String(repeating: "n", count: 64)
    #expect(try parse(longest + ":") == .named(longest, path: ""))
    #expect(throws: Malformed.self) { try parse(longest + "n:") }
    #expect(throws: Malformed.self) { try parse(":x") }
    #expect(throws: Malformed.self) { try parse("ü:x") }
  }
}
