internal import Glibc
internal import Jobs
internal import System
internal import TestKit
internal import Testing

/// Jobs of several files, and names that are used again.
@Suite(.serialized, .timeLimit(.minutes(4))) struct ManyFilesTests {
  @Test(arguments: [(parallel: 3, concurrency: 8, most: 3), (4, 2, 2), (4, 1, 1), (1, 8, 1)])
  func filesOfAJobRunSideBySideWithinTheSlots(
    _ it: (parallel: Int, concurrency: Int, most: Int)
  ) async {
    let receiver = Receiver { _ in .late(0.15, "201 Created") }
    await inYard { yard in
      let files = (0..<8).map { yard.source("f\($0)", noise(100 + $0, seed: UInt64($0))) }
      yard.drop("j", to: receiver.url + "/", files, "\"parallel\": \(it.parallel)")
      #expect(await yard.drain(["--concurrency", "\(it.concurrency)"]) == 0)
      #expect(receiver.most == it.most)
      #expect(receiver.seen.count == 8)
      for i in 0..<8 {
        #expect(receiver.seen("/f\(i)").first?.body == noise(100 + i, seed: UInt64(i)))
      }
      let sidecar = yard.sidecar("j")
      #expect(sidecar?.files.map(\.state) == Array(repeating: .done, count: 8))
      #expect(sidecar?.files.map(\.path) == files)
      #expect(sidecar?.files.map(\.url) == (0..<8).map { "\(receiver.url)/f\($0)" })
      #expect(sidecar?.bytes == 828 && sidecar?.totalBytes == 828)
    }
  }

  @Test func onlyWhatChangedOrWasMissingIsSentAgain() async {
    let receiver = Receiver { _ in .status("201 Created") }
    await inYard { yard in
      let files = ["a", "b", "c"].map { yard.source($0, noise(1000)) }
      let missing = yard.folder.at("src/missing")
      yard.drop("j", to: receiver.url + "/", files + [missing])
      #expect(await yard.drain() == 1)
      #expect(yard.place("j") == "failed")
      #expect(yard.sidecar("j")?.files.map(\.state) == [.done, .done, .done, .failed])
      #expect(yard.sidecar("j")?.error?.message.contains("no such file") == true)
      // Another size; then the same size at another time.
      yard.source("b", noise(1001, seed: 2))
      yard.source("c", noise(1000, seed: 3))
      yard.source("missing", noise(10))
      yard.move("j", "failed", "pending")
      #expect(await yard.drain() == 0)
      #expect(yard.place("j") == "done")
      #expect(receiver.seen.map(\.target) == ["/a", "/b", "/c", "/b", "/c", "/missing"])
      #expect(receiver.seen("/b").last?.body == noise(1001, seed: 2))
      #expect(receiver.seen("/c").last?.body == noise(1000, seed: 3))
      let sidecar = yard.sidecar("j")
      #expect(sidecar?.files.map(\.totalBytes) == [1000, 1001, 1000, 10])
      #expect(sidecar?.percent == 100)
      #expect(sidecar?.error == nil)
    }
  }

  @Test func aJobPutInThePlaceOfAFailedOneIsNewWork() async {
    let receiver = Receiver { _ in .status("201 Created") }
    await inYard { yard in
      let files = [yard.source("a", [1]), yard.folder.at("src/missing")]
      yard.drop("j", to: receiver.url + "/", files)
      #expect(await yard.drain() == 1)
      // As an editor saves that writes a new file and renames it over the old one.
      yard.source("missing", [2])
      yard.drop("j", to: receiver.url + "/", files, in: "failed")
      yard.move("j", "failed", "pending")
      #expect(await yard.drain() == 0)
      #expect(receiver.seen.map(\.target) == ["/a", "/a", "/missing"])
      #expect(yard.sidecar("j")?.run == 1)
      #expect(yard.sidecar("j")?.state == .done)
    }
  }

  @Test func stopLeavesTheOthersAndContinueSendsThem() async {
    let receiver = Receiver { seen in
      seen.target.hasSuffix("/bad") ? .status("403 Forbidden") : .status("201 Created")
    }
    await inYard { yard in
      let files = ["a", "bad", "c", "d"].map { yard.source($0, noise(10)) }
      yard.drop("stop", to: receiver.url + "/stop/", files)
      yard.drop("go", to: receiver.url + "/go/", files, "\"onError\": \"continue\"")
      #expect(await yard.drain(["--concurrency", "1"]) == 1)
      #expect(yard.place("stop") == "failed")
      #expect(yard.place("go") == "failed")
      #expect(yard.sidecar("stop")?.files.map(\.state) == [.done, .failed, .waiting, .waiting])
      #expect(yard.sidecar("go")?.files.map(\.state) == [.done, .failed, .done, .done])
      #expect(yard.sidecar("stop")?.error?.status == 403)
      #expect(yard.sidecar("go")?.files[1].error?.contains("403") == true)
      #expect(receiver.seen.count { $0.target.hasPrefix("/stop/") } == 2)
      #expect(receiver.seen.count { $0.target.hasPrefix("/go/") } == 4)
      #expect((yard.sidecar("go")?.percent ?? 100) < 100)
    }
  }

  @Test func everyRunAndNamesakeIsSentAndKeepsItsRecord() async {
    let receiver = Receiver { _ in .status("201 Created") }
    await inYard { yard in
      let path = yard.source("a", [1])
      for run in 1...3 {
        yard.drop("nightly", to: "\(receiver.url)/\(run)/", [path])
        #expect(await yard.drain() == 0)
      }
      #expect(yard.folder.names("s/done") == ["nightly.json", "nightly~1.json", "nightly~2.json"])
      #expect(yard.sidecar("nightly")?.files.first?.url == "\(receiver.url)/3/a")
      #expect(yard.sidecar("nightly~1")?.files.first?.url == "\(receiver.url)/1/a")
      #expect(yard.sidecar("nightly~2")?.files.first?.url == "\(receiver.url)/2/a")
      // An older one is sent again under its name, and its record stays its own.
      yard.move("nightly~1", "done", "pending")
      #expect(await yard.drain() == 0)
      #expect(yard.sidecar("nightly~1")?.run == 2)
      #expect(yard.sidecar("nightly")?.run == 1)
      #expect(receiver.seen.map(\.target) == ["/1/a", "/2/a", "/3/a", "/1/a"])
    }
  }

  @Test func aNamesakeOfARunningJobWaitsAndBothAreSent() async {
    let receiver = Receiver { seen in
      seen.target == "/first" ? .late(1, "201 Created") : .status("201 Created")
    }
    await inYard { yard in
      let path = yard.source("a", [1])
      let worker = yard.start()
      yard.drop("j", to: receiver.url + "/first", [path])
      #expect(await eventually { receiver.seen.count == 1 })
      yard.drop("j", to: receiver.url + "/second", [path])
      await pause(0.3)
      #expect(yard.places("j") == ["pending", "active"])
      #expect(receiver.seen.count == 1)
      #expect(await eventually { yard.places("j") == ["done"] && yard.place("j~1") == "done" })
      #expect(receiver.seen.map(\.target) == ["/first", "/second"])
      #expect(yard.sidecar("j~1")?.files.first?.url == receiver.url + "/first")
      #expect(yard.sidecar("j")?.files.first?.url == receiver.url + "/second")
      #expect(await yard.stop(worker) == 0)
    }
  }

  @Test func aJobThatHasToGoBackGivesItsNameToTheNewerOne() async {
    let receiver = Receiver { seen in
      seen.time == 1 && seen.target == "/old" ? .late(3, "201 Created") : .status("201 Created")
    }
    await inYard { yard in
      let path = yard.source("a", [1])
      let worker = yard.start("--grace", "0.2")
      yard.drop("j", to: receiver.url + "/old", [path])
      #expect(await eventually { receiver.seen.count == 1 })
      yard.drop("j", to: receiver.url + "/new", [path])
      #expect(await yard.stop(worker) == 0)
      #expect(yard.folder.names("s/pending") == ["j.json", "j~1.json"])
      #expect(yard.sidecar("j~1")?.state == .pending)
      #expect(await yard.drain() == 0)
      #expect(yard.sidecar("j")?.files.first?.url == receiver.url + "/new")
      #expect(yard.sidecar("j~1")?.files.first?.url == receiver.url + "/old")
      #expect(yard.sidecar("j~1")?.state == .done)
      #expect(yard.strays == [])
    }
  }

  @Test func aPausedNamesakeStepsAsideAndCanBeResumed() async {
    let receiver = Receiver { _ in .status("201 Created") }
    await inYard { yard in
      let path = yard.source("a", [1])
      yard.drop("j", to: receiver.url + "/old", [path], in: "paused")
      yard.drop("j", to: receiver.url + "/new", [path])
      #expect(await yard.drain() == 0)
      // One that no worker has ever known keeps its name until a finish needs it.
      #expect(yard.place("j") == (yard.place("j~1") == "paused" ? "done" : "paused"))
      let held = yard.place("j~1") == "paused" ? "j~1" : "j"
      #expect(yard.count("paused") == 1)
      yard.folder.move("s/paused/\(held).json", to: "s/pending/\(held).json")
      #expect(await yard.drain() == 0)
      #expect(receiver.seen.map(\.target) == ["/new", "/old"])
      #expect(yard.count("done") == 2)
    }
  }
}
