internal import Glibc
internal import Jobs
internal import System
internal import TestKit
internal import Testing

extension EndToEnd {
  /// What every kind of destination must do, one suite for all.
  @Suite(.timeLimit(.minutes(3))) struct Conformance {
    enum Kind: String, CaseIterable, CustomTestStringConvertible {
      case put, tls, post, form, file, url
      var testDescription: String { rawValue }
    }

    /// A destination `d` of a kind in the configuration; what it got is asked by `stored`.
    static func configure(
      _ field: Field, _ kind: Kind, _ folder: String, bandwidth: String? = nil
    ) {
      let nginx = Nginx.shared
      let destination =
        switch kind {
        case .put, .url: "\"type\": \"http\", \"url\": \"\(nginx.url)/put/\(folder)/\""
        case .tls:
          "\"type\": \"http\", \"url\": \"\(nginx.secureURL)/put/\(folder)/\", "
            + "\"ca\": \"\(nginx.caFile)\""
        case .post: "\"type\": \"http\", \"method\": \"POST\", \"url\": \"\(nginx.url)/raw/\""
        case .form: "\"type\": \"form\", \"url\": \"\(nginx.url)/raw/\(folder)\""
        case .file: "\"type\": \"file\", \"path\": \"\(field.folder.at("out"))\""
        }
      let limit = bandwidth.map { ", \"bandwidth\": \"\($0)\"" } ?? ""
      field.configure(
        "{\"destinations\": {\"d\": {\(destination)\(kind == .file ? "" : limit)}}}")
    }

    static func to(_ field: Field, _ kind: Kind, _ folder: String) -> String {
      kind == .url ? "\(Nginx.shared.url)/put/\(folder)/" : "d:"
    }

    static func stored(_ field: Field, _ kind: Kind, _ folder: String, _ name: String) -> [UInt8]? {
      switch kind {
      case .put, .tls, .url: Nginx.shared.stored("\(folder)/\(name)")
      case .post: Nginx.shared.raw(name)?.body
      case .form: Nginx.shared.raw(folder).flatMap { part($0.body, of: $0.head) }
      case .file: field.folder.read("out/\(name)")
      }
    }

    /// The file part of a form that arrived.
    static func part(_ body: [UInt8], of head: FaultServer.Head) -> [UInt8]? {
      guard let type = head.header("content-type"),
        let mark = type.split(separator: "=").last.map(String.init)
      else { return nil }
      let blank = Array("\r\n\r\n".utf8)
      let tail = Array("\r\n--\(mark)--\r\n".utf8)
      guard body.count >= tail.count, Array(body.suffix(tail.count)) == tail else { return nil }
      let marker = Array("filename=".utf8)
      for i in body.indices where body[i...].starts(with: marker) {
        for j in i..<body.count where body[j...].starts(with: blank) {
          return Array(body[(j + 4)..<(body.count - tail.count)])
        }
      }
      return nil
    }

    @Test(arguments: Kind.allCases) func everySizeArrivesWhole(_ kind: Kind) async {
      let field = Field()
      for size in [0, 1, 65_534, 65_535, 65_536, 65_537, 5_000_003] {
        let folder = "sizes-\(kind)-\(size)"
        Self.configure(field, kind, folder)
        let name = "\(kind)-size-\(size).bin"
        let bytes = noise(size, seed: UInt64(size))
        let path = field.source(name, bytes)
        field.drop("j\(size)", to: Self.to(field, kind, folder), [path])
        #expect(await field.drain() == 0)
        #expect(field.place("j\(size)") == "done", "\(field.log)")
        let stored = Self.stored(field, kind, folder, name)
        #expect(stored == bytes, "\(size): \(stored?.count ?? -1)")
        let sidecar = field.sidecar("j\(size)")
        #expect(sidecar?.state == .done)
        #expect(sidecar?.percent == 100)
        #expect(sidecar?.bytes == Int64(size))
        #expect(sidecar?.attempt == 1)
      }
      #expect(field.strays == [])
    }

    @Test(arguments: Kind.allCases) func oddNamesArriveAsTheyAre(_ kind: Kind) async {
      let field = Field()
      let names = [
        "a b;c.txt", "照片 1.jpg", "don't \\\"quote\\\".txt", "100%#?&+.bin", ".hidden",
        String(repeating: "n", count: 120) + ".txt", "-dash",
      ]
      for (i, escaped) in names.enumerated() {
        let name = escaped.split(separator: "\\").joined()
        let folder = "odd-\(kind)-\(i)"
        Self.configure(field, kind, folder)
        let path = field.source("odd\(i)", noise(1000, seed: UInt64(i)))
        let unique = kind == .post || kind == .file ? "p\(i)" : ""
        field.drop(
          "j\(i)",
          """
          {"to": "\(Self.to(field, kind, folder))",
           "files": [{"path": "\(path)", "as": "\(unique)\(escaped)"}]}
          """)
        #expect(await field.drain() == 0)
        #expect(field.place("j\(i)") == "done", "\(name): \(field.log)")
        #expect(
          Self.stored(field, kind, folder, unique + name) == noise(1000, seed: UInt64(i)), "\(name)"
        )
      }
    }

