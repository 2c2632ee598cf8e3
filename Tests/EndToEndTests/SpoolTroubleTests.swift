internal import Glibc
internal import Jobs
internal import System
internal import TestKit
internal import Testing

/// What may happen to a spool and its workers.
@Suite(.serialized, .timeLimit(.minutes(4))) struct SpoolTroubleTests {
  let nginx = Nginx.shared

  @Test func aFileHeldOpenIsNeitherRunEarlyNorGivenUp() async {
    await inYard { yard in
      let worker = yard.start()
      let path = yard.source("open", noise(100))
      let text = Array(Yard.job("\(nginx.url)/put/open/", [path]).utf8)
      // An hour old by its time, but somebody still writes.
      let name = yard.folder.write(
        "s/pending/open.json", Array(text.prefix(20)), modified: Clock.wall() - 3600 * second)
      let fd = unsafe open(name, O_WRONLY | O_APPEND | O_CLOEXEC)
      unsafe utimensat(
        AT_FDCWD, name, [timespec(tv_sec: 1, tv_nsec: 0), .init(tv_sec: 1, tv_nsec: 0)], 0)
      await pause(2.5)
      #expect(yard.place("open") == "pending")
      let before = worker.cpuTime
      await pause(1)
      #expect(worker.cpuTime - before < 100 * millisecond)
      let rest = Array(text.dropFirst(20))
      #expect(unsafe write(fd, rest, rest.count) == rest.count)
      close(fd)
      #expect(await yard.wait("open", in: "done"), "\(yard.log)")
      #expect(nginx.log.count { $0.path == "/put/open/open" } == 1)
      #expect(await yard.stop(worker) == 0)
    }
  }

  @Test func whatBreaksTheRulesFailsOrStaysAndNeverStopsTheRest() async {
    await inYard { yard in
      let to = "\(nginx.url)/put/rules/"
      let path = yard.source("a", [1])
      let hourAgo = Clock.wall() - 3600 * second
      let invalid: [(String, [UInt8])] = [
        ("array", Array("[1]".utf8)), ("number", Array("7".utf8)),
        ("latin1", Array("{\"to\": \"".utf8) + [0xe9] + Array("\"}".utf8)),
        ("twice", Array("{\"to\": \"\(to)\", \"to\": \"\(to)\", \"files\": [\"\(path)\"]}".utf8)),
        ("two", Array((Yard.job(to, [path]) + Yard.job(to, [path])).utf8)),
        ("deep", Array(repeating: UInt8(ascii: "["), count: 100_000)),
        ("nul", Array("{\"to\": \"a\\u0000b\", \"files\": [\"\(path)\"]}".utf8)),
        ("surrogate", Array("{\"to\": \"\\ud800\", \"files\": [\"\(path)\"]}".utf8)),
        ("relative", Array(Yard.job(to, ["a.jpg"]).utf8)),
        ("big", [UInt8](repeating: 0x20, count: 1 << 20) + Array("{}".utf8)),
        ("huge", Array("{\"to\": \"\(to)\", \"files\": [\"\(path)\"], \"priority\": 1e999}".utf8)),
        ("typo", Array(Yard.job(to, [path], "\"notbefore\": \"2030-01-01T00:00:00Z\"").utf8)),
      ]
      for (name, bytes) in invalid {
        yard.folder.write("s/pending/\(name).json", bytes, modified: hourAgo)
      }
      for i in 0..<99 { yard.drop("g\(i)", to: to, [path]) }
      // What some editors put before a text does no harm.
      yard.drop("mark", "\u{feff}" + Yard.job(to, [path]))
      let worker = yard.start("--durability", "process")
      #expect(await yard.wait(100, in: "done"), "\(yard.folder.names("s/pending"))")
      #expect(await yard.wait(invalid.count, in: "failed"), "\(yard.folder.names("s/pending"))")
      for (name, _) in invalid {
        let error = yard.sidecar(name)?.error
        #expect(yard.place(name) == "failed", "\(name)")
        #expect(error?.advice?.isEmpty == false, "\(name): \(error?.message ?? "none")")
        #expect((error?.message.utf8.count ?? 9999) < 1000, "\(name)")
        #expect(yard.lines("failed", " \(name):").count == 1, "\(name)")
      }
      for name in ["twice", "two", "deep"] {
        #expect(yard.sidecar(name)?.error?.message.contains("line 1, column ") == true, "\(name)")
      }
      #expect(yard.sidecar("typo")?.error?.message.contains("notBefore") == true)
      // Nothing goes round and round.
      let before = worker.cpuTime
      await pause(2)
      #expect(worker.cpuTime - before < 150 * millisecond)
      #expect(await yard.stop(worker) == 0)
    }
  }

  @Test func aJobThatKillsItsWorkerFailsInTheEndAndOthersGoOn() async {
    // The receiver plays the fault in the worker: it kills whoever sends the poison.
    let victim = Locked<Child?>(nil)
    let receiver = Receiver { seen in
      guard seen.target == "/poison" else { return .status("201 Created") }
      victim.with { $0 }?.send(SIGKILL)
      return .cut
    }
    await inYard { yard in
      yard.configure("{\"crashes\": 3}")
      let path = yard.source("a", [1])
      yard.drop("poison", to: receiver.url + "/poison", [path])
      var deaths = 0
      var good = 0
      let end = Clock.monotonic() + 60 * second
      while yard.place("poison") != "failed", Clock.monotonic() < end {
        let worker = yard.start("--durability", "process")
        victim.with { $0 = worker }
        let isOver = await eventually(20) {
          if !worker.isRunning || yard.place("poison") == "failed" { return true }
          if good < 100 {
            yard.drop("good\(good)", to: receiver.url + "/good", [path])
            good += 1
            usleep(50_000)
          }
          return false
        }
        #expect(isOver)
        if !worker.isRunning { deaths += 1 }
        await yard.kill(worker)
      }
      #expect(deaths == 3)
      #expect(yard.place("poison") == "failed")
      let error = yard.sidecar("poison")?.error
      #expect(error?.kind == "crash")
      #expect(error?.message == "its worker died 3 times while running it")
      #expect(receiver.seen("/poison").count == 3)
      #expect(await yard.drain() == 0)
      #expect(yard.count("done") == good && good > 3)
      // Moved back it begins afresh.
      victim.with { $0 = nil }
      yard.folder.write("s/failed/poison.json", Yard.job(receiver.url + "/mended", [path]))
      yard.move("poison", "failed", "pending")
      #expect(await yard.drain() == 0)
      #expect(yard.place("poison") == "done")
      #expect(yard.sidecar("poison")?.crashes == 0)
    }
  }

  @Test func aCorruptFileOfADeadWorkerHoldsUpNobody() async {
    await inYard { yard in
      let path = yard.source("a", noise(10))
      yard.folder.makeDirectory("s/active")
      let hourAgo = Clock.wall() - 3600 * second
      yard.folder.write("s/active/corrupt.json", [0, 1, 2, 3], modified: hourAgo)
      yard.folder.write("s/active/empty.json", [], modified: hourAgo)
      yard.folder.makeDirectory("s/active/dir.json")
      unsafe mkfifo(yard.folder.at("s/active/pipe.json"), 0o644)
      unsafe symlink("nowhere", yard.folder.at("s/active/link.json"))
      yard.folder.write(
        "s/active/lost.json", Yard.job("\(nginx.url)/put/lost/", [path]), modified: hourAgo)
      yard.folder.makeDirectory("s/progress")
      yard.folder.write("s/progress/lost.json", "{\"state\": \"done\", \"id\": \"1.2\"")
      let worker = yard.start()
      #expect(await yard.wait("lost", in: "done"), "\(yard.log)")
      #expect(await yard.wait("corrupt", in: "failed"), "\(yard.log)")
      #expect(await yard.wait("empty", in: "failed"), "\(yard.log)")
      #expect(nginx.stored("lost/a") == noise(10))
      for name in ["dir", "pipe", "link"] {
        #expect(yard.place(name) == "active")
        #expect(yard.lines("ignored", " \(name):").count == 1)
      }
      #expect(await yard.stop(worker) == 0)
    }
  }

  @Test(.enabled(if: geteuid() == 0)) func whatAWorkerMayNotReadIsToldOnceAndRunsWhenItMay() async {
    await inYard { yard in
      let asOther = ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
      _ = run(["/bin/chown", "-R", "65534:65534", yard.folder.path])
      let path = yard.source("a", [1])
      let secret = yard.source("secret", [1])
      #expect(unsafe chmod(secret, 0o600) == 0)
      let to = "\(nginx.url)/put/rights/"
      yard.drop("closed", to: to, [path])
      #expect(unsafe chmod(yard.folder.at("s/pending/closed.json"), 0o600) == 0)
      yard.drop("source", to: to, [secret])
      yard.drop("fine", to: to, [path])
      // A file destination where it may not write.
      yard.folder.makeDirectory("locked")
      #expect(unsafe chmod(yard.folder.at("locked"), 0o555) == 0)
      yard.drop("locked", to: "file://\(yard.folder.at("locked"))/", [path])
      let worker = yard.start(prefix: asOther)
      #expect(await yard.wait("fine", in: "done"), "\(yard.log)")
      #expect(await yard.wait("source", in: "failed"))
      #expect(yard.sidecar("source")?.error?.kind == "denied")
      #expect(yard.sidecar("source")?.error?.message.contains("65534") == true)
      let before = worker.cpuTime
      await pause(2)
      #expect(worker.cpuTime - before < 100 * millisecond)
      #expect(yard.lines("unreadable", " closed:").count == 1, "\(yard.log)")
      #expect(yard.place("closed") == "pending")
      #expect(yard.place("locked") != "done")
      #expect(yard.sidecar("locked")?.error?.message.isEmpty == false, "\(yard.log)")
      // Its rights are mended: it runs at once.
      #expect(unsafe chmod(yard.folder.at("s/pending/closed.json"), 0o644) == 0)
      #expect(await yard.wait("closed", in: "done", seconds: 5))
      #expect(await yard.stop(worker) == 0)
    }
  }

  @Test(.enabled(if: geteuid() == 0)) func aSpoolThatCannotWorkIsRefusedInOneLine() async {
    await inYard { yard in
      let asOther = ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
      #expect(await yard.drain() == 0)
      func refused(_ worker: Child, _ log: String, _ words: [String]) async {
        #expect(await worker.ended(10) == 1)
        let text = yard.folder.text(log) ?? ""
        #expect(text.split(separator: "\n").count == 1, "\(text)")
        for word in words { #expect(text.contains(word), "\(text)") }
      }
      // Not the worker's to write.
      await refused(yard.start(prefix: asOther, log: "other"), "other", [yard.spool])
      // Split over two filesystems.
      let active = yard.folder.at("s/active")
      if run(["/bin/mount", "-t", "tmpfs", "-o", "size=1m", "none", active]).code == 0 {
        await refused(
          yard.start(log: "split"), "split",
          ["\(yard.spool)/pending", "\(yard.spool)/active", "filesystems"])
        _ = run(["/bin/umount", "-l", active])
      }
      // A newer layout.
      yard.folder.write("s/format", "2\n")
      await refused(yard.start(log: "newer"), "newer", ["\(yard.spool)/format"])
      yard.folder.write("s/format", "1\n")
      // A sidecar directory that others may write to.
      #expect(unsafe chmod(yard.folder.at("s/progress"), 0o777) == 0)
      await refused(yard.start(log: "open"), "open", ["\(yard.spool)/progress", "chmod"])
      #expect(unsafe chmod(yard.folder.at("s/progress"), 0o755) == 0)
      #expect(await yard.drain() == 0)
    }
  }

  @Test(arguments: ["active", "done", "progress", "pending", "workers"])
  func aStateDirectoryThatGoesEndsTheWorkerAndLosesNothing(_ place: String) async {
    let receiver = Receiver { _ in .late(0.05, "201 Created") }
    await inYard { yard in
      let worker = yard.start("--concurrency", "2", "--poll", "0.5")
      let path = yard.source("a", [1])
      for i in 0..<60 { yard.drop("j\(i)", to: receiver.url + "/\(i)", [path]) }
      #expect(await eventually { yard.count("done") >= 5 })
      #expect(yard.folder.move("s/\(place)", to: "s/moved"))
      #expect(await worker.ended(30) == 1, "\(yard.log)")
      #expect(yard.lines("error", "/\(place) was removed or replaced").count == 1, "\(yard.log)")
      // Put back, everything goes on, and nothing is missing.
      if yard.folder.exists("s/\(place)") {
        for name in yard.folder.names("s/\(place)") {
          yard.folder.move("s/\(place)/\(name)", to: "s/moved/\(name)")
        }
        #expect(unsafe rmdir(yard.folder.at("s/\(place)")) == 0)
      }
      #expect(yard.folder.move("s/moved", to: "s/\(place)"))
      #expect(await yard.drain() == 0)
      #expect(yard.count("done") == 60)
      for i in 0..<60 { #expect(yard.sidecar("j\(i)")?.state == .done, "j\(i)") }
    }
  }

  @Test(.enabled(if: geteuid() == 0), arguments: ["size=16m", "size=16m,nr_inodes=400"])
  func aDiskThatFillsWhileJobsRunLosesNothing(_ limit: String) async {
    await inYard { yard in
      let mount = yard.folder.makeDirectory("disk")
      guard run(["/bin/mount", "-t", "tmpfs", "-o", limit, "none", mount]).code == 0 else { return }
      defer { _ = run(["/bin/umount", "-l", mount]) }
      let gate = Locked(false)
      let receiver = Receiver { _ in
        // What runs when the disk is full ends while it is full.
        for _ in 0..<200 where !gate.with({ $0 }) { usleep(20_000) }
        return .status("201 Created")
      }
      let disk = Folder(in: mount)
      disk.makeDirectory("pending")
      let path = yard.source("a", noise(3000))
      for i in 0..<50 {
        disk.write("pending/j\(i).json", Yard.job(receiver.url + "/\(i)", [path]))
      }
      let worker = yard.start("--concurrency", "4", spool: disk.path)
      #expect(await eventually { receiver.most == 4 })
      // Sidecars of what runs are there.
      #expect(await eventually { disk.names("progress").filter { !$0.hasPrefix(".") }.count == 4 })
      if limit.contains("inodes") {
        for i in 0..<1000 {
          let fd = unsafe open(disk.at("fill\(i)"), O_WRONLY | O_CREAT | O_EXCL, 0o644)
          if fd < 0 { break }
          close(fd)
        }
      } else {
        _ = run(["/bin/dd", "if=/dev/zero", "of=\(disk.at("fill"))", "bs=4k"])
      }
      gate.with { $0 = true }
      await pause(2)
      let before = worker.cpuTime
      await pause(2)
      #expect(worker.cpuTime - before < 150 * millisecond)
      let places = ["pending", "active", "done", "failed"].map { disk.names($0).count }
      #expect(places.reduce(0, +) == 50, "\(places)")
      #expect(places[3] == 0)
      #expect(places[0] >= 40, "claiming goes on: \(places)")
      for name in disk.names("progress") where !name.hasPrefix(".") {
        #expect(disk.read("progress/\(name)").flatMap { Sidecar.decode($0) } != nil, "\(name)")
      }
      let sent = receiver.seen.count
      let told = yard.lines("full").count + yard.lines("waiting").count
      #expect(1...2 ~= told, "\(yard.log)")
      #expect(yard.lines("warning").filter { !$0.contains("tmpfs") } == [])
      for name in disk.names() where name.hasPrefix("fill") { disk.remove(name) }
      #expect(await eventually(20) { disk.names("done").count == 50 }, "\(yard.log)")
      // What had been sent was not sent again.
      let seen = receiver.seen.map { "\($0.target) \($0.time) \($0.body.count) of \($0.length)" }
      #expect(seen.count == 50, "\(sent) before; \(seen)\n\(yard.log)")
      #expect(await yard.stop(worker) == 0)
      let strays = ["pending", "active", "done", "progress", "workers"].flatMap { place in
        disk.names(place).filter { $0.hasPrefix(".") }
      }
      #expect(strays == [])
    }
  }

  @Test func threeHundredThatFailTogetherComeBackSpreadAndNoneEarly() async {
    let receiver = Receiver(keeping: false) { seen in
      seen.time <= 2 ? .status("500 Oops") : .status("201 Created")
    }
    await inYard { yard in
      let path = yard.source("a", [1])
      for i in 0..<300 { yard.drop("j\(i)", to: receiver.url + "/\(i)", [path]) }
      let worker = yard.start("--concurrency", "32", "--durability", "process")
      #expect(await yard.wait(300, in: "done", seconds: 40), "\(yard.count("pending"))")
      var waits: [[Int64]] = [[], []]
      for i in 0..<300 {
        let at = receiver.seen("/\(i)")
        #expect(at.count == 3)
        guard at.count == 3 else { continue }
        waits[0].append(at[1].began - at[0].at)
        waits[1].append(at[2].began - at[1].at)
      }
      for (n, base) in [(0, second), (1, 2 * second)] {
        #expect((waits[n].min() ?? 0) >= base, "retry \(n + 1) after \(waits[n].min() ?? 0) ns")
        // Spread over a half of the base.
        let early = waits[n].count { $0 < base + base / 8 }
        #expect(early < 150, "\(early) of 300 within an eighth")
      }
      for i in 0..<300 { #expect(yard.sidecar("j\(i)")?.attempt == 3) }
      #expect(await yard.stop(worker) == 0)
    }
  }

  @Test func aFrozenWorkerFindsFiveThousandAndItsOwnThatWentAway() async {
    let receiver = Receiver(receiveBuffer: 4096) { seen in
      seen.length > 100 ? .late(60, "201 Created") : .status("201 Created")
    }
    await inYard { yard in
      let path = yard.source("a", [1])
      let big = yard.source("big", noise(1000))
      let worker = yard.start("--durability", "process", "--concurrency", "8")
      for name in ["held", "removed"] { yard.drop(name, to: receiver.url + "/\(name)", [big]) }
      #expect(await eventually { receiver.seen.count == 2 })
      worker.send(SIGSTOP)
      // While it stands still, what it runs is taken away from it.
      yard.move("held", "active", "paused")
      yard.remove("removed", "active")
      for i in 0..<5000 {
        yard.folder.write("s/pending/j\(i).json", Yard.job("\(nginx.url)/discard/", [path]))
      }
      worker.send(SIGCONT)
      #expect(await yard.wait(5000, in: "done", seconds: 60), "\(yard.count("done"))")
      #expect(await yard.wait("held", .paused))
      #expect(await yard.wait("removed", .cancelled))
      #expect(yard.places("held") == ["paused"])
      #expect(await yard.stop(worker) == 0)
    }
  }

  @Test func threeWorkersSendAThousandJobsOnceEach() async {
    await inYard { yard in
      let path = yard.source("a", noise(100))
      let workers = (0..<3).map { _ in yard.start("--concurrency", "4") }
      for i in 0..<1000 { yard.drop("j\(i)", to: "\(nginx.url)/put/thousand/\(i)", [path]) }
      #expect(await yard.wait(1000, in: "done", seconds: 60))
      for worker in workers { #expect(await yard.stop(worker) == 0) }
      let paths = nginx.log.filter { $0.path.hasPrefix("/put/thousand/") }.map(\.path)
      #expect(paths.count == 1000)
      #expect(Set(paths).count == 1000)
      // One that starts may be taken for dead between the two calls that create and lock its file.
      let allowed = ["start:", "stop:", "stopping:", "done ", "cleaned:"]
      let others = yard.log.split(separator: "\n").filter { line in
        !allowed.contains { line.contains("Z \($0)") } && !line.contains("container's own layer")
      }
      #expect(others == [])
      // Nobody sat idle.
      #expect(yard.lines("stop:").allSatisfy { !$0.contains(" 0 done") }, "\(yard.lines("stop:"))")
      #expect(yard.strays == [])
    }
  }
}
