internal import Loop
internal import System
internal import TestKit
internal import Testing
internal import Transfer

extension Transfers {
  @Suite(.timeLimit(.minutes(1))) struct FormTests {
    let folder = Folder()

    /// A multipart body's parts: their headers and bytes (RFC 2046, 5.1.1).
    private func parts(_ name: String) throws -> [(head: String, bytes: [UInt8])] {
      let (head, body) = try #require(nginx.raw(name))
      let type = try #require(head.header("content-type"))
      #expect(type.hasPrefix("multipart/form-data; boundary="))
      let boundary = "--" + type.split(separator: "=")[1]
      var parts: [(String, [UInt8])] = []
      var rest = body[...]
      func cut(_ mark: String) -> [UInt8]? {
        let mark = Array(mark.utf8)
        for i in rest.indices where rest[i] == mark[0] && rest[i...].starts(with: mark) {
          defer { rest = rest[(i + mark.count)...] }
          return Array(rest[..<i])
        }
        return nil
      }
      #expect(cut("\(boundary)\r\n") == [])
      while let head = cut("\r\n\r\n"), let bytes = cut("\r\n\(boundary)") {
        parts.append((String(decoding: head, as: UTF8.self), bytes))
        _ = cut("\r\n")
      }
      return parts
    }

    @Test(arguments: [0, 1, 70_000, 5_000_000], [true, false])
    func fieldsAndTheFileArrive(_ size: Int, _ isLocal: Bool) async throws {
      let bytes = noise(size)
      let source = try Source.open(folder.write("a", bytes), isLocal: isLocal)
      let form = Form(
        fields: [("token", "t:1&=\"ü"), ("empty", "")], field: "photo", fileName: "a.jpg",
        type: "image/jpeg", source: source)
      let name = "form-\(size)-\(isLocal)"
      var request = Request("POST", "\(nginx.url)/raw/\(name)", body: .form(form))
      request.headers = [("Idempotency-Key", "k")]
      let response = try await perform(request)
      #expect(response.status == 201)
      #expect(response.sent == Int64(size))
      let parts = try parts(name)
      #expect(parts.count == 3)
      #expect(parts[0].head == "Content-Disposition: form-data; name=\"token\"")
      #expect(parts[0].bytes == Array("t:1&=\"ü".utf8))
      #expect(parts[1].bytes == [])
      #expect(
        parts[2].head == "Content-Disposition: form-data; name=\"photo\"; filename=\"a.jpg\"\r\n"
          + "Content-Type: image/jpeg")
      #expect(parts[2].bytes == bytes)
      let head = try #require(nginx.raw(name)).head
      #expect(head.method == "POST" && head.header("expect") == nil)
      #expect(head.header("idempotency-key") == "k" && head.header("transfer-encoding") == nil)
    }
    @Test(arguments: [
      ("Übersicht 2026.pdf", "Übersicht 2026.pdf"), ("写真.jpg", "写真.jpg"), ("a\"b.jpg", "a%22b.jpg"),
      ("a;b=c.jpg", "a;b=c.jpg"), ("a\\b.jpg", "a\\b.jpg"), ("🦆", "🦆"), (" ", " "),
    ])
    func namesOfEveryScriptArrive(_ name: String, _ sent: String) async throws {
      let source = try Source.open(folder.write("a", "x"))
      let key = "name-\(Array(name.utf8).hex)"
      let form = Form(fileName: name, source: source)
      _ = try await perform(Request("POST", "\(nginx.url)/raw/\(key)", body: .form(form)))
      #expect(
        try parts(key).first?.head
          == "Content-Disposition: form-data; name=\"file\"; filename=\"\(sent)\"\r\n"
          + "Content-Type: application/octet-stream")
    }
    @Test func namesThatCouldForgeAPartAreRefused() async throws {
      let source = try Source.open(folder.write("a", "x"))
      let forms = [
        Form(fileName: "a\r\nX: y", source: source), Form(fileName: "a\0b", source: source),
        Form(field: "a\n", fileName: "a", source: source),
        Form(fields: [("a\u{7f}", "")], fileName: "a", source: source),
        Form(fileName: "a", type: "a/b\r\n", source: source),
      ]
      for form in forms {
        guard
          case .invalid? = try await failure(
            Request("POST", "\(nginx.url)/raw/forged", body: .form(form)))
        else {
          Issue.record("not refused: \(form.fileName)")
          continue
        }
      }
      #expect(nginx.raw("forged") == nil)
    }
    @Test func aFormIsSentAgainOnAStaleConnection() async throws {
      let bodies = Locked<[[UInt8]]>([])
      let server = FaultServer { connection in
        if connection.number == 1 {
          connection.answer("200 OK")
          _ = connection.readHead()
          _ = connection.read(100_000)
          connection.reset()
          return
        }
        let note = { (_: FaultServer.Head, body: [UInt8]) in bodies.with { $0.append(body) } }
        while connection.answer("200 OK", seen: note) != nil {}
      }
      let bytes = noise(300_000)
      let form = Form(fileName: "a", source: try Source.open(folder.write("a", bytes)))
      _ = try await perform(Request("POST", server.url, body: .form(form)))
      let response = try await perform(Request("POST", server.url, body: .form(form)))
      #expect(response.sent == Int64(bytes.count))
      let sent = bodies.with { $0 }
      #expect(sent.count == 1)
      let body = try #require(sent.first)
      let start = try #require(
        body.indices.first { body[$0] == bytes[0] && body[$0...].starts(with: bytes.prefix(64)) })
      #expect(body[start...].starts(with: bytes))
    }
    @Test func aChangedFileIsNoticed() async throws {
      let path = folder.write("a", noise(100_000), modified: 1_000_000_000 * second)
      let form = Form(fileName: "a", source: try Source.open(path))
      folder.write("a", noise(100_000))
      guard
        case .sourceChanged? = try await failure(
          Request("POST", "\(nginx.url)/raw/changed", body: .form(form)))
      else {
        Issue.record("not noticed")
        return
      }
    }
  }
}