    @Test(arguments: [Kind.put, .form, .file]) func aNameWithANewlineNeedsAnother(_ kind: Kind)
      async
    {
      let field = Field()
      Self.configure(field, kind, "newline-\(kind)")
      let path = field.source("a\nb", [1])
      let escaped = path.split(separator: "\n").joined(separator: "\\n")
      field.drop("j", to: Self.to(field, kind, "newline-\(kind)"), [escaped])
      #expect(await field.drain() == 1)
      #expect(field.place("j") == "failed")
      #expect(field.sidecar("j")?.error?.message.contains("\"as\"") == true)
    }

    @Test(arguments: [Kind.put, .tls, .post, .form, .file])
    func aWorkerKilledInTheMiddleLosesNothing(_ kind: Kind) async {
      let field = Field()
      let folder = "kill-\(kind)"
      Self.configure(field, kind, folder, bandwidth: "40M")
      var expected: [String: [UInt8]] = [:]
      for i in 0..<(kind == .form ? 1 : 12) {
        let name = "kill-\(kind)-\(i)"
        expected[name] = noise(1_500_000, seed: UInt64(i))
        field.drop(
          "j\(i)", to: Self.to(field, kind, folder), [field.source(name, expected[name]!)])
      }
      for i in 0..<6 {
        let worker = field.start("--concurrency", "2")
        try? await Task.sleep(nanoseconds: UInt64(50_000_000 + 15_000_000 * i))
        worker.send(SIGKILL)
        worker.wait()
      }
      let worker = field.start("--concurrency", "2")
      #expect(await eventually(10) { field.log.components(" start:") == 7 })
      #expect(
        await eventually(60) { field.folder.names("s/done").count == expected.count },
        "\(field.log)")
      worker.send(SIGTERM)
      #expect(await worker.ended(15) == 0)
      for (name, bytes) in expected {
        #expect(Self.stored(field, kind, folder, name) == bytes)
      }
      #expect(field.folder.names("s/active") == [])
      #expect(field.strays == [])
    }

    @Test(arguments: ["PUT", "POST"]) func aLostAnswerIsNotTakenForSuccess(_ method: String) async {
      let keys = Locked<[String]>([])
      let server = FaultServer { connection in
        while let head = connection.readHead() {
          _ = connection.read(head.length)
          let count = keys.with { keys in
            keys.append(head.header("idempotency-key") ?? "none")
            return keys.count
          }
          if count == 1 { return connection.reset() }
          _ = connection.send("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
        }
      }
      let field = Field()
      field.drop(
        "j", to: "\(server.url)/x", [field.source("a", noise(300_000))], "\"method\": \"\(method)\""
      )
      let worker = field.start()
      #expect(await field.wait("j", in: "done"))
      worker.send(SIGTERM)
      worker.wait()
      let seen = keys.with { $0 }
      #expect(server.connections >= 2)
      #expect(seen.count >= 2)
      if method == "POST" {
        #expect(Set(seen).count == 1)
        #expect(seen[0] != "none")
      } else {
        #expect(Set(seen) == ["none"])
      }
    }

    @Test func aSourceThatChangesWhileItIsSentIsNeverASuccess() async {
      let field = Field()
      let path = field.source("grow", noise(3_000_000))
      let server = FaultServer { connection in
        while let head = connection.readHead() {
          _ = connection.read(head.length)
          _ = connection.send("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
        }
      }
      field.configure(
        "{\"destinations\": {\"d\": {\"type\": \"http\", \"url\": \"\(server.url)\", "
          + "\"bandwidth\": \"2M\"}}}")
      field.drop("j", to: "d:x", [path], "\"attempts\": 1")
      let worker = field.start()
      #expect(await field.wait("j", in: "active"))
      try? await Task.sleep(nanoseconds: 400_000_000)
      field.folder.write("src/grow", noise(3_000_000, seed: 2))
      #expect(await field.wait("j", in: "failed"))
      #expect(field.sidecar("j")?.error?.kind == "sourceChanged")
      #expect(server.connections > 0)
      worker.send(SIGTERM)
      worker.wait()
    }

    @Test func aServerThatSaysItStoredSomethingElseIsBelieved() async {
      let field = Field()
      let server = FaultServer { connection in
        while let head = connection.readHead() {
          _ = connection.read(head.length)
          _ = connection.send(
            "HTTP/1.1 201 Created\r\nContent-Length: 0\r\nX-Checksum-SHA256: "
              + String(repeating: "ab", count: 32) + "\r\n\r\n")
        }
      }
      field.drop("j", to: "\(server.url)/x", [field.source("a", [1, 2, 3])], "\"attempts\": 1")
      #expect(await field.drain() == 1)
      #expect(field.sidecar("j")?.error?.kind == "checksum")
      #expect(server.connections > 0)
    }
  }
}
