internal import Glibc
internal import Jobs
internal import System
internal import TestKit
internal import Testing

extension EndToEnd {
  /// Servers and networks in trouble, and jobs that ask for what they may not have.
  @Suite(.timeLimit(.minutes(3))) struct Troubles {
    @Test func anOutageFailsNothingAndUsesNoAttempts() async {
      let nginx = Nginx()
      let yard = Yard()
      let worker = yard.start()
      for i in 0..<20 {
        yard.drop(
          "a\(i)", to: "\(nginx.url)/put/out/", [yard.source("a\(i)", noise(50_000))])
      }
      #expect(await yard.wait("a0", in: "done"))
      nginx.stop()
      for i in 20..<40 {
        yard.drop("a\(i)", to: "\(nginx.url)/put/out/", [yard.source("a\(i)", [1])])
      }
      // Others are not held up.
      for i in 0..<5 {
        let start = Clock.monotonic()
        yard.drop("b\(i)", to: "\(Nginx.shared.url)/put/out/", [yard.source("b\(i)", [2])])
        #expect(await yard.wait("b\(i)", in: "done"))
        #expect(Clock.monotonic() - start < second)
        try? await Task.sleep(nanoseconds: 500_000_000)
      }
      nginx.start()
      #expect(
        await eventually(40) {
          yard.folder.names("s/done").filter { $0.hasPrefix("a") }.count == 40
        }, "\(yard.log)")
      #expect(yard.folder.names("s/failed") == [])
      for i in 0..<40 { #expect(yard.sidecar("a\(i)")?.attempt == 1) }
      worker.send(SIGTERM)
      #expect(await worker.ended(15) == 0)
      nginx.stop()
    }

    @Test func aRefusedSignInWaitsForTheRightPassword() async {
      let nginx = Nginx.shared
      let yard = Yard()
      func configure(_ password: String) {
        yard.configure(
          """
          {"destinations": {"d": {"type": "http", "url": "\(nginx.url)/auth/", "user": "user",
            "password": "\(password)"}}}
          """)
      }
      configure("wrong-horse")
      let worker = yard.start()
      for i in 0..<10 { yard.drop("j\(i)", to: "d:", [yard.source("auth\(i)", [UInt8(i)])]) }
      #expect(await eventually { yard.log.contains("its jobs wait") })
      try? await Task.sleep(nanoseconds: 300_000_000)
      #expect(yard.folder.names("s/failed") == [])
      configure("secret")
      worker.send(SIGHUP)
      #expect(
        await eventually(20) { yard.folder.names("s/done").count == 10 }, "\(yard.log)")
      for i in 0..<10 { #expect(yard.sidecar("j\(i)")?.attempt == 1) }
      worker.send(SIGTERM)
      #expect(await worker.ended(15) == 0)
      // No secret anywhere.
      var texts = yard.log
      for name in yard.folder.names("s/progress") {
        texts += yard.folder.text("s/progress/\(name)") ?? ""
      }
      #expect(!texts.contains("wrong-horse"))
    }

    @Test func onePathThatWantsAPasswordDoesNotStopItsOrigin() async {
      let nginx = Nginx.shared
      let yard = Yard()
      let worker = yard.start("--concurrency", "1")
      yard.drop("locked", to: "\(nginx.url)/auth/", [yard.source("x", [1])], "\"attempts\": 2")
      #expect(await eventually { yard.sidecar("locked")?.error?.kind == "credentials" })
      for i in 0..<5 {
        yard.drop("j\(i)", to: "\(nginx.url)/put/beside/", [yard.source("beside\(i)", [1])])
      }
      #expect(
        await eventually(60) { yard.folder.names("s/done").count == 5 }, "\(yard.log)")
      worker.send(SIGTERM)
      #expect(await worker.ended(15) == 0)
    }

