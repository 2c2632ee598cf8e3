internal import Configuration
internal import Glibc
internal import Jobs
internal import System
internal import TestKit
internal import Testing

private let day: Int64 = 86400 * second
private let environment = ["TOKEN": "tok-12345", "USER": "me", "EMPTY": "", "LINES": "a\nb"]
private let files: [String: [UInt8]] = [
  "/run/secrets/x": Array("s3cret-x\n".utf8), "/run/secrets/crlf": Array("s3cret-y\r\n".utf8),
  "/run/secrets/two": Array("a\n\n".utf8), "/run/secrets/empty": Array("\n".utf8),
  "/run/secrets/binary": [0xff, 0xfe], "/run/secrets/nul": [0x61, 0],
  "/run/secrets/big": [UInt8](repeating: 0x61, count: (64 << 10) + 2),
]

private func decode(_ text: String) throws(Malformed) -> Configuration {
  try Configuration.decode(
    Array(text.utf8), environment: { environment[$0] },
    readFile: { path in
      guard let bytes = files[path] else { throw Errno.missing }
      return bytes
    })
}

private func destination(_ text: String) throws -> Configuration.Destination {
  try #require(try decode("{\"destinations\": {\"d\": \(text)}}").destinations["d"])
}

/// `+`: more keys for the least http destination, called d.
private let wrong = #"""
  []
    a configuration is a JSON object, not a list
  {"concurrency": 4, "concurrency": 5}
    line 1, column 32: duplicate object key
  {"concurrency": 4
    line 1, column 17: the text ends too early
  {"root": []}
    root: unknown key; the nearest known one is "roots"
  {"recipes": {}}
    recipes: this version doesn't know this key yet
  {"roots": "/data"}
    roots: must be a list of strings, not a string
  {"roots": ["/data", 7]}
    roots[1]: must be a string
  {"roots": ["/data", "data"]}
    roots[1]: must be an absolute path, beginning with "/"
  {"roots": []}
    roots: an empty list would let jobs read nothing; leave it out to allow all
  {"writeRoots": [""]}
    writeRoots[0]: must be an absolute path, beginning with "/"
  {"hosts": ["ok", "*.example.com"]}
    hosts[1]: "*.example.com" must be a host, as "example.com", "example.com:8443", "192.0.2.7" or "[2001:db8::7]:8443", without scheme, path and wildcards
  {"concurrency": 0}
    concurrency: must be a whole number from 1 to 1024
  {"concurrency": "4"}
    concurrency: must be a whole number from 1 to 1024
  {"crashes": 0}
    crashes: must be a whole number from 1 to 1000
  {"attempts": 1001}
    attempts: must be a whole number from 1 to 1000
  {"retention": "7d"}
    retention: must be {"done": …, "failed": …}, not a string
  {"retention": {"done": "7 days"}}
    retention.done: must be a span of time, as "7d", "12h", "30m", "10s" or "500ms"
  {"retention": {"fialed": "7d"}}
    retention.fialed: unknown key; the nearest known one is "failed"
  {"giveUpAfter": "0"}
    giveUpAfter: must be more than 0, or no job would ever run
  {"giveUpAfter": -1}
    giveUpAfter: must be a span of time, as "7d", "12h", "30m", "10s" or "500ms"
  {"destinations": []}
    destinations: must be an object of names and destinations, not a list
  {"destinations": {"a b": {}}}
    destinations."a b": a destination's name has 1 to 64 of A-Z, a-z, 0-9, _ and -
  {"destinations": {"https": {}}}
    destinations.https: a destination can't be called like the scheme of a URL
  {"destinations": {"d": "https://h/"}}
    destinations.d: must be {"type": …, "url": …}, not a string
  {"destinations": {"d": {"url": "https://h/"}}}
    destinations.d.type: is missing; write "http", "form" or "file"
  {"destinations": {"d": {"type": "s3"}}}
    destinations.d.type: "s3" is not known to this version yet
  {"destinations": {"d": {"type": "htpp"}}}
    destinations.d.type: unknown type; the nearest known one is "http"
  {"destinations": {"d": {"type": "http"}}}
    destinations.d.url: is missing; write https://…
  {"destinations": {"d": {"type": "http", "url": "h/in"}}}
    destinations.d.url: must begin with http:// or https://
  {"destinations": {"d": {"type": "http", "url": "ftp://h/in"}}}
    destinations.d.url: must begin with http:// or https://
  {"destinations": {"d": {"type": "http", "url": "https:///in"}}}
    destinations.d.url: names no host
  {"destinations": {"d": {"type": "http", "url": "https://me:pass@h/in"}}}
    destinations.d.url: must not have a user in it; write "user" and "password"
  {"destinations": {"d": {"type": "http", "url": "https://h/in#x"}}}
    destinations.d.url: must not have spaces, control characters or "#" in it
  {"destinations": {"d": {"type": "http", "url": "https://h/in", "path": "/x"}}}
    destinations.d.path: has no meaning for type "http"
  {"destinations": {"d": {"type": "file", "path": "x"}}}
    destinations.d.path: must be an absolute path, beginning with "/"
  {"destinations": {"d": {"type": "file"}}}
    destinations.d.path: is missing; write an absolute directory
  {"destinations": {"d": {"type": "file", "path": "/x", "token": "t"}}}
    destinations.d.token: has no meaning for type "file"
  {"destinations": {"d": {"type": "file", "path": "/x", "tokn": "t"}}}
    destinations.d.tokn: unknown key; the nearest known one is "type"
  {"destinations": {"d": {"type": "form", "url": "https://h/", "method": "PUT"}}}
    destinations.d.method: a form is always sent by POST
  {"destinations": {"d": {"type": "form", "url": "https://h/", "verify": "head"}}}
    destinations.d.verify: "head" needs "type": "http"
  {"destinations": {"d": {"type": "form", "url": "https://h/", "form": {"feild": ""}}}}
    destinations.d.form.feild: unknown key; the nearest known one is "field"
  + "form": {}
    destinations.d.form: needs "type": "form"
  + "slots": 0
    destinations.d.slots: must be a whole number from 1 to 1024
  + "requestsPerSecond": 0
    destinations.d.requestsPerSecond: must be a number from 0.001 to 100000; leave it out for no limit
  + "tokken": "x"
    destinations.d.tokken: unknown key; the nearest known one is "token"
  + "concurrency": 1025
    destinations.d.concurrency: must be a whole number from 1 to 1024
  + "bandwidth": "fast"
    destinations.d.bandwidth: must be a number of bytes, as 500000, "2M" (2,000,000) or "2Mi" (2,097,152)
  + "bandwidth": 0
    destinations.d.bandwidth: must be more than 0; leave it out for no limit
  + "timeout": "0"
    destinations.d.timeout: must be at least 1ms
  + "stallTimeout": true
    destinations.d.stallTimeout: must be a span of time, as "7d", "12h", "30m", "10s" or "500ms"
  + "ca": "ca.pem"
    destinations.d.ca: must be an absolute path, beginning with "/"
  + "key": "/k"
    destinations.d.key: needs "cert", the certificate
  + "keyPassword": "p"
    destinations.d.keyPassword: needs "cert", and "key" unless that holds the key too
  + "proxy": "proxy:3128"
    destinations.d.proxy: must begin with http://, https://, socks5:// or socks5h:// and a host
  + "headers": {"Host": "x"}
    destinations.d.headers.Host: is set by the transfer itself; leave it out
  + "headers": {"X": "${env:LINES}"}
    destinations.d.headers.X: has a line break or another control character in it
  + "headers": {"Authorization": "x"}, "token": "t"
    destinations.d.headers: has "Authorization" in it, which "token" or "user" sets; use one
  + "token": ""
    destinations.d.token: must not be empty
  + "token": "a\nb"
    destinations.d.token: has a line break or another control character in it
  + "token": "a", "user": "b"
    destinations.d.token: and "user" are two ways to sign in; use one
  + "password": "b"
    destinations.d.password: needs "user"
  + "user": "a:b"
    destinations.d.user: must not have ":" in it (RFC 7617)
  + "method": "post"
    destinations.d.method: must be "PUT" or "POST"
  + "verify": "maybe"
    destinations.d.verify: must be "answer" or "head"
  + "token": "${env:NOPE}"
    destinations.d.token: the environment variable "NOPE" is not set
  + "token": "${env:EMPTY}"
    destinations.d.token: the environment variable "EMPTY" is empty
  + "token": "${file:/nope}"
    destinations.d.token: can't read the file "/nope": No such file or directory
  + "token": "${file:relative}"
    destinations.d.token: only ${env:NAME} and ${file:/absolute/path} can stand for a value
  + "token": "${exec:rm}"
    destinations.d.token: only ${env:NAME} and ${file:/absolute/path} can stand for a value
  + "token": "${TOKEN}"
    destinations.d.token: only ${env:NAME} and ${file:/absolute/path} can stand for a value
  + "token": "x${env:TOKEN"
    destinations.d.token: "${" without "}"; it stands for a value, as in ${env:NAME}
  + "token": "${file:/run/secrets/empty}"
    destinations.d.token: the file "/run/secrets/empty" is empty
  + "token": "${file:/run/secrets/binary}"
    destinations.d.token: the file "/run/secrets/binary" is not a text in UTF-8
  + "token": "${file:/run/secrets/nul}"
    destinations.d.token: the file "/run/secrets/nul" is not a text in UTF-8
  + "token": "${file:/run/secrets/big}"
    destinations.d.token: the file "/run/secrets/big" is over 64 KiB
  + "token": "${file:/run/secrets/two}"
    destinations.d.token: has a line break or another control character in it
  """#

@Suite struct ConfigurationTests {
  @Test func anEmptyOneHasTheDefaults() throws {
    let it = try decode("{}")
    #expect(it == Configuration())
    #expect(it.roots == nil && it.writeRoots == nil && it.effectiveWriteRoots == nil)
    #expect(it.concurrency == 4 && it.crashes == 5 && it.attempts == 8)
    #expect(it.retention.done == 7 * day && it.retention.failed == 30 * day)
    #expect(it.giveUpAfter == 5 * day && it.destinations.isEmpty && it.secrets.isEmpty)
    #expect(it.hosts.allows(scheme: "https", host: "anything", port: 1))
  }

  @Test func everyKey() throws {
    let it = try decode(
      """
      {"roots": ["/data", "/srv/"], "writeRoots": ["/out"], "hosts": ["h", "[::1]:8080"],
       "concurrency": 16, "slots": 3, "retention": {"done": "0", "failed": 3600}, "giveUpAfter": "1.5h",
       "crashes": 2, "attempts": 3, "destinations": {"d": {"type": "file", "path": "/out"}}}
      """)
    #expect(it.roots == ["/data", "/srv/"] && it.writeRoots == ["/out"])
    #expect(it.hosts.allows(scheme: "http", host: "h", port: 80))
    #expect(!it.hosts.allows(scheme: "http", host: "g", port: 80))
    #expect(it.concurrency == 16 && it.slots == 3 && it.crashes == 2 && it.attempts == 3)
    #expect(it.retention.done == 0 && it.retention.failed == 3600 * second)
    #expect(it.giveUpAfter == 5400 * second)
    #expect(it.destinations["d"]?.path == "/out" && it.destinations["d"]?.kind == .file)
  }

  @Test func rootsWithoutWriteRootsAllowNoWriting() throws {
    #expect(try decode(#"{"roots": ["/data"]}"#).effectiveWriteRoots == [])
    #expect(try decode(#"{"writeRoots": ["/a"]}"#).effectiveWriteRoots == ["/a"])
  }

  @Test(arguments: examples(wrong))
  func whatIsWrongIsSaidWithItsPlaceAndWithoutValues(it: Example) {
    let text =
      it.text.first == "+"
      ? #"{"destinations": {"d": {"type": "http", "url": "https://h/", "#
        + it.text.dropFirst(2) + "}}}" : it.text
    do throws(Malformed) {
      _ = try decode(text)
      Issue.record("accepted")
    } catch {
      #expect(error.description == it.words)
    }
  }

  @Test func aDestinationWithEverything() throws {
    let it = try destination(
      """
      {"type": "http", "url": "https://${env:USER}.example.com/in/?k=v", "concurrency": 2,
       "bandwidth": "2M", "timeout": "10s", "connectTimeout": 5, "stallTimeout": "1m",
       "ca": "/ca.pem", "cert": "/c.pem", "key": "/k.pem", "keyPassword": "${file:/run/secrets/x}",
       "proxy": "http://me:prox-pass@p:3128", "headers": {"X-Key": "k-${env:TOKEN}-k"},
       "user": "${env:USER}", "password": "${file:/run/secrets/crlf}", "method": "POST",
       "verify": "head"}
      """)
    #expect(it.kind == .http && it.url == "https://me.example.com/in/?k=v")
    #expect(it.concurrency == 2 && it.bandwidth == 2_000_000 && it.timeout == 10 * second)
    #expect(it.connectTimeout == 5 * second && it.stallTimeout == 60 * second)
    #expect(it.ca == "/ca.pem" && it.cert == "/c.pem" && it.key == "/k.pem")
    #expect(it.keyPassword?.value == "s3cret-x" && it.password?.value == "s3cret-y")
    #expect(it.proxy?.value == "http://me:prox-pass@p:3128" && it.user == "me")
    #expect(it.headers == [Job.Header(name: "X-Key", value: "k-tok-12345-k")])
    #expect(it.method == .post && it.verify == .head && it.form == nil)
  }

  @Test func defaultsOfDestinations() throws {
    let http = try destination(#"{"type": "http", "url": "http://h"}"#)
    #expect(http.timeout == 300 * second && http.connectTimeout == 30 * second)
    #expect(http.stallTimeout == 60 * second && http.verify == .answer && http.method == nil)
    #expect(http.concurrency == nil && http.bandwidth == nil && http.form == nil)
    let form = try destination(#"{"type": "form", "url": "http://h"}"#)
    #expect(form.form == Job.Form(field: "file"))
    let own = try destination(
      #"{"type": "form", "url": "http://h", "form": {"field": "f", "fields": {"k": "${env:USER}"}}}"#
    )
    #expect(own.form == Job.Form(field: "f", fields: [.init(name: "k", value: "me")]))
  }

  @Test func secretsAreCollectedAndNeverPrinted() throws {
    let it = try decode(
      """
      {"destinations": {
        "a": {"type": "http", "url": "http://h", "token": "lit-token",
              "headers": {"X-Api-Key": "lit-key", "X": "${env:TOKEN}"}, "cert": "/c",
              "keyPassword": "key-pass", "proxy": "http://u:prox-pass@p"},
        "b": {"type": "http", "url": "http://h", "user": "user-name", "password": "lit-password"},
        "c": {"type": "http", "url": "http://h", "headers": {"Authorization": "Bearer lit-auth"}}}}
      """)
    let secrets = [
      "lit-token", "lit-key", "tok-12345", "key-pass", "prox-pass", "lit-password", "lit-auth",
    ]
    for secret in secrets { #expect(it.secrets.contains(secret), "\(secret)") }
    #expect(!it.secrets.contains("user-name"))
    var text = "\(it) \(String(reflecting: it)) \(it.destinations) \(it.destinations["a"]!)"
    text += "\(it.destinations["a"]!.token!) \(String(reflecting: it.destinations["a"]!.token))"
    dump(it.destinations["a"]!.token, to: &text)
    for secret in secrets { #expect(!text.contains(secret), "\(secret)") }
    #expect(it.redactor.redact("said lit-auth!") == "said •••!")
  }

  @Test func whatAVariableHoldsIsNotExpandedAgain() throws {
    let it = try Configuration.decode(
      Array(
        #"{"destinations": {"d": {"type": "http", "url": "http://h", "token": "a${env:X}b"}}}"#.utf8
      ),
      environment: { _ in "${file:/etc/passwd}" }, readFile: { _ in throw Errno.denied })
    #expect(it.destinations["d"]?.token?.value == "a${file:/etc/passwd}b")
  }

  @Test func aChangedSecretIsAChange() throws {
    let text = Array(
      #"{"destinations": {"d": {"type": "http", "url": "http://h", "token": "${env:T}"}}}"#.utf8)
    func with(_ token: String) throws -> Configuration {
      try Configuration.decode(text, environment: { _ in token }, readFile: { _ in [] })
    }
    #expect(try with("one1") == with("one1"))
    #expect(try with("one1") != with("two2"))
  }

  @Test func syntaxErrorsRepeatNothing() {
    for text in [
      #"{"destinations": {"d": {"token": "hunter2" "x": 1}}}"#,
      "{\"destinations\": {\"d\": {\"token\": \"hunter2\n\"}}}", #"{"d": hunter2}"#,
    ] {
      do throws(Malformed) {
        _ = try decode(text)
        Issue.record("accepted")
      } catch {
        #expect(!error.description.contains("hunter") && error.line > 0)
      }
    }
  }

  @Test func filesAreLoaded() throws {
    var template = Array("/tmp/configuration-XXXXXX".utf8CString)
    let fd = unsafe mkstemp(&template)
    #expect(fd >= 0)
    let path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    defer { unsafe unlink(path) }
    func write(_ text: String) throws {
      ftruncate(fd, 0)
      try Calls.live.write(fd, Array(text.utf8))
      lseek(fd, 0, SEEK_SET)
    }
    try write(#"{"concurrency": 7}"#)
    #expect(try Configuration.load(path).concurrency == 7)
    // A configuration whose token is its own text: two lines, so no token.
    try write(
      #"{"destinations": {"d": {"type": "http", "url": "http://h","# + "\n"
        + #""token": "${file:"# + path + #"}"}}}"#)
    #expect(
      throws: Malformed(
        "destinations.d.token", "has a line break or another control character in it")
    ) { try Configuration.load(path) }
    close(fd)
    #expect(throws: Malformed("", "can't read it: No such file or directory")) {
      try Configuration.load(path + ".none")
    }
    #expect(throws: Malformed("", "can't read it: Invalid argument")) {
      try Configuration.load("/tmp")
    }
  }
}

@Suite struct HostsTests {
  @Test func namesPortsAndAddresses() throws {
    let hosts = try Hosts([
      "example.com", "Files.Example.com:8443", "192.0.2.7", "[2001:db8::7]:444", "[::1]", "dot.",
    ])
    let allowed: [(String, String, Int?)] = [
      ("https", "example.com", nil), ("https", "example.com", 443), ("http", "example.com", 80),
      ("http", "EXAMPLE.com.", nil), ("https", "files.example.com", 8443),
      ("https", "192.0.2.7", 443), ("https", "[2001:DB8:0::7]", 444), ("http", "::1", nil),
      ("http", "[0:0:0:0:0:0:0:1]", 80), ("http", "dot", 80), ("HTTPS", "example.com", 443),
    ]
    for (scheme, host, port) in allowed {
      #expect(hosts.allows(scheme: scheme, host: host, port: port), "\(host)")
    }
    let refused: [(String, String, Int?)] = [
      ("https", "example.com", 80), ("http", "example.com", 443), ("https", "a.example.com", 443),
      ("https", "files.example.com", nil), ("https", "2001:db8::7", 443), ("https", "", 443),
      ("https", "192.0.2.8", 443), ("gopher", "example.com", nil), ("https", "example.com\0", 443),
      ("https", "éxample.com", 443), ("https", "[::ffff:192.0.2.7]", 443),
    ]
    for (scheme, host, port) in refused {
      #expect(!hosts.allows(scheme: scheme, host: host, port: port), "\(host)")
    }
  }

  @Test(arguments: [
    "", ".", "a..b", "a b", "https://a", "a/b", "*", "a:", "a:0", "a:65536", "a:x", "a:1:2", "::1",
    "[::1", "[::1]x", "[::1]:", "[a]", "a\u{301}", "a:+1", "ü.example",
  ])
  func whatIsNoHostIsRefused(text: String) {
    #expect(throws: Malformed.self) { try Hosts([text]) }
  }

  @Test func noneMeansAll() throws {
    #expect(try Hosts([]).allowsEverything && Hosts().allows(scheme: "x", host: "y", port: nil))
  }
}

@Suite struct RedactorTests {
  @Test func everySecretIsTakenOut() {
    let redactor = Redactor(["abcd", "abcdef", "xyz", "päss"])
    #expect(redactor.redact("abcdef abcd abcabcd") == "••• ••• abc•••")
    #expect(redactor.redact("päss xyz") == "••• xyz")
    #expect(redactor.redact("nothing") == "nothing")
    #expect(redactor.redact("") == "" && Redactor([]).redact("abcd") == "abcd")
  }

  @Test func noSecretOutlivesIt() {
    var random = Seeded(for: "noSecretOutlivesIt")
    for _ in 0..<500 {
      let secrets = (0..<3).map { _ in random.text(upTo: 12) }
      let text = (0..<6).map { _ in
        random.chance(60) ? secrets.randomElement(using: &random)! : random.text(upTo: 4)
      }.joined()
      let out = Redactor(secrets).redact(text)
      for secret in secrets where secret.utf8.count >= 4 {
        #expect(out.firstBytes(secret) == nil, "seed \(random.seed)")
      }
    }
  }
}
