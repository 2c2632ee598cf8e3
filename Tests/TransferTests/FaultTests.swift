internal import Glibc
internal import Loop
internal import System
internal import TestKit
internal import Testing
internal import Transfer

extension Transfers {
  /// What servers do to uploads.
  @Suite(.timeLimit(.minutes(1))) struct FaultTests {
    let folder = Folder()

    private func put(_ url: String, _ size: Int) throws -> Request {
      Request("PUT", url, body: .file(try Source.open(folder.write("a", noise(size)))))
    }

    @Test func nobodyListens() async throws {
      let error = try await failure(put("http://127.0.0.1:\(freePort())/x", 10))
      guard case .unreachable(let why)? = error else {
        Issue.record("\(String(describing: error))")
        return
      }
      #expect(why.contains("Connection refused"))
    }
    @Test func theNameDoesNotExist() async throws {
      let error = try await failure(put("http://nowhere.invalid/x", 10))
      guard case .unreachable = error else {
        Issue.record("\(String(describing: error))")
        return
      }
    }
    @Test func theHandshakeNeverEnds() async throws {
      let server = FaultServer { _ = $0.waitForEnd(seconds: 10) }
      var request = try put("https://localhost:\(server.port)/x", 10)
      request.timeouts.connect = 300 * millisecond
      let began = Clock.monotonic()
      guard case .unreachable? = try await failure(request) else {
        Issue.record("not unreachable")
        return
      }
      #expect(Clock.monotonic() - began < 2 * second)
    }
    @Test func onlyHTTPIsSpoken() async throws {
      guard case .invalid? = try await failure(put("ftp://127.0.0.1/x", 10)),
        case .invalid? = try await failure(put("file:///tmp/x", 10)),
        case .invalid? = try await failure(put("http:///", 10))
      else {
        Issue.record("not refused")
        return
      }
    }

    @Test(arguments: [1_000, 3_000_000]) func theConnectionIsCutInMidBody(_ size: Int) async throws
    {
      let server = FaultServer { connection in
        _ = connection.readHead()
        _ = connection.read(size / 2)
      }
      guard case .cut(_, let sent)? = try await failure(put(server.url, size)) else {
        Issue.record("not cut")
        return
      }
      #expect(sent <= Int64(size))
      #expect(sent > 0)
    }
    @Test(arguments: [1_000, 1_000_000]) func theAnswerIsMissing(_ size: Int) async throws {
      let server = FaultServer { connection in
        guard let head = connection.readHead() else { return }
        _ = connection.read(head.length)
      }
      guard case .cut(_, Int64(size))? = try await failure(put(server.url, size)) else {
        Issue.record("not cut")
        return
      }
    }
    @Test func theAnswerIsHalf() async throws {
      let server = FaultServer { connection in
        guard let head = connection.readHead() else { return }
        _ = connection.read(head.length)
        connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
      }
      guard case .cut? = try await failure(put(server.url, 1_000)) else {
        Issue.record("not cut")
        return
      }
    }
    @Test(arguments: [
      "HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 000 Nothing\r\n\r\n",
    ])
    func theAnswersHeadIsHalfOrNone(_ text: String) async throws {
      let server = FaultServer { connection in
        guard let head = connection.readHead() else { return }
        _ = connection.read(head.length)
        connection.send(text)
      }
      guard case .cut? = try await failure(put(server.url, 1_000)) else {
        Issue.record("not cut")
        return
      }
    }
    @Test func aHeaderLineNeverEnds() async throws {
      let server = FaultServer { connection in
        guard let head = connection.readHead() else { return }
        _ = connection.read(head.length)
        connection.send("HTTP/1.1 200 OK\r\nX: ")
        let piece = String(repeating: "x", count: 1 << 16)
        for _ in 0..<400 where !connection.send(piece) { return }
      }
      guard case .cut? = try await failure(put(server.url, 1_000)) else {
        Issue.record("not cut")
        return
      }
    }
    @Test func theAnswerIsNoHTTP() async throws {
      let server = FaultServer { connection in
        _ = connection.readHead()
        connection.send("220 ftp.example.com ready\r\n")
      }
      guard case .cut? = try await failure(put(server.url, 1_000)) else {
        Issue.record("not cut")
        return
      }
    }
    /// Success before the body is there would be a lie.
    @Test func anEarlySuccessIsNone() async throws {
      let server = FaultServer { connection in
        _ = connection.readHead()
        _ = connection.read(1_000)
        connection.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        usleep(50_000)
      }
      guard case .cut? = try await failure(put(server.url, 30_000_000)) else {
        Issue.record("not cut")
        return
      }
    }
    @Test func anEarlyRefusalComesThrough() async throws {
      let server = FaultServer { connection in
        _ = connection.readHead()
        _ = connection.read(1_000)
        connection.send("HTTP/1.1 413 Too Large\r\nContent-Length: 7\r\n\r\ntoo big")
        _ = connection.waitForEnd(seconds: 10)
      }
      let response = try await perform(put(server.url, 30_000_000))
      #expect(response.status == 413)
      #expect(response.sent < 30_000_000)
      #expect(String(decoding: response.body, as: UTF8.self) == "too big")

      #expect(try await perform(put("\(nginx.url)/small/x", 5_000_000)).status == 413)
    }

    @Test func theServerTakesNoMoreBytes() async throws {
      let server = FaultServer { connection in
        _ = connection.readHead()
        sleep(3)
      }
      var request = try put(server.url, 30_000_000)
      request.timeouts.progress = 300 * millisecond
      let began = Clock.monotonic()
      guard case .stalled(let sent)? = try await failure(request) else {
        Issue.record("not stalled")
        return
      }
      #expect(sent > 0 && sent < 30_000_000)
      #expect(Clock.monotonic() - began < 2 * second)
    }
    @Test(arguments: [0, 1_000, 200_000]) func theServerNeverAnswers(_ size: Int) async throws {
      let server = FaultServer { connection in
        guard let head = connection.readHead() else { return }
        _ = connection.read(head.length)
        _ = connection.waitForEnd(seconds: 10)
      }
      var request = try put(server.url, size)
      request.timeouts.answer = 300 * millisecond
      #expect(try await failure(request) == .noAnswer(sent: Int64(size)))
    }
    /// A slow line empties the kernel's buffer long after libcurl has handed over the last byte: as
    /// long as the other side acknowledges, nothing stands still.
    @Test func aSlowLineIsNotTakenForAStandstill() async throws {
      let server = FaultServer(receiveBuffer: 16 << 10) { connection in
        guard let head = connection.readHead() else { return }
        var left = head.length
        while left > 0 {
          left -= max(1, connection.read(min(left, 48 << 10)).count)
          usleep(80_000)
        }
        connection.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
      }
      var request = try put(server.url, mebibyte)
      request.timeouts.progress = 600 * millisecond
      request.timeouts.answer = 600 * millisecond
      let began = Clock.monotonic()
      #expect(try await perform(request).status == 200)
      #expect(Clock.monotonic() - began > 1200 * millisecond)
    }
    @Test func aLateAnswerIsWaitedFor() async throws {
      var request = try put("\(nginx.url)/slow/0.6", 100)
      request.timeouts.progress = 200 * millisecond
      request.timeouts.answer = 5 * second
      let response = try await perform(request)
      #expect(response.status == 200)
      #expect(String(decoding: response.body, as: UTF8.self) == "late\n")
    }

    @Test func headersThatNeverEnd() async throws {
      for line in ["X-More: 1\r\n", "HTTP/1.1 102 Processing\r\n\r\n"] {
        let server = FaultServer { connection in
          _ = connection.answerHeadOnly()
          if line.hasPrefix("X") { connection.send("HTTP/1.1 200 OK\r\n") }
          for _ in 0..<1_000_000 where !connection.send(line) { return }
        }
        #expect(
          try await failure(put(server.url, 10)) == .cut("the server's headers never end", sent: 10)
        )
      }
    }
    @Test func anAnswerThatNeverEnds() async throws {
      let piece = String(repeating: "x", count: 65_536)
      let server = FaultServer { connection in
        _ = connection.answerHeadOnly()
        connection.send("HTTP/1.1 200 OK\r\n\r\n")
        while connection.send(piece) {}
      }
      #expect(
        try await failure(put(server.url, 10)) == .cut("the server's answer never ends", sent: 10))
    }
    @Test func interimAnswersAreNoAnswers() async throws {
      let server = FaultServer { connection in
        _ = connection.answerHeadOnly()
        connection.send("HTTP/1.1 102 Processing\r\nX-One: 1\r\n\r\n")
        connection.send("HTTP/1.1 104 Upload Resumption\r\nLocation: /y\r\n\r\n")
        connection.send("HTTP/1.1 201 Created\r\nETag: \"x\"\r\nContent-Length: 0\r\n\r\n")
      }
      let response = try await perform(put(server.url, 10))
      #expect(response.status == 201)
      #expect(response.headers.map(\.name) == ["etag", "content-length"])
      #expect(response.header("ETag") == "\"x\"")
    }
    /// More than is kept: the rest is dropped, and the connection serves on.
    @Test func aLongAnswerIsKeptInPart() async throws {
      let server = FaultServer { connection in
        while let head = connection.readHead() {
          _ = connection.read(head.length)
          connection.send("HTTP/1.1 500 Oh\r\nContent-Length: 1000000\r\n\r\n")
          connection.send(String(repeating: "e", count: 1_000_000))
        }
      }
      for _ in 0..<3 {
        let response = try await perform(put(server.url, 10))
        #expect(response.status == 500 && response.body.count == 65536)
      }
      #expect(server.connections == 1)
    }

    @Test func aHeaderWithALineBreakIsNeverSent() async throws {
      let server = FaultServer { $0.answer("200 OK") }
      for value in ["a\r\nX: y", "a\nb", "a\0b"] {
        var request = try put(server.url, 10)
        request.headers = [("X-Title", value)]
        #expect(try await failure(request) == .invalid("the header X-Title holds a line break"))
      }
      for name in ["", "a b", "a:", "ä", "a\r\n"] {
        var request = try put(server.url, 10)
        request.headers = [(name, "v")]
        #expect(try await failure(request) == .invalid("a header's name is not allowed in HTTP"))
      }
      var request = try put(server.url, 10)
      request.headers = [("content-LENGTH", "5")]
      guard case .invalid? = try await failure(request) else {
        Issue.record("not refused")
        return
      }
      request = try put("\(server.url)/a b", 10)
      guard case .invalid? = try await failure(request) else {
        Issue.record("not refused")
        return
      }
      #expect(server.connections == 0)
    }

    /// Cancelled in mid-body: no further byte, and the server notices at once.
    @Test(arguments: [true, false]) func cancellingEndsTheConnection(_ isLocal: Bool) async throws {
      let begun = Gate()
      let ended = Locked<Int64>(0)
      let server = FaultServer { connection in
        _ = connection.readHead()
        _ = connection.read(1_000_000)
        begun.open()
        if connection.waitForEnd(seconds: 10) != nil { ended.with { $0 = Clock.monotonic() } }
      }
      // Too big to have gone out before the test comes to cancel.
      let path = folder.at("big")
      #expect(unsafe truncate(folder.write("big", ""), 20_000_000_000) == 0)
      let source = try Source.open(path, isLocal: isLocal)
      let task = Loop.shared.start { () async throws in
        try await Transfer.perform(Request("PUT", server.url, body: .file(source)))
      }
      #expect(await begun.opened())
      let cancelled = Clock.monotonic()
      let taken = try await timeToCancel(task)
      await #expect(throws: TransferError.cancelled) { try await task.value }
      #expect(await eventually { ended.with { $0 } > 0 })
      let delay = ended.with { $0 } - cancelled
      print("cancel to the server's notice: \(delay / 1000) us, local \(isLocal)")
      #expect(delay < 50 * millisecond)
      #expect(taken < 50 * millisecond)
    }
    @Test func aTaskThatIsCancelledAlreadySendsNothing() async throws {
      let server = FaultServer { $0.answer("200 OK") }
      let request = try put(server.url, 10)
      let task = Loop.shared.start { () async throws in
        while !Task.isCancelled { await Task.yield() }
        return try await Transfer.perform(request)
      }
      task.cancel()
      await #expect(throws: TransferError.cancelled) { try await task.value }
      #expect(server.connections == 0)
    }
    @Test func cancellingWhileWaitingForTheAnswerEndsAtOnce() async throws {
      let waiting = Gate()
      let server = FaultServer { connection in
        guard let head = connection.readHead() else { return }
        _ = connection.read(head.length)
        waiting.open()
        _ = connection.waitForEnd(seconds: 10)
      }
      let request = try put(server.url, 10)
      let task = Loop.shared.start { () async throws in try await Transfer.perform(request) }
      #expect(await waiting.opened())
      #expect(try await timeToCancel(task) < 50 * millisecond)
      await #expect(throws: TransferError.cancelled) { try await task.value }
    }

    @Test func aProxyIsUsedAsGiven() async throws {
      let seen = Locked<String>("")
      let proxy = FaultServer { connection in
        let note = { (head: FaultServer.Head, _: [UInt8]) in seen.with { $0 = head.target } }
        while connection.answer("201 Created", seen: note) != nil {}
      }
      var request = try put("http://nowhere.invalid/x", 10)
      request.proxy = proxy.url
      #expect(try await perform(request).status == 201)
      #expect(seen.with { $0 } == "http://nowhere.invalid/x")
    }
  }
}

extension FaultServer.Connection {
  /// Reads a request and its body, answers nothing yet.
  fileprivate func answerHeadOnly() -> [UInt8] {
    guard let head = readHead() else { return [] }
    return read(head.length)
  }
}
