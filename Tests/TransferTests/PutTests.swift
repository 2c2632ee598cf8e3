internal import Glibc
internal import Loop
internal import System
internal import TestKit
internal import Testing
internal import Transfer

extension Transfers {
  @Suite(.timeLimit(.minutes(1))) struct PutTests {
    let folder = Folder()

    @Test(arguments: [0, 1, 4096, 65535, 65536, 65537, 5_000_000], [true, false])
    func everySizeArrivesWhole(_ size: Int, _ isLocal: Bool) async throws {
      let bytes = noise(size)
      let source = try Source.open(folder.write("a", bytes), isLocal: isLocal)
      let name = "size-\(size)-\(isLocal)"
      let response = try await perform(
        Request("PUT", "\(nginx.url)/put/\(name)", body: .file(source)))
      #expect(response.status == 201)
      #expect(response.sent == Int64(size))
      #expect(nginx.stored(name) == bytes)
    }
    @Test func aFileOnATmpfsArrivesWhole() async throws {
      let memory = Folder(in: "/dev/shm")
      for size in [0, 5_000, 3_000_000] {
        let bytes = noise(size)
        let source = try Source.open(memory.write("a", bytes))
        _ = try await perform(Request("PUT", "\(nginx.url)/put/tmpfs", body: .file(source)))
        #expect(nginx.stored("tmpfs") == bytes)
      }
    }
    /// Not in the page cache: it has to be read by threads while the transfer is paused.
    @Test func aColdFileArrivesWhole() async throws {
      let bytes = noise(20_000_000)
      let path = folder.write("a", bytes)
      let fd = unsafe open(path, O_RDONLY)
      fsync(fd)
      posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED)
      close(fd)
      let source = try Source.open(path)
      _ = try await perform(Request("PUT", "\(nginx.url)/put/cold", body: .file(source)))
      #expect(nginx.stored("cold") == bytes)
    }
    @Test(arguments: [(0, 10), (3, 100_000), (999_999, 1), (1_000_000, 0), (500_000, 500_000)])
    func aPartArrivesAlone(_ from: Int, _ count: Int) async throws {
      let bytes = noise(1_000_000)
      let source = try Source.open(folder.write("a", bytes))
      let name = "part-\(from)-\(count)"
      let response = try await perform(
        Request(
          "PUT", "\(nginx.url)/put/\(name)",
          body: .file(source, from: Int64(from), count: Int64(count))))
      #expect(response.sent == Int64(count))
      #expect(nginx.stored(name) == Array(bytes[from..<from + count]))
    }
    @Test func aPartOutsideTheFileIsRefused() async throws {
      let source = try Source.open(folder.write("a", "12345"))
      for (from, count) in [(-1, 2), (0, 6), (5, 1), (0, -1), (Int64.max, 2)] {
        let error = try await failure(
          Request(
            "PUT", "\(nginx.url)/put/x", body: .file(source, from: Int64(from), count: Int64(count))
          ))
        #expect(error == .invalid("the part to be sent lies outside the file"))
      }
    }