    @Test func aJobReadsAndReachesOnlyWhatItMay() async {
      let yard = Yard()
      let inside = yard.source("inside", [1])
      yard.folder.write("secret", "x")
      unsafe symlink(yard.folder.at("secret"), yard.folder.at("src/link"))
      yard.configure(
        """
        {"roots": ["\(yard.folder.at("src"))"],
         "hosts": ["127.0.0.1:\(Nginx.shared.port)"]}
        """)
      let to = "\(Nginx.shared.url)/put/may/"
      yard.drop("fine", to: to, [inside])
      yard.drop("outside", to: to, [yard.folder.at("secret")])
      yard.drop("link", to: to, [yard.folder.at("src/link")])
      yard.drop("dots", to: to, [yard.folder.at("src/../secret")])
      yard.drop("host", to: "http://127.0.0.1:1/x/", [inside])
      yard.drop("write", to: "file://\(yard.folder.at("out"))/", [inside])
      #expect(await yard.drain() == 1)
      #expect(yard.place("fine") == "done")
      for name in ["outside", "link", "dots", "host", "write"] {
        #expect(yard.place(name) == "failed", "\(name): \(yard.log)")
        #expect(yard.sidecar(name)?.error?.kind == "forbidden", "\(name)")
      }
      #expect(yard.folder.names("out") == [])
    }

    @Test(arguments: [
      "Wed, 31 Dec 9999 23:59:59 GMT", "Sun, 01 Jan 2263 00:00:00 GMT", "99999999999999999999",
      "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "1.5", "never", "",
    ])
    func noRetryAfterEndsTheWorker(_ value: String) async {
      let receiver = Receiver(keeping: false) { seen in
        seen.time == 1
          ? .status("503 Busy", headers: "Retry-After: \(value)\r\n") : .status("201 Created")
      }
      await inYard { yard in
        let worker = yard.start()
        yard.drop("j", to: receiver.url + "/j", [yard.source("a", [1])])
        #expect(await eventually { yard.sidecar("j")?.error?.status == 503 })
        let isFar = value.hasPrefix("Wed") || value.contains("2263") || value.hasPrefix("9999")
        let wait = (yard.sidecar("j")?.error?.retryAt ?? 0) - Clock.wall()
        #expect(isFar ? 86_000 * second..<86_500 * second ~= wait : wait < 3 * second, "\(wait)")
        #expect(await yard.stop(worker) == 0)
      }
    }

    @Test func whatAJobSignsInWithIsNotRepeatedWhenTheServerDoes() async {
      let receiver = Receiver(keeping: false) { _ in .status("201 Created") }
      let echo = FaultServer { connection in
        while let head = connection.readHead() {
          _ = connection.read(head.length)
          let text = head.header("authorization") ?? ""
          connection.send(
            "HTTP/1.1 400 No\r\nContent-Length: \(text.utf8.count)\r\n\r\n\(text)")
        }
      }
      await inYard { yard in
        let path = yard.source("a", [1])
        yard.drop(
          "j", to: echo.url + "/j", [path], "\"headers\": {\"Authorization\": \"Bearer horse-7\"}")
        #expect(await yard.drain() == 1)
        #expect(yard.sidecar("j")?.error?.message == "the server answered 400: •••")
        #expect(!yard.log.contains("horse-7"))
        #expect(!(yard.folder.text("s/progress/j.json") ?? "").contains("horse-7"))
      }
      #expect(echo.connections > 0 && receiver.seen.isEmpty)
    }

    @Test func nothingIsToldOfFilesOutsideTheRoots() async {
      await inYard { yard in
        let inside = yard.source("inside", [1, 2, 3])
        yard.configure("{\"roots\": [\"\(yard.folder.at("src"))\"]}")
        unsafe symlink("/etc/passwd", yard.folder.at("src/link"))
        yard.drop(
          "j", to: "\(Nginx.shared.url)/put/told/",
          [inside, "/etc/passwd", yard.folder.at("src/link")])
        #expect(await yard.drain() == 1)
        let sizes = yard.sidecar("j")?.files.map(\.totalBytes)
        #expect(sizes == [3, nil, nil])
      }
    }
  }
}
