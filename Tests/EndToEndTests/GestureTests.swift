internal import Glibc
internal import Jobs
internal import System
internal import TestKit
internal import Testing

extension EndToEnd {
  /// What people do with `mv`, `rm` and `touch`, and operators with signals.
  @Suite(.timeLimit(.minutes(3))) struct Gestures {
    let nginx = Nginx.shared

    /// A destination that takes 2 MB a second, so that a job runs for as long as a test needs.
    func slowYard(_ folder: String, _ more: String = "") -> Yard {
      let yard = Yard()
      yard.configure(
        """
        {"destinations": {
          "slow": {"type": "http", "url": "\(nginx.url)/put/\(folder)/", "bandwidth": "2M"}
        }\(more)}
        """)
      return yard
    }

    @Test func aRemovedCopyLeavesNothingInItsDirectory() async {
      let yard = Yard()
      yard.configure(
        "{\"destinations\": {\"d\": {\"type\": \"file\", \"path\": \"\(yard.folder.at("out"))\"}}}"
      )
      let path = yard.source("huge", [])
      _ = unsafe truncate(path, 20_000_000_000)
      let worker = yard.start()
      yard.drop("huge", to: "d:", [path])
      #expect(await eventually(10) { !yard.folder.names("out").isEmpty })
      #expect(yard.remove("huge", "active"))
      #expect(await yard.wait("huge", .cancelled))
      #expect(yard.folder.names("out") == [])
      worker.send(SIGTERM)
      #expect(await worker.ended(15) == 0)
    }

    @Test func aCopyGoesOnWhereItStoppedAfterAKill() async {
      let yard = Yard()
      yard.configure(
        "{\"destinations\": {\"d\": {\"type\": \"file\", \"path\": \"\(yard.folder.at("out"))\"}}}"
      )
      let bytes = noise(40_000_000)
      let path = yard.source("part", bytes)
      var worker = yard.start("--durability", "process")
      yard.drop("j", to: "d:", [path])
      for _ in 0..<4 {
        try? await Task.sleep(nanoseconds: 40_000_000)
        worker.send(SIGKILL)
        worker.wait()
        worker = yard.start("--durability", "process")
      }
      #expect(await yard.wait("j", in: "done", seconds: 40), "\(yard.log)")
      #expect(yard.folder.read("out/part") == bytes)
      #expect(yard.folder.names("out") == ["part"])
      worker.send(SIGTERM)
      #expect(await worker.ended(15) == 0)
    }

    @Test func touchSchedulesAndLiftsTheBackOff() async {
      let yard = Yard()
      let path = yard.source("a", [1])
      let worker = yard.start()
      let later = Clock.wall() + 8 * second
      yard.folder.write(
        "s/.later", "{\"to\": \"\(nginx.url)/put/touch/\", \"files\": [\"\(path)\"]}",
        modified: later)
      yard.folder.move("s/.later", to: "s/pending/later.json")
      // A rename sets no ctime beyond the future mtime, so it waits for its time.
      try? await Task.sleep(nanoseconds: 1_000_000_000)
      #expect(yard.place("later") == "pending")
      #expect(await yard.wait("later", in: "done", seconds: 20))

      // Several failures make the wait long; a touch ends it.
      yard.drop("fails", to: "\(nginx.url)/status/500", [path])
      #expect(await eventually(20) { (yard.sidecar("fails")?.failures ?? 0) >= 3 })
      #expect(await yard.wait("fails", in: "pending"))
      let waiting = yard.sidecar("fails")
      #expect(waiting?.wait?.reason == "back-off")
      #expect((waiting?.wait?.until ?? 0) > Clock.wall() + 2 * second)
      yard.touch("fails")
      let now = Clock.wall()
      #expect(await eventually(5) { (yard.sidecar("fails")?.failures ?? 0) >= 4 })
      #expect(Clock.wall() - now < 2 * second)
      worker.send(SIGTERM)
      #expect(await worker.ended(15) == 0)
    }

    @Test func notBeforeWaitsAndExpiredFails() async {
      let yard = Yard()
      let path = yard.source("a", [1])
      let soon = Times.format(Clock.wall() + 8 * second)
      yard.drop("soon", to: "\(nginx.url)/put/nb/", [path], "\"notBefore\": \"\(soon)\"")
      yard.drop(
        "old", to: "\(nginx.url)/put/nb/", [path], "\"expires\": \"2020-01-01T00:00:00Z\"")
      let worker = yard.start()
      #expect(await yard.wait("old", in: "failed"))
      #expect(yard.sidecar("old")?.error?.kind == "expired")
      #expect(yard.place("soon") == "pending")
      #expect(await eventually { yard.sidecar("soon")?.wait?.reason == "notBefore" })
      #expect(await yard.wait("soon", in: "done", seconds: 20))
      worker.send(SIGTERM)
      #expect(await worker.ended(15) == 0)
    }

    @Test func oneAtATimeRunsByPriorityThenAge() async {
      let yard = Yard()
      let path = yard.source("a", [1])
      let base = Clock.wall() - 100 * second
      let jobs = [("c", 5, 3), ("a", 5, 1), ("urgent", 0, 9), ("late", 9, 0), ("b", 5, 2)]
      for (name, priority, age) in jobs {
        yard.folder.write(
          "s/pending/\(name).json",
          """
          {"to": "\(nginx.url)/put/order/", "files": [{"path": "\(path)", "as": "\(name)"}],
           "priority": \(priority)}
          """, modified: base + Int64(age) * second)
      }
      #expect(await yard.drain(["--concurrency", "1"]) == 0)
      let order = nginx.log.filter { $0.path.hasPrefix("/put/order/") }.map {
        $0.path.split(separator: "/").last.map(String.init) ?? ""
      }
      #expect(order == ["urgent", "a", "b", "c", "late"])
    }

    @Test func sigtermFinishesTheShortAndReturnsTheLong() async {
      let yard = slowYard("term")
      let worker = yard.start("--grace", "3")
      yard.drop("long", to: "slow:", [yard.source("long", noise(60_000_000))])
      yard.drop("short", to: "\(nginx.url)/slow/1.5", [yard.source("short", [1])])
      #expect(await yard.wait("long", in: "active"))
      #expect(await yard.wait("short", in: "active"))
      let start = Clock.monotonic()
      worker.send(SIGTERM)
      yard.drop("never", to: "\(nginx.url)/put/term/", [yard.source("never", [1])])
      #expect(await worker.ended(15) == 0)
      let took = Clock.monotonic() - start
      #expect(2 * second..<6 * second ~= took)
      #expect(yard.place("short") == "done")
      #expect(yard.place("long") == "pending")
      #expect(yard.place("never") == "pending")
      #expect(yard.sidecar("long")?.failures == 0)
      #expect(yard.folder.names("s/workers") == [])
      // A second signal: at once.
      let again = yard.start("--grace", "30")
      #expect(await yard.wait("long", in: "active"))
      again.send(SIGTERM)
      try? await Task.sleep(nanoseconds: 100_000_000)
      let second = Clock.monotonic()
      again.send(SIGTERM)
      #expect(await again.ended(5) == 0)
      #expect(Clock.monotonic() - second < 2 * System.second)
    }

    @Test func sighupReadsTheConfigurationWhileATransferGoesOn() async {
      let yard = slowYard("hup")
      let worker = yard.start()
      yard.drop("long", to: "slow:", [yard.source("long", noise(6_000_000))])
      yard.drop("unknown", to: "later:", [yard.source("u", [1])])
      #expect(await yard.wait("long", in: "active"))
      #expect(await eventually { yard.sidecar("unknown")?.error?.kind == "unknownDestination" })
      yard.configure("{\"destinations\": nonsense")
      worker.send(SIGHUP)
      #expect(await eventually { yard.log.contains("the configuration stays as it was") })
      yard.configure(
        """
        {"destinations": {
          "slow": {"type": "http", "url": "\(nginx.url)/put/hup/", "bandwidth": "2M"},
          "later": {"type": "http", "url": "\(nginx.url)/put/hup/"}}}
        """)
      worker.send(SIGHUP)
      #expect(await yard.wait("unknown", in: "done"))
      #expect(yard.place("long") == "active")
      #expect(await yard.wait("long", in: "done"))
      #expect(yard.sidecar("long")?.attempt == 1)
      worker.send(SIGTERM)
      #expect(await worker.ended(15) == 0)
    }
  }
}
