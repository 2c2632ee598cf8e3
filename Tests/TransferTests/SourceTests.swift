internal import Glibc
internal import Loop
internal import System
internal import TestKit
internal import Testing
internal import Transfer

extension Transfers {
  /// What happens to files while they are sent.
  @Suite(.timeLimit(.minutes(1))) struct SourceTests {
    let folder = Folder()

    /// A server that lets `change` happen when it has the first bytes.
    private func server(_ change: @escaping @Sendable () -> Void) -> FaultServer {
      FaultServer { connection in
        guard let head = connection.readHead() else { return }
        let first = connection.read(1_000).count
        change()
        if connection.read(head.length - first).count + first == head.length {
          connection.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        }
      }
    }
    private func expectChanged(_ error: TransferError?, _ words: String) {
      guard case .sourceChanged(let why)? = error else {
        Issue.record("\(String(describing: error))")
        return
      }
      #expect(why.contains(words))
    }

    @Test(arguments: [10_000, 3_000_000], [true, false])
    func itGrows(_ size: Int, _ isLocal: Bool) async throws {
      let path = folder.write("a", noise(size))
      let server = server {
        let fd = unsafe open(path, O_WRONLY | O_APPEND)
        _ = unsafe write(fd, "more", 4)
        close(fd)
      }
      let source = try Source.open(path, isLocal: isLocal)
      let error = try await failure(Request("PUT", server.url, body: .file(source)))
      expectChanged(error, "it had \(size) bytes, now \(size + 4)")
    }
    @Test(arguments: [true, false]) func itShrinks(_ isLocal: Bool) async throws {
      let path = folder.write("a", "")
      #expect(unsafe truncate(path, 200_000_000) == 0)
      let server = server { _ = unsafe truncate(path, 1_000) }
      let source = try Source.open(path, isLocal: isLocal)
      expectChanged(
        try await failure(Request("PUT", server.url, body: .file(source))), "bytes, now")
    }
    @Test func aSmallOneShrinksBeforeItIsRead() async throws {
      for isLocal in [true, false] {
        let source = try Source.open(folder.write("a", "12345"), isLocal: isLocal)
        folder.write("a", "123")
        expectChanged(
          try await failure(Request("PUT", "\(nginx.url)/put/s", body: .file(source))),
          "became shorter")
      }
    }
    @Test func itIsRewrittenWithTheSameSize() async throws {
      let path = folder.write("a", noise(3_000_000), modified: 1_000_000_000 * second)
      let server = server {
        let fd = unsafe open(path, O_WRONLY)
        _ = unsafe write(fd, "other", 5)
        close(fd)
      }
      let source = try Source.open(path)
      expectChanged(
        try await failure(Request("PUT", server.url, body: .file(source))), "was written to")
    }
    @Test func itIsRewrittenAndItsTimePutBack() async throws {
      let time = 1_000_000_000 * second
      let path = folder.write("a", noise(3_000_000), modified: time)
      let server = server {
        let fd = unsafe open(path, O_WRONLY)
        _ = unsafe write(fd, "other", 5)
        let stamp = timespec(tv_sec: Int(time / second), tv_nsec: 0)
        _ = unsafe futimens(fd, [stamp, stamp])
        close(fd)
      }
      let source = try Source.open(path)
      expectChanged(
        try await failure(Request("PUT", server.url, body: .file(source))), "was written to")
    }
    /// A refusal may well come from the change; what speaks of the server stays the server's.
    @Test func whoseFaultItIs() async throws {
      for (status, isServers) in [("422 No", false), ("503 Busy", true), ("429 Slow", true)] {
        let path = folder.write("a", "12345", modified: 1_000_000_000 * second)
        let source = try Source.open(path)
        let server = FaultServer { connection in
          guard let head = connection.readHead() else { return }
          _ = connection.read(head.length)
          utimes(path)
          connection.send("HTTP/1.1 \(status)\r\nContent-Length: 0\r\n\r\n")
        }
        let error = try await failure(Request("PUT", server.url, body: .file(source)))
        if isServers { #expect(error == nil) } else { expectChanged(error, "was written to") }
      }
    }

    @Test(arguments: [10, 1_000_000]) func readingFails(_ size: Int) async throws {
      let broken = Calls { $0 == .read ? EIO : nil }
      let path = folder.write("a", noise(size))
      let source = try Source.open(path, isLocal: false, calls: broken)
      #expect(
        try await failure(Request("PUT", "\(nginx.url)/put/eio", body: .file(source)))
          == .sourceUnreadable(Errno(EIO)))
      #expect(nginx.stored("eio") == nil)
    }

    /// Reads of one file hang, as on a dead network filesystem.
    @Test(arguments: [10, 3_000_000]) func aHungReadDelaysNobody(_ size: Int) async throws {
      let (release, hanging) = (Gate(), Gate())
      let hung = Calls { call in
        if call == .read {
          hanging.open()
          release.wait()
        }
        return nil
      }
      defer { release.open() }
      let path = folder.write("a", noise(size))
      let source = try Source.open(path, isLocal: false, calls: hung)
      let task = Loop.shared.start { () async throws in
        try await Transfer.perform(Request("PUT", "\(nginx.url)/put/hung", body: .file(source)))
      }
      #expect(await hanging.opened())
      let healthy = try Source.open(folder.write("b", noise(100_000)), isLocal: false)
      for n in 0..<20 {
        let request = Request("PUT", "\(nginx.url)/put/healthy-\(n)", body: .file(healthy))
        let began = Clock.monotonic()
        #expect(try await perform(request).isSuccess)
        #expect(Clock.monotonic() - began < second)
      }
      #expect(!release.isOpen)
      #expect(try await timeToCancel(task) < 100 * millisecond)
      await #expect(throws: TransferError.cancelled) { try await task.value }
      #expect(!release.isOpen)
    }
    @Test(arguments: [10, 3_000_000]) func aReadThatHangsTooLongIsGivenUp(_ size: Int) async throws
    {
      let release = Gate()
      let hung = Calls { call in
        if call == .read { release.wait() }
        return nil
      }
      defer { release.open() }
      let path = folder.write("a", noise(size))
      let source = try Source.open(path, isLocal: false, calls: hung)
      var request = Request("PUT", "\(nginx.url)/put/hung", body: .file(source))
      request.timeouts.source = 300 * millisecond
      #expect(try await failure(request) == .sourceUnreadable(Errno(ETIMEDOUT)))
    }
    /// The wait for a slow disk doesn't count as the server's standstill.
    @Test func aSlowDiskIsNotTheServersFault() async throws {
      let slow = Calls { call in
        if call == .read { usleep(500_000) }
        return nil
      }
      let bytes = noise(1_500_000)
      let source = try Source.open(folder.write("a", bytes), isLocal: false, calls: slow)
      var request = Request("PUT", "\(nginx.url)/put/slow-disk", body: .file(source))
      request.timeouts.progress = 200 * millisecond
      #expect(try await perform(request).isSuccess)
      #expect(nginx.stored("slow-disk") == bytes)
    }

    /// Whatever its end, a transfer lets go of the file, else descriptors would run out.
    @Test(arguments: [10, 300_000], [true, false])
    func theFileIsClosedAfterwards(_ size: Int, _ isLocal: Bool) async throws {
      let path = folder.write("a", noise(size))
      let silent = FaultServer { _ = $0.waitForEnd(seconds: 10) }
      for url in ["\(nginx.url)/put/closed", silent.url, "http://127.0.0.1:\(freePort())/"] {
        for isForm in [false, true] {
          let end = try await sendAndForget(path, url, isLocal, isForm)
          #expect(await eventually(3) { end() == nil }, "\(url), form \(isForm)")
        }
      }
    }
    private func sendAndForget(
      _ path: String, _ url: String, _ isLocal: Bool, _ isForm: Bool
    ) async throws -> () -> Source? {
      let source = try Source.open(path, isLocal: isLocal)
      let body = isForm ? Body.form(Form(fileName: "a", source: source)) : .file(source)
      let task = Loop.shared.start { () async throws in
        try await Transfer.perform(Request(isForm ? "POST" : "PUT", url, body: body))
      }
      try await Task.sleep(nanoseconds: 30_000_000)
      task.cancel()
      _ = await task.result
      return { [weak source] in source }
    }

    @Test func digestsAreThoseOfTheBytes() async throws {
      let bytes = noise(2_500_000)
      let source = try Source.open(folder.write("a", bytes))
      let (whole, part, empty) = try await onTheLoop { () async throws in
        (
          try await source.digest(.sha256),
          try await source.digest(.md5, from: 100, count: 1_100_000),
          try await source.digest(.sha1, from: 5, count: 0)
        )
      }
      #expect(whole == Digest.of(bytes, .sha256))
      #expect(part == Digest.of(Array(bytes[100..<1_100_100]), .md5))
      #expect(empty == Digest.of([], .sha1))
    }
    @Test func aDigestIsCancelledAtOnceAndNoticesChanges() async throws {
      let path = folder.write("a", "")
      #expect(unsafe truncate(path, 100_000_000_000) == 0)
      let source = try Source.open(path)
      let task = Loop.shared.start { () async throws in try await source.digest(.sha256) }
      try await Task.sleep(nanoseconds: 30_000_000)
      #expect(try await timeToCancel(task) < 100 * millisecond)
      await #expect(throws: TransferError.cancelled) { try await task.value }

      #expect(unsafe truncate(path, 3) == 0)
      await #expect(throws: TransferError.self) {
        try await onTheLoop { try await source.digest(.md5, count: 10) }
      }
    }
  }
}

/// Sets a file's times to now.
private func utimes(_ path: String) { _ = unsafe Glibc.utimes(path, nil) }
