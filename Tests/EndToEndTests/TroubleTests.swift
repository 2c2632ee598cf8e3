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
      let field = Field()
      let worker = field.start()
      for i in 0..<20 {
        field.drop(
          "a\(i)", to: "\(nginx.url)/put/out/", [field.source("a\(i)", noise(50_000))])
      }
      #expect(await field.wait("a0", in: "done"))
      nginx.stop()
      for i in 20..<40 {
        field.drop("a\(i)", to: "\(nginx.url)/put/out/", [field.source("a\(i)", [1])])
      }
      // Others are not held up.
      for i in 0..<5 {
        let start = Clock.monotonic()
        field.drop("b\(i)", to: "\(Nginx.shared.url)/put/out/", [field.source("b\(i)", [2])])
        #expect(await field.wait("b\(i)", in: "done"))
        #expect(Clock.monotonic() - start < second)
        try? await Task.sleep(nanoseconds: 500_000_000)
      }
      nginx.start()
      #expect(
        await eventually(40) {
          field.folder.names("s/done").filter { $0.hasPrefix("a") }.count == 40
        }, "\(field.log)")
      #expect(field.folder.names("s/failed") == [])
      for i in 0..<40 { #expect(field.sidecar("a\(i)")?.attempt == 1) }
      worker.send(SIGTERM)
      #expect(await worker.ended(15) == 0)
      nginx.stop()
    }

    @Test func aRefusedSignInWaitsForTheRightPassword() async {
      let nginx = Nginx.shared
      let field = Field()
      func configure(_ password: String) {
        field.configure(
          """
          {"destinations": {"d": {"type": "http", "url": "\(nginx.url)/auth/", "user": "user",
            "password": "\(password)"}}}
          """)
      }
      configure("wrong-horse")
      let worker = field.start()
      for i in 0..<10 { field.drop("j\(i)", to: "d:", [field.source("auth\(i)", [UInt8(i)])]) }
      #expect(await eventually { field.log.contains("its jobs wait") })
      try? await Task.sleep(nanoseconds: 300_000_000)
      #expect(field.folder.names("s/failed") == [])
      configure("secret")
      worker.send(SIGHUP)
      #expect(
        await eventually(20) { field.folder.names("s/done").count == 10 }, "\(field.log)")
      for i in 0..<10 { #expect(field.sidecar("j\(i)")?.attempt == 1) }
      worker.send(SIGTERM)
      #expect(await worker.ended(15) == 0)
      // No secret anywhere.
      var texts = field.log
      for name in field.folder.names("s/progress") {
        texts += field.folder.text("s/progress/\(name)") ?? ""
      }
      #expect(!texts.contains("wrong-horse"))
    }

    @Test func onePathThatWantsAPasswordDoesNotStopItsOrigin() async {
      let nginx = Nginx.shared
      let field = Field()
      let worker = field.start("--concurrency", "1")
      field.drop("locked", to: "\(nginx.url)/auth/", [field.source("x", [1])], "\"attempts\": 2")
      #expect(await eventually { field.sidecar("locked")?.error?.kind == "credentials" })
      for i in 0..<5 {
        field.drop("j\(i)", to: "\(nginx.url)/put/beside/", [field.source("beside\(i)", [1])])
      }
      #expect(
        await eventually(60) { field.folder.names("s/done").count == 5 }, "\(field.log)")
      worker.send(SIGTERM)
      #expect(await worker.ended(15) == 0)
    }

    @Test func retryAfterHoldsOneHostAndNoOther() async {
      let requests = Locked<[Int64]>([])
      let server = FaultServer { connection in
        while let head = connection.readHead() {
          _ = connection.read(head.length)
          let count = requests.with { all in
            all.append(Clock.monotonic())
            return all.count
          }
          _ = connection.send(
            count <= 4
              ? "HTTP/1.1 429 Too Many\r\nretry-after: 3\r\nContent-Length: 0\r\n\r\n"
              : "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
        }
      }
      let field = Field()
      let worker = field.start()
      for i in 0..<10 { field.drop("a\(i)", to: "\(server.url)/", [field.source("a\(i)", [1])]) }
      #expect(await eventually { requests.with { !$0.isEmpty } })
      field.drop("b", to: "\(Nginx.shared.url)/put/ra/", [field.source("b", [1])])
      #expect(await field.wait("b", in: "done", seconds: 2))
      #expect(await eventually(30) { field.folder.names("s/done").count == 11 }, "\(field.log)")
      let times = requests.with { $0 }
      #expect(times.count >= 11)
      // At most the four that were under way together came early.
      let early = times.count { $0 - times[0] < 2_900 * millisecond }
      #expect(early <= 4)
      for i in 0..<10 { #expect(field.sidecar("a\(i)")?.attempt == 1) }
      #expect(server.connections > 0)
      worker.send(SIGTERM)
      #expect(await worker.ended(15) == 0)
    }

    @Test func manyThatFailTogetherComeBackSpreadOut() async {
      let field = Field()
      let path = field.source("a", [1])
      let worker = field.start("--concurrency", "16")
      for i in 0..<100 {
        field.drop("j\(i)", to: "\(Nginx.shared.url)/status/500", [path], "\"attempts\": 3")
      }
      #expect(
        await eventually(20) {
          (0..<100).allSatisfy { (field.sidecar("j\($0)")?.failures ?? 0) >= 1 }
        })
      #expect(await eventually(30) { field.folder.names("s/failed").count == 100 })
      let waits = (0..<100).compactMap { field.sidecar("j\($0)") }
      #expect(waits.allSatisfy { $0.failures == 3 })
      #expect(waits.allSatisfy { $0.error?.message.hasPrefix("tried 3 times") == true })
      worker.send(SIGTERM)
      #expect(await worker.ended(15) == 0)
    }

    @Test func aJobReadsAndReachesOnlyWhatItMay() async {
      let field = Field()
      let inside = field.source("inside", [1])
      field.folder.write("secret", "x")
      unsafe symlink(field.folder.at("secret"), field.folder.at("src/link"))
      field.configure(
        """
        {"roots": ["\(field.folder.at("src"))"],
         "hosts": ["127.0.0.1:\(Nginx.shared.port)"]}
        """)
      let to = "\(Nginx.shared.url)/put/may/"
      field.drop("fine", to: to, [inside])
      field.drop("outside", to: to, [field.folder.at("secret")])
      field.drop("link", to: to, [field.folder.at("src/link")])
      field.drop("dots", to: to, [field.folder.at("src/../secret")])
      field.drop("host", to: "http://127.0.0.1:1/x/", [inside])
      field.drop("write", to: "file://\(field.folder.at("out"))/", [inside])
      #expect(await field.drain() == 1)
      #expect(field.place("fine") == "done")
      for name in ["outside", "link", "dots", "host", "write"] {
        #expect(field.place(name) == "failed", "\(name): \(field.log)")
        #expect(field.sidecar(name)?.error?.kind == "forbidden", "\(name)")
      }
      #expect(field.folder.names("out") == [])
    }

    @Test func filesOfOneJobInParallelAndOnError() async {
      let nginx = Nginx.shared
      let field = Field()
      let paths = (0..<12).map { field.source("m\($0)", noise(1000, seed: UInt64($0))) }
      let missing = field.folder.at("src/nope")
      field.drop("par", to: "\(nginx.url)/put/par/", paths, "\"parallel\": 4")
      field.drop(
        "cont", to: "\(nginx.url)/put/cont/", [missing] + paths, "\"onError\": \"continue\"")
      field.drop("stop", to: "\(nginx.url)/put/stop/", [missing] + paths)
      #expect(await field.drain("--concurrency", "6") == 1)
      #expect(field.place("par") == "done")
      #expect(nginx.names("par").count == 12)
      #expect(field.sidecar("cont")?.files.count { $0.state == .done } == 12)
      #expect(field.place("cont") == "failed")
      #expect(nginx.names("cont").count == 12)
      #expect(field.sidecar("stop")?.files.count { $0.state == .done } == 0)
      #expect(nginx.names("stop") == [])
    }
  }
}
