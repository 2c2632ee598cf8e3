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
    func slowField(_ folder: String, _ more: String = "") -> Field {
      let field = Field()
      field.configure(
        """
        {"destinations": {
          "slow": {"type": "http", "url": "\(nginx.url)/put/\(folder)/", "bandwidth": "2M"}
        }\(more)}
        """)
      return field
    }

    @Test func aJobMovedAwayStopsAtOnceAndItsSlotGoesOn() async {
      let field = slowField("pause")
      let big = field.source("big", noise(20_000_000))
      let worker = field.start("--concurrency", "1")
      field.drop("big", to: "slow:", [big])
      #expect(await field.wait("big", in: "active"))
      field.drop("next", to: "\(nginx.url)/put/pause/", [field.source("next", [1])])
      try? await Task.sleep(nanoseconds: 1_300_000_000)
      #expect(field.place("next") == "pending")
      let start = Clock.monotonic()
      #expect(field.move("big", "active", "paused"))
      #expect(await field.wait("next", in: "done"))
      #expect(Clock.monotonic() - start < second)
      #expect(await field.wait("big", state: .paused))
      let paused = field.sidecar("big")
      #expect(paused?.failures == 0)
      #expect((paused?.percent ?? 0) > 0)
      try? await Task.sleep(nanoseconds: 500_000_000)
      #expect(field.place("big") == "paused")
      #expect(nginx.stored("pause/big") == nil)
      // Resumed, it runs again; removed, it is cancelled.
      #expect(field.move("big", "paused", "pending"))
      #expect(await field.wait("big", in: "active"))
      #expect(field.remove("big", "active"))
      #expect(await field.wait("big", state: .cancelled))
      worker.send(SIGTERM)
      #expect(await worker.ended(15) == 0)
      #expect(field.place("big") == nil)
    }

    @Test func aRemovedCopyLeavesNothingInItsDirectory() async {
      let field = Field()
      field.configure(
        "{\"destinations\": {\"d\": {\"type\": \"file\", \"path\": \"\(field.folder.at("out"))\"}}}"
      )
      let path = field.source("huge", [])
      _ = unsafe truncate(path, 20_000_000_000)
      let worker = field.start()
      field.drop("huge", to: "d:", [path])
      #expect(await eventually(10) { !field.folder.names("out").isEmpty })
      #expect(field.remove("huge", "active"))
      #expect(await field.wait("huge", state: .cancelled))
      #expect(field.folder.names("out") == [])
      worker.send(SIGTERM)
      #expect(await worker.ended(15) == 0)
    }

    @Test func aCopyGoesOnWhereItStoppedAfterAKill() async {
      let field = Field()
      field.configure(
        "{\"destinations\": {\"d\": {\"type\": \"file\", \"path\": \"\(field.folder.at("out"))\"}}}"
      )
      let bytes = noise(40_000_000)
      let path = field.source("part", bytes)
      var worker = field.start("--durability", "process")
      field.drop("j", to: "d:", [path])
      for _ in 0..<4 {
        try? await Task.sleep(nanoseconds: 40_000_000)
        worker.send(SIGKILL)
        worker.wait()
        worker = field.start("--durability", "process")
      }
      #expect(await field.wait("j", in: "done", seconds: 40), "\(field.log)")
      #expect(field.folder.read("out/part") == bytes)
      #expect(field.folder.names("out") == ["part"])
      worker.send(SIGTERM)
      #expect(await worker.ended(15) == 0)
    }

    @Test func everythingStopsWhileHoldIsThere() async {
      let field = slowField("hold")
      let worker = field.start()
      field.drop("big", to: "slow:", [field.source("big", noise(8_000_000))])
      #expect(await field.wait("big", in: "active"))
      field.folder.write("s/hold", "")
      #expect(await field.wait("big", in: "pending"))
      field.drop("next", to: "\(nginx.url)/put/hold/", [field.source("next", [1])])
      try? await Task.sleep(nanoseconds: 500_000_000)
      #expect(field.place("next") == "pending")
      #expect(field.sidecar("big")?.state == .pending)
      #expect(field.sidecar("big")?.failures == 0)
      field.folder.remove("s/hold")
      #expect(await field.wait("next", in: "done"))
      #expect(await field.wait("big", in: "done"))
      worker.send(SIGTERM)
      #expect(await worker.ended(15) == 0)
    }

    @Test func touchSchedulesAndLiftsTheBackOff() async {
      let field = Field()
      let path = field.source("a", [1])
      let worker = field.start()
      let later = Clock.wall() + 8 * second
      field.folder.write(
        "s/.later", "{\"to\": \"\(nginx.url)/put/touch/\", \"files\": [\"\(path)\"]}",
        modified: later)
      field.folder.move("s/.later", to: "s/pending/later.json")
      // A rename sets no ctime beyond the future mtime, so it waits for its time.
      try? await Task.sleep(nanoseconds: 1_000_000_000)
      #expect(field.place("later") == "pending")
      #expect(await field.wait("later", in: "done", seconds: 20))

      // Several failures make the wait long; a touch ends it.
      field.drop("fails", to: "\(nginx.url)/status/500", [path])
      #expect(await eventually(20) { (field.sidecar("fails")?.failures ?? 0) >= 3 })
      let waiting = field.sidecar("fails")
      #expect(waiting?.wait?.reason == "back-off")
      #expect((waiting?.wait?.until ?? 0) > Clock.wall() + 2 * second)
      unsafe utimensat(AT_FDCWD, field.folder.at("s/pending/fails.json"), nil, 0)
      let now = Clock.wall()
      #expect(await eventually(5) { (field.sidecar("fails")?.failures ?? 0) >= 4 })
      #expect(Clock.wall() - now < 2 * second)
      worker.send(SIGTERM)
      #expect(await worker.ended(15) == 0)
    }

    @Test func notBeforeWaitsAndExpiredFails() async {
      let field = Field()
      let path = field.source("a", [1])
      let soon = Times.format(Clock.wall() + 8 * second)
      field.drop("soon", to: "\(nginx.url)/put/nb/", [path], "\"notBefore\": \"\(soon)\"")
      field.drop(
        "old", to: "\(nginx.url)/put/nb/", [path], "\"expires\": \"2020-01-01T00:00:00Z\"")
      let worker = field.start()
      #expect(await field.wait("old", in: "failed"))
      #expect(field.sidecar("old")?.error?.kind == "expired")
      #expect(field.place("soon") == "pending")
      #expect(field.sidecar("soon")?.wait?.reason == "notBefore")
      #expect(await field.wait("soon", in: "done", seconds: 20))
      worker.send(SIGTERM)
      #expect(await worker.ended(15) == 0)
    }

    @Test func oneAtATimeRunsByPriorityThenAge() async {
      let field = Field()
      let path = field.source("a", [1])
      let base = Clock.wall() - 100 * second
      let jobs = [("c", 5, 3), ("a", 5, 1), ("urgent", 0, 9), ("late", 9, 0), ("b", 5, 2)]
      for (name, priority, age) in jobs {
        field.folder.write(
          "s/pending/\(name).json",
          """
          {"to": "\(nginx.url)/put/order/", "files": [{"path": "\(path)", "as": "\(name)"}],
           "priority": \(priority)}
          """, modified: base + Int64(age) * second)
      }
      #expect(await field.drain("--concurrency", "1") == 0)
      let order = nginx.log.filter { $0.path.hasPrefix("/put/order/") }.map {
        $0.path.split(separator: "/").last.map(String.init) ?? ""
      }
      #expect(order == ["urgent", "a", "b", "c", "late"])
    }

    @Test func sigtermFinishesTheShortAndReturnsTheLong() async {
      let field = slowField("term")
      let worker = field.start("--grace", "3")
      field.drop("long", to: "slow:", [field.source("long", noise(60_000_000))])
      field.drop("short", to: "\(nginx.url)/slow/1.5", [field.source("short", [1])])
      #expect(await field.wait("long", in: "active"))
      #expect(await field.wait("short", in: "active"))
      let start = Clock.monotonic()
      worker.send(SIGTERM)
      field.drop("never", to: "\(nginx.url)/put/term/", [field.source("never", [1])])
      #expect(await worker.ended(15) == 0)
      let took = Clock.monotonic() - start
      #expect(2 * second..<6 * second ~= took)
      #expect(field.place("short") == "done")
      #expect(field.place("long") == "pending")
      #expect(field.place("never") == "pending")
      #expect(field.sidecar("long")?.failures == 0)
      #expect(field.folder.names("s/workers") == [])
      // A second signal: at once.
      let again = field.start("--grace", "30")
      #expect(await field.wait("long", in: "active"))
      again.send(SIGTERM)
      try? await Task.sleep(nanoseconds: 100_000_000)
      let second = Clock.monotonic()
      again.send(SIGTERM)
      #expect(await again.ended(5) == 0)
      #expect(Clock.monotonic() - second < 2 * System.second)
    }

    @Test func sighupReadsTheConfigurationWhileATransferGoesOn() async {
      let field = slowField("hup")
      let worker = field.start()
      field.drop("long", to: "slow:", [field.source("long", noise(6_000_000))])
      field.drop("unknown", to: "later:", [field.source("u", [1])])
      #expect(await field.wait("long", in: "active"))
      #expect(await eventually { field.sidecar("unknown")?.error?.kind == "unknownDestination" })
      field.configure("{\"destinations\": nonsense")
      worker.send(SIGHUP)
      #expect(await eventually { field.log.contains("the configuration stays as it was") })
      field.configure(
        """
        {"destinations": {
          "slow": {"type": "http", "url": "\(nginx.url)/put/hup/", "bandwidth": "2M"},
          "later": {"type": "http", "url": "\(nginx.url)/put/hup/"}}}
        """)
      worker.send(SIGHUP)
      #expect(await field.wait("unknown", in: "done"))
      #expect(field.place("long") == "active")
      #expect(await field.wait("long", in: "done"))
      #expect(field.sidecar("long")?.attempt == 1)
      worker.send(SIGTERM)
      #expect(await worker.ended(15) == 0)
    }
  }
}
