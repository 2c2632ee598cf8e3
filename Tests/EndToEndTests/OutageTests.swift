internal import Glibc
internal import Jobs
internal import System
internal import TestKit
internal import Testing

/// Destinations in trouble: whose jobs wait, whose are tried again, and whose fail.
@Suite(.serialized, .timeLimit(.minutes(4))) struct OutageTests {
  @Test func aServerThatIsDownAtTheStartCostsNothing() async {
    let port = freePort()
    let other = Receiver { _ in .status("201 Created") }
    await inYard { yard in
      let path = yard.source("a", [1])
      for i in 0..<30 { yard.drop("a\(i)", to: "http://127.0.0.1:\(port)/\(i)", [path]) }
      for i in 0..<30 { yard.drop("b\(i)", to: other.url + "/\(i)", [path]) }
      let worker = yard.start("--concurrency", "2")
      #expect(
        await eventually(3) { other.seen.count == 30 }, "\(other.seen.count) of the healthy one")
      await pause(2)
      #expect(yard.count("failed") == 0)
      #expect(yard.lines("destination").count == 1, "\(yard.log)")
      let waiting = (0..<30).compactMap { yard.sidecar("a\($0)") }.first
      #expect(waiting?.error?.kind == "unreachable")
      #expect(waiting?.error?.advice?.isEmpty == false)
      let before = worker.cpuTime
      await pause(1)
      #expect(worker.cpuTime - before < 100 * millisecond)
      let receiver = Receiver(port: port) { _ in .status("201 Created") }
      #expect(await yard.wait(60, in: "done", seconds: 30), "\(yard.log)")
      for i in 0..<30 {
        #expect(yard.sidecar("a\(i)")?.attempt == 1)
        #expect(yard.sidecar("a\(i)")?.error == nil)
        #expect(receiver.seen("/\(i)").count == 1)
      }
      #expect(await yard.stop(worker) == 0)
    }
  }

  @Test func aServersTroubleIsProbedByOneAtATime() async {
    let start = Clock.monotonic()
    let receivers = ["502 Bad Gateway", "503 Unavailable", "504 Timeout", "507 Full"].map {
      status in
      Receiver { _ in
        Clock.monotonic() - start < 3 * second ? .status(status) : .status("201 Created")
      }
    }
    await inYard { yard in
      let path = yard.source("a", [1])
      let worker = yard.start("--concurrency", "8")
      for i in 0..<40 {
        for (n, receiver) in receivers.enumerated() {
          yard.drop("j\(n)-\(i)", to: receiver.url + "/\(i)", [path])
        }
      }
      #expect(await yard.wait(160, in: "done", seconds: 40), "\(yard.log)")
      for receiver in receivers {
        let refused = receiver.seen.count { $0.at - start < 3 * second }
        // Eight that began together, and then probes at 1, 2 … s.
        #expect(1...12 ~= refused, "\(refused) requests in 3 s of trouble")
        #expect(receiver.seen.count == 40 + refused)
      }
      for n in 0..<4 {
        for i in 0..<40 { #expect(yard.sidecar("j\(n)-\(i)")?.attempt == 1) }
      }
      #expect(yard.lines("retry") == [])
      #expect(await yard.stop(worker) == 0)
    }
  }

  @Test func aRefusedTokenWaitsForTheNextAndTellsNobodyWhatItWas() async {
    let receiver = Receiver { seen in
      seen.authorization == "Bearer right-token-2"
        ? .status("201 Created")
        // It repeats what it was sent, as careless servers do.
        : .status("401 Unauthorized", headers: "X-Seen: \(seen.authorization ?? "")\r\n")
    }
    await inYard { yard in
      let path = yard.source("a", [1])
      yard.folder.write("token", "wrong-token-1\n")
      yard.destinations([
        (
          "d",
          "\"type\": \"http\", \"url\": \"\(receiver.url)/\", "
            + "\"token\": \"${file:\(yard.folder.at("token"))}\""
        )
      ])
      let worker = yard.start()
      for i in 0..<10 { yard.drop("j\(i)", to: "d:\(i)", [path]) }
      #expect(await eventually { yard.lines("destination").count == 1 })
      await pause(2)
      // Few, so that no account is locked.
      #expect(receiver.seen.count <= 5, "\(receiver.seen.count)")
      #expect(yard.count("failed") == 0)
      let refused = (0..<10).compactMap { yard.sidecar("j\($0)")?.error }.first
      #expect(refused?.kind == "credentials" && refused?.status == 401)
      yard.folder.write("token", "right-token-2\n")
      worker.send(SIGHUP)
      #expect(await yard.wait(10, in: "done", seconds: 10), "\(yard.log)")
      for i in 0..<10 { #expect(yard.sidecar("j\(i)")?.attempt == 1) }
      #expect(!yard.log.contains("wrong-token") && !yard.log.contains("right-token"))
      #expect(await yard.stop(worker) == 0)
    }
  }

  @Test func aCutThatBeganAnOutageIsGivenBack() async {
    let box = Locked<Receiver?>(nil)
    let receiver = Receiver { _ in
      box.with { $0 }?.stop()
      return .cut
    }
    box.with { $0 = receiver }
    let port = receiver.port
    await inYard { yard in
      let worker = yard.start()
      yard.drop("j", to: receiver.url + "/j", [yard.source("a", noise(3_000_000))])
      #expect(await eventually { receiver.seen.count == 1 })
      // The cut counts for the moment; then nobody answers.
      #expect(
        await eventually { yard.sidecar("j")?.error?.kind == "unreachable" }, "\(yard.log)")
      #expect(yard.sidecar("j")?.failures == 0)
      box.with { $0 = nil }
      let again = Receiver(port: port) { _ in .status("201 Created") }
      #expect(await yard.wait("j", in: "done", seconds: 15))
      #expect(yard.sidecar("j")?.attempt == 1)
      #expect(again.seen.first?.body == noise(3_000_000))
      #expect(await yard.stop(worker) == 0)
    }
  }

  @Test func aCutOfALivingServerIsTheJobsOwn() async {
    let receiver = Receiver { seen in seen.time <= 2 ? .cut : .status("201 Created") }
    await inYard { yard in
      yard.drop("j", to: receiver.url + "/j", [yard.source("a", noise(100_000))])
      yard.drop(
        "two", to: receiver.url + "/two", [yard.source("a", noise(100_000))], "\"attempts\": 2")
      #expect(await yard.drain() == 1, "\(yard.log)\n\(receiver.seen.count)")
      #expect(yard.sidecar("j")?.attempt == 3)
      #expect(yard.place("two") == "failed")
      #expect(yard.sidecar("two")?.error?.message.hasPrefix("tried 2 times") == true)
    }
  }

  @Test func whatIsOlderThanItsAgeFailsWithTheReason() async {
    let port = freePort()
    let receiver = Receiver { _ in .status("500 Oops") }
    await inYard { yard in
      yard.configure("{\"giveUpAfter\": \"3s\", \"attempts\": 100}")
      let path = yard.source("a", [1])
      let worker = yard.start()
      yard.drop("away", to: "http://127.0.0.1:\(port)/x", [path])
      yard.drop("oops", to: receiver.url + "/x", [path])
      #expect(await yard.wait("away", in: "failed", seconds: 20), "\(yard.log)")
      #expect(await yard.wait("oops", in: "failed", seconds: 20), "\(yard.log)")
      for name in ["away", "oops"] {
        let error = yard.sidecar(name)?.error
        #expect(error?.message.hasPrefix("given up after 3") == true, "\(error?.message ?? "")")
        #expect(error?.advice?.contains("pending/") == true)
      }
      // Moved back, its age begins afresh.
      yard.move("oops", "failed", "pending")
      let before = receiver.seen.count
      #expect(await eventually { receiver.seen.count > before })
      #expect(yard.place("oops") != "failed")
      #expect(await yard.stop(worker) == 0)
    }
  }

  @Test func aJobExpiresWhileItsDestinationIsAway() async {
    let port = freePort()
    await inYard { yard in
      let path = yard.source("a", [1])
      let worker = yard.start()
      let soon = Times.format(Clock.wall() + 4 * second)
      yard.drop("stays", to: "http://127.0.0.1:\(port)/x", [path])
      yard.drop("goes", to: "http://127.0.0.1:\(port)/x", [path], "\"expires\": \"\(soon)\"")
      #expect(await eventually { yard.sidecar("stays")?.error?.kind == "unreachable" })
      // In active/ for the moment of a probe.
      #expect(yard.place("goes") != "failed")
      #expect(await yard.wait("goes", in: "failed", seconds: 6), "\(yard.log)")
      #expect(yard.sidecar("goes")?.error?.kind == "expired")
      #expect(yard.place("stays") != "failed")
      #expect(await yard.stop(worker) == 0)
    }
  }

  @Test func twoAttemptsAreTwo() async {
    let receiver = Receiver { _ in .status("500 Oops") }
    await inYard { yard in
      let path = yard.source("a", [1])
      yard.drop("j", to: receiver.url + "/j", [path], "\"attempts\": 2")
      yard.drop("once", to: receiver.url + "/once", [path], "\"attempts\": 1")
      #expect(await yard.drain() == 1)
      #expect(receiver.seen("/j").count == 2 && receiver.seen("/once").count == 1)
      let error = yard.sidecar("j")?.error
      #expect(error?.message.hasPrefix("tried 2 times") == true, "\(error?.message ?? "")")
      #expect(error?.status == 500)
      // Moved back it has two more.
      yard.move("j", "failed", "pending")
      #expect(await yard.drain() == 1)
      #expect(receiver.seen("/j").count == 4)
    }
  }

  @Test func retryAfterHoldsOneHostAndIsKeptByARestart() async {
    let start = Locked<Int64>(0)
    let receiver = Receiver { _ in
      let now = Clock.monotonic()
      let first = start.with { at in
        if at == 0 { at = now }
        return at
      }
      return now - first < second
        ? .status("429 Slow down", headers: "retry-after: 3\r\n") : .status("201 Created")
    }
    let healthy = Receiver { _ in .status("201 Created") }
    await inYard { yard in
      let path = yard.source("a", [1])
      let worker = yard.start("--concurrency", "1")
      for i in 0..<20 { yard.drop("a\(i)", to: receiver.url + "/\(i)", [path]) }
      #expect(await eventually { !receiver.seen.isEmpty })
      for i in 0..<20 { yard.drop("b\(i)", to: healthy.url + "/\(i)", [path]) }
      #expect(await eventually(2) { healthy.seen.count == 20 }, "\(yard.log)")
      #expect(await yard.wait(40, in: "done", seconds: 20), "\(yard.log)")
      let times = receiver.seen.map(\.began)
      #expect(times.count == 21)
      #expect((times.dropFirst().min() ?? 0) - times[0] >= 3 * second - 20 * millisecond)
      for i in 0..<20 { #expect(yard.sidecar("a\(i)")?.attempt == 1) }
      #expect(await yard.stop(worker) == 0)
    }
  }

  @Test func aServerThatTakesAndNeverAnswersHoldsOneSlotForItsTime() async {
    let receiver = Receiver { seen in
      seen.target == "/mute" ? .late(30, "201 Created") : .status("201 Created")
    }
    await inYard { yard in
      yard.destinations([
        ("d", "\"type\": \"http\", \"url\": \"\(receiver.url)/\", \"timeout\": \"1s\"")
      ])
      let path = yard.source("a", [1])
      let worker = yard.start("--concurrency", "2")
      yard.drop("mute", to: "d:mute", [path], "\"attempts\": 2")
      for i in 0..<20 { yard.drop("j\(i)", to: "d:\(i)", [path]) }
      #expect(await eventually(3) { yard.count("done") == 20 })
      #expect(await yard.wait("mute", in: "failed", seconds: 15), "\(yard.log)")
      #expect(receiver.seen("/mute").count == 2)
      #expect(yard.sidecar("mute")?.error?.kind == "timeout")
      #expect(await yard.stop(worker) == 0)
    }
  }

  @Test func aServerThatStopsReadingIsGivenUpInTime() async {
    let server = FaultServer(receiveBuffer: 4096) { connection in
      _ = connection.readHead()
      // Neither reads nor answers.
      usleep(20_000_000)
    }
    defer { server.stop() }
    await inYard { yard in
      yard.destinations([
        ("d", "\"type\": \"http\", \"url\": \"\(server.url)/\", \"stallTimeout\": \"1s\"")
      ])
      let worker = yard.start()
      yard.drop("j", to: "d:x", [yard.source("a", noise(20_000_000))], "\"attempts\": 1")
      #expect(await yard.wait("j", in: "failed", seconds: 10), "\(yard.log)")
      #expect(yard.sidecar("j")?.error?.kind == "timeout")
      #expect((yard.sidecar("j")?.percent ?? 100) < 100)
      #expect(await yard.stop(worker) == 0)
    }
  }

  @Test func aWrongCertificateWaitsWithAdvice() async {
    let nginx = Nginx.shared
    await inYard { yard in
      let path = yard.source("a", [1])
      // Unknown authority; and a name that isn't in the certificate.
      yard.destinations([
        ("unknown", "\"type\": \"http\", \"url\": \"\(nginx.secureURL)/put/tls/\""),
        (
          "name",
          "\"type\": \"http\", \"url\": \"https://127.0.0.1:\(nginx.securePort)/put/tls/\", "
            + "\"ca\": \"\(nginx.caFile)\""
        ),
      ])
      let worker = yard.start()
      yard.drop("unknown", to: "unknown:unknown", [path])
      yard.drop("name", to: "name:name", [path])
      for name in ["unknown", "name"] {
        #expect(await eventually { yard.sidecar(name)?.error?.kind == "tls" }, "\(yard.log)")
        #expect(yard.sidecar(name)?.error?.advice?.contains("ca") == true)
        #expect(nginx.stored("tls/\(name)") == nil)
      }
      #expect(yard.count("failed") == 0)
      #expect(await yard.stop(worker) == 0)
    }
  }
}