    /// What goes over the wire for a small and for a big body, to the last header.
    @Test(arguments: [10, 100_000]) func nothingIsSentThatNobodyAskedFor(_ size: Int) async throws {
      let source = try Source.open(folder.write("a", noise(size)))
      var request = Request("PUT", "\(nginx.url)/raw/head-\(size)", body: .file(source))
      request.headers = [("X-One", "1 2"), ("X-Empty", ""), ("Idempotency-Key", "k")]
      let response = try await perform(request)
      #expect(response.status == 201)
      #expect(response.header("x-KEPT") == "yes")
      #expect(String(decoding: response.body, as: UTF8.self) == "kept\n")
      let head = try #require(nginx.raw("head-\(size)")).head
      let lines = Set(head.text.split(separator: "\r\n").map(String.init))
      #expect(
        lines == [
          "PUT /raw/head-\(size) HTTP/1.1", "Host: 127.0.0.1:\(nginx.port)",
          "User-Agent: \(try await onTheLoop { Transfer.userAgent })", "Accept: */*", "X-One: 1 2",
          "X-Empty:", "Idempotency-Key: k", "Content-Length: \(size)",
        ])
    }
    @Test func otherMethodsWork() async throws {
      let bytes = noise(100_000)
      let url = "\(nginx.url)/put/methods"
      #expect(try await perform(Request("PUT", url, body: .bytes(bytes))).status == 201)
      let head = try await perform(Request("HEAD", url))
      #expect(head.status == 200 && head.header("content-length") == "100000" && head.body.isEmpty)
      let got = try await perform(Request("GET", url))
      #expect(got.body == Array(bytes.prefix(65536)))
      #expect(try await perform(Request("DELETE", url)).status == 204)
      #expect(try await perform(Request("HEAD", url)).status == 404)
      #expect(try await perform(Request("MKCOL", "\(url)-folder/")).status == 201)
      #expect(try await perform(Request("POST", "\(nginx.url)/discard/")).status == 200)
    }
    /// Handles are kept for the next transfer: nothing of the one before may be left in it.
    @Test func handlesForgetWhatTheyDidBefore() async throws {
      let seed = UInt64.random(in: 0 ... .max)
      print("seed \(seed)")
      var random = Seeded(seed)
      for i in 0..<150 {
        let size = [0, 1, 300, 65_535, 65_536, 200_000].randomElement(using: &random) ?? 0
        let bytes = noise(size, seed: UInt64(i))
        var request = Request("PUT", "\(nginx.url)/raw/mixed-\(seed)-\(i)")
        request.method = ["PUT", "POST", "PATCH"].randomElement(using: &random) ?? "PUT"
        if Bool.random(using: &random) { request.headers = [("X-Number", "\(i)")] }
        if Bool.random(using: &random) { (request.user, request.password) = ("u\(i)", "p") }
        let source = try Source.open(folder.write("a", bytes))
        let isForm = Int.random(in: 0..<4, using: &random) == 0
        if isForm {
          request.method = "POST"
          request.body = .form(Form(fileName: "n", source: source))
        } else if Bool.random(using: &random) {
          request.body = .bytes(bytes)
        } else {
          request.body = .file(source)
        }
        #expect(try await perform(request).status == 201, "seed \(seed)")
        let (head, body) = try #require(nginx.raw("mixed-\(seed)-\(i)"))
        #expect(head.method == request.method, "seed \(seed)")
        #expect(head.header("x-number") == request.headers.first?.1, "seed \(seed)")
        #expect((head.header("authorization") != nil) == (request.user != nil), "seed \(seed)")
        #expect((head.header("content-type") != nil) == isForm, "seed \(seed)")
        #expect(isForm ? body.count > size : body == bytes, "seed \(seed)")
        if i % 7 == 0 { #expect(try await perform(Request("GET", nginx.url)).status == 403) }
      }
    }

    @Test func aThousandUploadsShareAFewConnections() async throws {
      for n in 0..<16 { folder.write("\(n)", noise(4096)) }
      let sources = try (0..<16).map { try Source.open(folder.at("\($0)")) }
      let good = try await onTheLoop { () async -> Int in
        await withTaskGroup(of: Int.self) { group in
          for n in 0..<16 { group.addTask { await Self.several(64, sources[n], "reuse-\(n)") } }
          var good = 0
          for await n in group { good += n }
          return good
        }
      }
      #expect(good == 1024)
      // nginx writes a line when the answer has gone.
      #expect(
        await eventually { nginx.log.count { $0.path.hasPrefix("/put/reuse-") } == 1024 })
      let mine = nginx.log.filter { $0.path.hasPrefix("/put/reuse-") }
      #expect(Set(mine.map(\.connection)).count <= 64)
    }
    @OnLoop private static func several(_ count: Int, _ source: Source, _ name: String) async -> Int
    {
      var good = 0
      for i in 0..<count {
        let request = Request("PUT", "\(nginx.url)/put/\(name)-\(i)", body: .file(source))
        if (try? await Transfer.perform(request))?.isSuccess == true { good += 1 }
      }
      return good
    }

    /// The server has given up a kept connection when the next body is half out: libcurl sends all
    /// of it again on another one.
    @Test(arguments: [1_000, 300_000]) func aStaleConnectionIsReplaced(_ size: Int) async throws {
      let bodies = Locked<[[UInt8]]>([])
      let server = FaultServer { connection in
        if connection.number == 1 {
          connection.answer("200 OK")
          _ = connection.readHead()
          _ = connection.read(size / 2)
          connection.reset()
          return
        }
        let note = { (_: FaultServer.Head, body: [UInt8]) in bodies.with { $0.append(body) } }
        while connection.answer("200 OK", seen: note) != nil {}
      }
      let bytes = noise(size)
      let source = try Source.open(folder.write("a", bytes))
      let request = Request("PUT", "\(server.url)/x", body: .file(source))
      #expect(try await perform(request).status == 200)
      let second = try await perform(request)
      #expect(second.status == 200 && second.sent == Int64(size))
      #expect(bodies.with { $0 } == [bytes])
      #expect(server.connections == 2)
    }

    @Test func progressCountsUpToTheEnd() async throws {
      let size = 8_000_000
      let source = try Source.open(folder.write("a", noise(size)))
      let server = FaultServer(receiveBuffer: 64 << 10) { connection in
        guard let head = connection.readHead() else { return }
        for _ in 0..<8 {
          _ = connection.read(head.length / 8)
          usleep(60_000)
        }
        connection.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
      }
      let seen = try await onTheLoop { () async throws -> [Int64] in
        var seen: [Int64] = []
        _ = try await Transfer.perform(Request("PUT", server.url, body: .file(source))) {
          seen.append($0)
        }
        return seen
      }
      #expect(seen.last == Int64(size))
      #expect(seen == seen.sorted())
      #expect(seen.count >= 3 && seen.count <= 12, "\(seen)")
    }
    @Test func aThrottleHoldsBothBigAndSmallBodies() async throws {
      let big = try Source.open(folder.write("a", noise(1_000_000)))
      var request = Request("PUT", "\(nginx.url)/discard/", body: .file(big))
      request.throttle = Throttle(2_000_000)
      var began = Clock.monotonic()
      _ = try await perform(request)
      #expect(Clock.monotonic() - began > 350 * millisecond)
      #expect(Clock.monotonic() - began < 3 * second)

      let small = try Source.open(folder.write("b", noise(50_000)))
      request.body = .file(small)
      request.throttle = Throttle(500_000)
      began = Clock.monotonic()
      for _ in 0..<6 { _ = try await perform(request) }
      #expect(Clock.monotonic() - began > 450 * millisecond)
      #expect(Clock.monotonic() - began < 3 * second)
    }
  }
}
