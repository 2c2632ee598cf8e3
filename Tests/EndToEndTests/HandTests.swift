internal import Glibc
internal import Jobs
internal import System
internal import TestKit
internal import Testing

/// What `mv`, `rm` and `touch` do, as the server and the sidecar see it.
@Suite(.serialized, .timeLimit(.minutes(4))) struct HandTests {
  /// A destination `slow` of 2 MB a second, in 64 KiB pieces, to a server that keeps nothing.
  func slow(_ yard: Yard, _ receiver: Receiver, _ more: String = "") {
    yard.destinations(
      [("slow", "\"type\": \"http\", \"url\": \"\(receiver.url)/\", \"bandwidth\": \"2M\"")], more)
  }

  @Test(arguments: ["paused", "pending", "removed", "failed"])
  func theServerSeesTheEndWithinMoments(_ gesture: String) async {
    let receiver = Receiver(receiveBuffer: 65_536) { _ in .status("201 Created") }
    await inYard { yard in
      slow(yard, receiver)
      let big = yard.sparse("big", 40_000_000)
      let small = yard.source("small", [1])
      let worker = yard.start("--concurrency", "1")
      yard.drop("big", to: "slow:", [big])
      #expect(await eventually { receiver.most == 1 })
      yard.drop("next", to: receiver.url + "/next", [small], "\"priority\": 0")
      await pause(1.2)
      #expect(yard.place("next") == "pending")
      #expect((yard.sidecar("big")?.bytes ?? 0) > 500_000)
      let start = Clock.monotonic()
      if gesture == "removed" {
        #expect(yard.remove("big", "active"))
      } else {
        #expect(yard.move("big", "active", gesture))
      }
      #expect(await eventually { receiver.seen("/big").count == 1 })
      let took = (receiver.seen("/big").first?.at ?? .max) - start
      #expect(took < 200 * millisecond, "\(took / millisecond) ms")
      #expect(receiver.seen("/big").first?.isWhole == false)
      #expect(await yard.wait("next", in: "done", seconds: 2))
      switch gesture {
      case "paused":
        #expect(await yard.wait("big", .paused))
        await pause(1)
        #expect(yard.places("big") == ["paused"])
        #expect((yard.sidecar("big")?.percent ?? 0) > 0)
      case "removed":
        #expect(await yard.wait("big", .cancelled))
        #expect(yard.places("big") == [])
      case "failed":
        #expect(await yard.wait("big", .failed))
        #expect(yard.sidecar("big")?.error?.kind == "stopped")
      default:
        // Put back, it starts again by itself.
        #expect(await eventually { yard.place("big") == "active" })
      }
      #expect(yard.sidecar("big")?.failures == 0)
      #expect(yard.lines("warning") == [])
      #expect(await yard.stop(worker, seconds: 30) == 0)
    }
  }

  @Test func aJobCalledDoneByHandIsNotDone() async {
    let receiver = Receiver(keeping: false) { seen in
      seen.time == 1 ? .late(2, "201 Created") : .status("201 Created")
    }
    await inYard { yard in
      let worker = yard.start()
      yard.drop("j", to: receiver.url + "/j", [yard.source("a", [1])])
      #expect(await eventually { receiver.most == 1 && yard.place("j") == "active" })
      #expect(yard.move("j", "active", "done"))
      #expect(await eventually { yard.sidecar("j") != nil })
      #expect(yard.sidecar("j")?.state != .done)
      #expect(yard.sidecar("j")?.error?.advice?.isEmpty == false)
      #expect((yard.sidecar("j")?.percent ?? 100) < 100)
      // Moved back, it is sent.
      #expect(yard.move("j", "done", "pending"))
      #expect(await eventually { yard.place("j") == "done" && yard.sidecar("j")?.state == .done })
      #expect(receiver.seen.count == 2)
      #expect(await yard.stop(worker) == 0)
    }
  }

  @Test func aRunningJobThatIsRenamedIsANewJob() async {
    let receiver = Receiver(keeping: false) { seen in
      seen.time == 1 ? .late(2, "201 Created") : .status("201 Created")
    }
    await inYard { yard in
      let worker = yard.start()
      yard.drop("old", to: receiver.url + "/j", [yard.source("a", [1])])
      #expect(await eventually { receiver.most == 1 && yard.place("old") == "active" })
      #expect(yard.folder.move("s/active/old.json", to: "s/pending/new.json"))
      #expect(await yard.wait("new", in: "done", seconds: 10), "\(yard.log)")
      #expect(receiver.seen.count == 2)
      #expect(yard.places("old") == [])
      #expect(yard.sidecar("new")?.state == .done)
      #expect(yard.sidecar("old")?.state != .done)
      #expect(await yard.stop(worker) == 0)
    }
  }

  @Test func aCopyThatIsPausedGoesOnFromWhereItStopped() async {
    await inYard(in: "/dev/shm") { yard in
      yard.destinations([("d", "\"type\": \"file\", \"path\": \"\(yard.out)\"")])
      let size: Int64 = 3_000_000_000
      let path = yard.sparse("big", Int(size))
      let worker = yard.start("--durability", "process")
      yard.drop("j", to: "d:", [path])
      #expect(await eventually { (yard.sidecar("j")?.resume.first?.offset ?? 0) > 0 })
      #expect(yard.move("j", "active", "paused"))
      #expect(await yard.wait("j", .paused))
      let offset = yard.sidecar("j")?.resume.first?.offset ?? 0
      #expect(0 < offset && offset < size)
      let part = yard.folder.names("out").first ?? "none"
      let before = yard.folder.facts("out/\(part)")
      #expect((before?.size ?? 0) >= offset)
      await pause(0.3)
      #expect(yard.folder.names("out") == [part])
      #expect(yard.move("j", "paused", "pending"))
      #expect(await yard.wait("j", in: "done"))
      // The same file, not a new one.
      #expect(yard.folder.names("out") == ["big"])
      #expect(yard.folder.facts("out/big")?.inode == before?.inode)
      #expect(yard.folder.facts("out/big")?.size == size)
      #expect(await yard.stop(worker) == 0)
    }
  }

  /// The slow one: two looks that are 10 s apart.
  @Test func whatRemovedJobsLeftIsCleanedUpAfterTwoLooks() async {
    await inYard(in: "/dev/shm") { yard in
      yard.destinations([("d", "\"type\": \"file\", \"path\": \"\(yard.out)\"")])
      let path = yard.sparse("big", 20_000_000_000)
      let worker = yard.start("--durability", "process")
      let places = ["active", "paused", "failed"]
      for name in places { yard.drop(name, to: "d:\(name)/", [path]) }
      for name in places {
        #expect(await eventually { yard.sidecar(name)?.resume.isEmpty == false })
        // It is told of before it is there.
        #expect(await eventually { yard.folder.names("out/\(name)").count == 1 })
      }
      yard.move("paused", "active", "paused")
      yard.move("failed", "active", "failed")
      #expect(await yard.wait("paused", .paused))
      #expect(await yard.wait("failed", .failed))
      await yard.kill(worker)
      // A file in the way that nobody may read, and a sidecar that is no JSON.
      yard.folder.write("s/done/0.json", "{}")
      unsafe chmod(yard.folder.at("s/done/0.json"), 0)
      yard.folder.write("s/progress/0.json", "{\"state\": ")
      for name in places {
        #expect(yard.folder.names("out/\(name)").count == 1)
        #expect(yard.remove(name, name))
      }
      let start = Clock.monotonic()
      let other = yard.start()
      await pause(9)
      for name in places { #expect(yard.folder.names("out/\(name)").count == 1, "after one look") }
      for name in places {
        #expect(await eventually { yard.folder.names("out/\(name)") == [] }, "\(yard.log)")
        let state: Sidecar.State = name == "failed" ? .failed : .cancelled
        #expect(
          await eventually {
            yard.sidecar(name)?.state == state && yard.sidecar(name)?.resume.isEmpty == true
          })
      }
      #expect(Clock.monotonic() - start < 20 * second)
      #expect(await yard.stop(other) == 0)
    }
  }

  @Test func jobsThatNobodyHoldsCanBeTakenAway() async {
    let receiver = Receiver { _ in .status("500 Oops") }
    await inYard { yard in
      let worker = yard.start()
      let path = yard.source("a", [1])
      let names = ["removed", "held", "sent"]
      for name in names { yard.drop(name, to: receiver.url + "/\(name)", [path]) }
      #expect(
        await eventually {
          names.allSatisfy { yard.sidecar($0)?.failures == 2 && yard.place($0) == "pending" }
        })
      #expect(yard.remove("removed", "pending"))
      #expect(yard.move("held", "pending", "paused"))
      #expect(await eventually { receiver.seen("/sent").count >= 3 })
      await pause(1)
      for name in ["/removed", "/held"] { #expect(receiver.seen(name).count == 2) }
      #expect(yard.lines("warning") == [])
      #expect(yard.place("held") == "paused")
      // Resumed, its count of attempts is what it was; a touch lifts the back-off.
      yard.move("held", "paused", "pending")
      yard.touch("held")
      #expect(await eventually(2) { yard.sidecar("held")?.failures == 3 })
      #expect(await yard.stop(worker) == 0)
    }
  }

  @Test func aHeldSpoolStartsNothingAndGivesBackWhatRuns() async {
    let receiver = Receiver(keeping: false) { seen in
      seen.time == 1 && seen.target == "/0" ? .late(3, "201 Created") : .status("201 Created")
    }
    await inYard { yard in
      let path = yard.source("a", [1])
      yard.folder.write("s/hold", "")
      for i in 0..<5 { yard.drop("j\(i)", to: receiver.url + "/\(i)", [path]) }
      let worker = yard.start("--concurrency", "1")
      await pause(1)
      #expect(receiver.seen.isEmpty && yard.count("pending") == 5)
      #expect(yard.folder.remove("s/hold"))
      #expect(await eventually { receiver.most == 1 })
      let start = Clock.monotonic()
      // Held by a rename too.
      yard.folder.write("s/hold.tmp", "")
      yard.folder.move("s/hold.tmp", to: "s/hold")
      #expect(await eventually { yard.count("active") == 0 })
      #expect(Clock.monotonic() - start < second)
      #expect(await yard.wait("j0", .pending))
      #expect(yard.sidecar("j0")?.failures == 0)
      await pause(0.5)
      #expect(yard.count("pending") == 5)
      // A restart doesn't forget it.
      #expect(await yard.stop(worker) == 0)
      let other = yard.start()
      await pause(0.5)
      #expect(yard.count("pending") == 5)
      yard.folder.remove("s/hold")
      #expect(await yard.wait(5, in: "done"), "\(yard.log)")
      #expect(await yard.stop(other) == 0)
    }
  }

  @Test func dropsWhileAJobIsPausedAndResumedOftenLoseNothing() async {
    let receiver = Receiver(keeping: false) { _ in .late(0.03, "201 Created") }
    await inYard { yard in
      let path = yard.source("a", [1])
      let worker = yard.start("--durability", "process")
      for i in 0..<40 { yard.drop("j\(i)", to: receiver.url + "/\(i)", [path]) }
      // To and fro, wherever they are.
      for round in 0..<30 {
        for i in 0..<40 where (i + round) % 3 == 0 {
          if !yard.move("j\(i)", "active", "paused") { yard.move("j\(i)", "pending", "paused") }
        }
        await pause(0.02)
        for i in 0..<40 { yard.move("j\(i)", "paused", "pending") }
      }
      #expect(await yard.wait(40, in: "done"), "\(yard.log.suffix(3000))")
      for i in 0..<40 {
        #expect(await yard.wait("j\(i)", .done, seconds: 3), "j\(i)")
        #expect(!receiver.seen("/\(i)").isEmpty)
      }
      #expect(yard.lines("warning") == [])
      #expect(await yard.stop(worker) == 0)
      #expect(yard.strays == [])
    }
  }

  @Test func aDateInTheFutureSchedulesAndATouchCallsIt() async {
    let receiver = Receiver { _ in .status("201 Created") }
    await inYard { yard in
      let path = yard.source("a", [1])
      let worker = yard.start()
      yard.folder.write("s/hold", "")
      yard.drop("later", to: receiver.url + "/later", [path])
      yard.drop("soon", to: receiver.url + "/soon", [path])
      // As `touch -d` does it.
      func set(_ name: String, _ time: Int64) {
        let t = timespec(tv_sec: Int(time / second), tv_nsec: Int(time % second))
        #expect(
          unsafe utimensat(AT_FDCWD, yard.folder.at("s/pending/\(name).json"), [t, t], 0) == 0)
      }
      let due = Clock.wall() + 3 * second
      set("later", Clock.wall() + 3600 * second)
      set("soon", due)
      yard.folder.remove("s/hold")
      await pause(1)
      #expect(receiver.seen.isEmpty)
      yard.touch("later")
      #expect(await yard.wait("later", in: "done", seconds: 2))
      #expect(await yard.wait("soon", in: "done", seconds: 5))
      #expect(Clock.wall() - due < 2 * second)
      #expect(receiver.seen.map(\.target) == ["/later", "/soon"])
      let at = (yard.folder.facts("s/done/soon.json")?.modified ?? 0)
      #expect(at == due)
      #expect(await yard.stop(worker) == 0)
    }
  }
}