extension Transfers {
  @Suite struct URLTests {
    @Test func partsAreNamed() throws {
      let url = try URL("HTTPS://us%40er:p%3Aw@Example.COM:8443/a/b%20c?x=1&y#frag")
      #expect(url.scheme == "https" && url.host == "example.com" && url.port == 8443)
      #expect(url.user == "us@er" && url.password == "p:w")
      #expect(url.path == "/a/b%20c" && url.query == "x=1&y")
      #expect(url.text == "https://us%40er:p%3Aw@example.com:8443/a/b%20c?x=1&y")
      #expect(url.display == "https://example.com:8443/a/b%20c?…")
    }
    @Test(arguments: [
      ("http://h", "http://h:80"), ("http://H:80/x", "http://h:80"),
      ("https://h/", "https://h:443"),
      ("http://h:443/", "http://h:443"), ("http://[::1]:8/x", "http://[::1]:8"),
    ])
    func originsCompare(_ text: String, _ origin: String) throws {
      #expect(try URL(text).origin == origin)
    }
    @Test(arguments: [
      ("http://h/in/", "a.jpg", "http://h/in/a.jpg"), ("http://h", "a", "http://h/a"),
      ("http://h/in", "b/c", "http://h/in/b/c"),
      ("http://h/in/?sig=1", "ü x.jpg", "http://h/in/%C3%BC%20x.jpg?sig=1"),
      ("http://h/", "100%?#&+;=.txt", "http://h/100%25%3F%23%26%2B%3B%3D.txt"),
    ])
    func namesAreAppendedEncoded(_ base: String, _ name: String, _ whole: String) throws {
      let url = try URL(base).appendingPath(name)
      #expect(url.text == whole)
      #expect(try URL(whole) == url)
    }
    @Test func dotsStayAsTheyAre() throws {
      #expect(try URL("http://h/a/../b//c/./d").text == "http://h/a/../b//c/./d")
    }
    @Test func lettersAreEncoded() throws {
      #expect(try URL("http://h/ü/a b").text == "http://h/%c3%bc/a%20b")
    }
    @Test(arguments: [
      "", "h/x", "ftp://h/x", "file:///x", "http://", "http://h:99999/", "http://h:x/",
      "mailto:x@y",
      "http://a b/", "http://h/a\nb", "http://[::1/",
    ])
    func othersAreRefusedWithoutTheirSecrets(_ text: String) {
      #expect(throws: TransferError.self) { try URL(text) }
    }
    /// Whatever the bytes: an error or a URL that parses to itself, never a crash.
    @Test func anythingIsParsedOrRefused() {
      let seed = UInt64.random(in: 0 ... .max)
      print("seed \(seed)")
      var random = Seeded(seed)
      let pieces = [
        "http://", "https:", "//", "h", "@", ":", "/", "?", "#", "[", "]", "%", "%2f",
        "ü", " ", "..", "80", "a", "\u{1}", "&",
      ]
      for _ in 0..<5_000 {
        var text = Bool.random(using: &random) ? "http://h" : ""
        for _ in 0..<Int.random(in: 0..<10, using: &random) {
          text += pieces.randomElement(using: &random) ?? ""
        }
        guard let url = try? URL(text) else { continue }
        #expect((try? URL(url.text))?.text == url.text, "seed \(seed): \(text)")
      }
    }
  }
}
