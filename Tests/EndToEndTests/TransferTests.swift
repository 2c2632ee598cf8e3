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
      _ yard: Yard, _ kind: Kind, _ folder: String, bandwidth: String? = nil
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
        case .file: "\"type\": \"file\", \"path\": \"\(yard.folder.at("out"))\""
        }
      let limit = bandwidth.map { ", \"bandwidth\": \"\($0)\"" } ?? ""
      yard.configure(
        "{\"destinations\": {\"d\": {\(destination)\(kind == .file ? "" : limit)}}}")
    }

    static func to(_ yard: Yard, _ kind: Kind, _ folder: String) -> String {
      kind == .url ? "\(Nginx.shared.url)/put/\(folder)/" : "d:"
    }

    static func stored(_ yard: Yard, _ kind: Kind, _ folder: String, _ name: String) -> [UInt8]? {
      switch kind {
      case .put, .tls, .url: Nginx.shared.stored("\(folder)/\(name)")
      case .post: Nginx.shared.raw(name)?.body
      case .form: Nginx.shared.raw(folder).flatMap { part($0.body, of: $0.head) }
      case .file: yard.folder.read("out/\(name)")
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
      let yard = Yard()
      for size in [0, 1, 65_534, 65_535, 65_536, 65_537, 5_000_003] {
        let folder = "sizes-\(kind)-\(size)"
        Self.configure(yard, kind, folder)
        let name = "\(kind)-size-\(size).bin"
        let bytes = noise(size, seed: UInt64(size))
        let path = yard.source(name, bytes)
        yard.drop("j\(size)", to: Self.to(yard, kind, folder), [path])
        #expect(await yard.drain() == 0)
        #expect(yard.place("j\(size)") == "done", "\(yard.log)")
        let stored = Self.stored(yard, kind, folder, name)
        #expect(stored == bytes, "\(size): \(stored?.count ?? -1)")
        let sidecar = yard.sidecar("j\(size)")
        #expect(sidecar?.state == .done)
        #expect(sidecar?.percent == 100)
        #expect(sidecar?.bytes == Int64(size))
        #expect(sidecar?.attempt == 1)
      }
      #expect(yard.strays == [])
    }

    @Test(arguments: Kind.allCases) func oddNamesArriveAsTheyAre(_ kind: Kind) async {
      let yard = Yard()
      let names = [
        "a b;c.txt", "照片 1.jpg", "don't \\\"quote\\\".txt", "100%#?&+.bin", ".hidden",
        String(repeating: "n", count: 120) + ".txt", "-dash",
      ]
      for (i, escaped) in names.enumerated() {
        let name = escaped.split(separator: "\\").joined()
        let folder = "odd-\(kind)-\(i)"
        Self.configure(yard, kind, folder)
        let path = yard.source("odd\(i)", noise(1000, seed: UInt64(i)))
        let unique = kind == .post || kind == .file ? "p\(i)" : ""
        yard.drop(
          "j\(i)",
          """
          {"to": "\(Self.to(yard, kind, folder))",
           "files": [{"path": "\(path)", "as": "\(unique)\(escaped)"}]}
          """)
        #expect(await yard.drain() == 0)
        #expect(yard.place("j\(i)") == "done", "\(name): \(yard.log)")
        #expect(
          Self.stored(yard, kind, folder, unique + name) == noise(1000, seed: UInt64(i)), "\(name)"
        )
      }
    }

    @Test(arguments: [Kind.put, .form, .file]) func aNameWithANewlineNeedsAnother(_ kind: Kind)
      async
    {
      let yard = Yard()
      Self.configure(yard, kind, "newline-\(kind)")
      let path = yard.source("a\nb", [1])
      yard.drop("j", to: Self.to(yard, kind, "newline-\(kind)"), [path])
      #expect(await yard.drain() == 1)
      #expect(yard.place("j") == "failed")
      #expect(yard.sidecar("j")?.error?.message.contains("\"as\"") == true)
    }

    @Test(arguments: [Kind.put, .tls, .post, .form, .file])
    func aWorkerKilledInTheMiddleLosesNothing(_ kind: Kind) async {
      let yard = Yard()
      let folder = "kill-\(kind)"
      Self.configure(yard, kind, folder, bandwidth: "40M")
      var expected: [String: [UInt8]] = [:]
      for i in 0..<(kind == .form ? 1 : 12) {
        let name = "kill-\(kind)-\(i)"
        expected[name] = noise(1_500_000, seed: UInt64(i))
        yard.drop(
          "j\(i)", to: Self.to(yard, kind, folder), [yard.source(name, expected[name]!)])
      }
      for i in 0..<6 {
        let worker = yard.start("--concurrency", "2")
        try? await Task.sleep(nanoseconds: UInt64(50_000_000 + 15_000_000 * i))
        worker.send(SIGKILL)
        worker.wait()
      }
      let before = yard.log.components(" start:")
      let worker = yard.start("--concurrency", "2")
      #expect(await eventually(20) { yard.log.components(" start:") == before + 1 })
      #expect(
        await eventually(60) { yard.folder.names("s/done").count == expected.count },
        "\(yard.log)")
      worker.send(SIGTERM)
      #expect(await worker.ended(15) == 0)
      for (name, bytes) in expected {
        #expect(Self.stored(yard, kind, folder, name) == bytes)
      }
      #expect(yard.folder.names("s/active") == [])
      #expect(yard.strays == [])
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
      let yard = Yard()
      yard.drop(
        "j", to: "\(server.url)/x", [yard.source("a", noise(300_000))], "\"method\": \"\(method)\""
      )
      let worker = yard.start()
      #expect(await yard.wait("j", in: "done"))
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
      let yard = Yard()
      let path = yard.source("grow", noise(3_000_000))
      let server = FaultServer { connection in
        while let head = connection.readHead() {
          _ = connection.read(head.length)
          _ = connection.send("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
        }
      }
      yard.configure(
        "{\"destinations\": {\"d\": {\"type\": \"http\", \"url\": \"\(server.url)\", "
          + "\"bandwidth\": \"2M\"}}}")
      yard.drop("j", to: "d:x", [path], "\"attempts\": 1")
      let worker = yard.start()
      #expect(await yard.wait("j", in: "active"))
      try? await Task.sleep(nanoseconds: 400_000_000)
      yard.folder.write("src/grow", noise(3_000_000, seed: 2))
      #expect(await yard.wait("j", in: "failed"))
      #expect(yard.sidecar("j")?.error?.kind == "sourceChanged")
      #expect(server.connections > 0)
      worker.send(SIGTERM)
      worker.wait()
    }

    @Test func aServerThatSaysItStoredSomethingElseIsBelieved() async {
      let yard = Yard()
      let server = FaultServer { connection in
        while let head = connection.readHead() {
          _ = connection.read(head.length)
          _ = connection.send(
            "HTTP/1.1 201 Created\r\nContent-Length: 0\r\nX-Checksum-SHA256: "
              + String(repeating: "ab", count: 32) + "\r\n\r\n")
        }
      }
      yard.drop("j", to: "\(server.url)/x", [yard.source("a", [1, 2, 3])], "\"attempts\": 1")
      #expect(await yard.drain() == 1)
      #expect(yard.sidecar("j")?.error?.kind == "checksum")
      #expect(server.connections > 0)
    }
  }
}
