internal import Glibc
internal import Jobs
internal import System
internal import TestKit
internal import Testing

extension EndToEnd {
  /// What lies in the spool, and in what condition.
  @Suite(.timeLimit(.minutes(3))) struct SpoolBehaviour {
    let nginx = Nginx.shared
    func to(_ folder: String) -> String { "\(nginx.url)/put/\(folder)/" }

    @Test func aFilesJobKeepsItsBytesItsTimeAndItsInode() async {
      let field = Field()
      field.drop("j", to: to("keep"), [field.source("a", [1])])
      let before = field.folder.facts("s/pending/j.json")
      let bytes = field.folder.read("s/pending/j.json")
      #expect(await field.drain() == 0)
      let after = field.folder.facts("s/done/j.json")
      #expect(after?.inode == before?.inode)
      #expect(after?.modified == before?.modified)
      #expect(field.folder.read("s/done/j.json") == bytes)
    }

    @Test func whatIsNoJobFailsWithLineAndColumnAndTheRestGoesOn() async {
      let field = Field()
      let hourAgo = Clock.wall() - 3600 * second
      let bad: [(String, [UInt8])] = [
        ("empty", []), ("nul", [UInt8](repeating: 0, count: 400)),
        ("cut", Array("{\"to\": \"x\", \"files\": [".utf8)),
      ]
      for (name, bytes) in bad {
        field.folder.write("s/pending/\(name).json", bytes, modified: hourAgo)
      }
      for i in 0..<50 { field.drop("g\(i)", to: to("good"), [field.source("g\(i)", [UInt8(i)])]) }
      #expect(await field.drain() == 1)
      for (name, _) in bad {
        #expect(field.place(name) == "failed", "\(field.log)")
        let message = field.sidecar(name)?.error?.message ?? ""
        #expect(message.contains("line 1, column "), "\(message)")
      }
      #expect(field.folder.names("s/done").count == 50)
      // Mended and moved back, it runs.
      field.folder.write(
        "s/failed/cut.json",
        "{\"to\": \"\(to("good"))\", \"files\": [\"\(field.source("mended", [9]))\"]}")
      #expect(field.move("cut", "failed", "pending"))
      #expect(await field.drain() == 0)
      #expect(field.place("cut") == "done")
      #expect(nginx.stored("good/mended") == [9])
    }

    @Test func aJobWrittenInPiecesRunsOnceWhenItIsWhole() async {
      let field = Field()
      let worker = field.start()
      let path = field.source("pieces", noise(5000))
      let text = Array("{\"to\": \"\(to("pieces"))\", \"files\": [\"\(path)\"]}".utf8)
      let open = unsafe Glibc.open(
        field.folder.at("s/pending/slow.json"), O_WRONLY | O_CREAT | O_TRUNC, 0o644)
      for start in stride(from: 0, to: text.count, by: 10) {
        let piece = Array(text[start..<min(start + 10, text.count)])
        _ = unsafe write(open, piece, piece.count)
        // Another is opened and closed for each piece.
        let other = unsafe Glibc.open(
          field.folder.at("s/pending/again.json"), O_WRONLY | O_CREAT | O_APPEND, 0o644)
        _ = unsafe write(other, piece, piece.count)
        close(other)
        try? await Task.sleep(nanoseconds: 60_000_000)
        #expect(field.place("slow") == "pending" || start + 10 >= text.count)
      }
      close(open)
      field.folder.write("s/pending/part.json.filepart", text)
      field.folder.move("s/pending/part.json.filepart", to: "s/pending/part.json")
      for name in ["slow", "again", "part"] {
        #expect(await field.wait(name, in: "done"), "\(field.log)")
      }
      worker.send(SIGTERM)
      #expect(await worker.ended(15) == 0)
      #expect(nginx.log.count { $0.path == "/put/pieces/pieces" } == 3)
    }

    @Test func whatIsNoFileIsToldOnceAndNotSpunOn() async {
      let field = Field()
      field.folder.makeDirectory("s/pending/dir.json")
      unsafe mkfifo(field.folder.at("s/pending/pipe.json"), 0o644)
      unsafe symlink("/etc/passwd", field.folder.at("s/pending/link.json"))
      field.folder.write("s/pending/.hidden.json", "{")
      field.folder.write("s/pending/other.txt", "x")
      let worker = field.start()
      field.drop("j", to: to("nofile"), [field.source("a", [1])])
      #expect(await field.wait("j", in: "done"))
      let before = worker.cpuTime
      try? await Task.sleep(nanoseconds: 2_500_000_000)
      #expect(worker.cpuTime - before < 200 * millisecond)
      worker.send(SIGTERM)
      #expect(await worker.ended(15) == 0)
      for name in ["dir", "pipe", "link"] {
        let lines = field.log.split(separator: "\n").filter { $0.contains(" ignored \(name):") }
        #expect(lines.count == 1, "\(name): \(field.log)")
      }
      #expect(field.folder.exists("s/pending/other.txt"))
    }

    @Test func aDoneJobMovedBackIsSentAgainAndARedropStandsBesideIt() async {
      let field = Field()
      let path = field.source("again", [1])
      field.drop("j", to: to("again"), [path])
      #expect(await field.drain() == 0)
      #expect(field.move("j", "done", "pending"))
      #expect(await field.drain() == 0)
      #expect(field.sidecar("j")?.run == 2)
      #expect(nginx.log.count { $0.path == "/put/again/again" } == 2)
      // Another job of the same name: the older one steps aside with its sidecar.
      let old = field.sidecar("j")
      field.drop("j", to: to("again2"), [path])
      #expect(await field.drain() == 0)
      #expect(field.place("j~1") == "done")
      #expect(field.sidecar("j~1")?.id == old?.id)
      #expect(field.sidecar("j")?.run == 1)
      #expect(nginx.stored("again2/again") == [1])
    }

    @Test func aFailedJobWhoseTargetWasEditedGoesToTheNewPlace() async {
      let field = Field()
      let (a, b) = (field.source("a", [1]), field.folder.at("src/missing"))
      field.drop("j", to: to("old"), [a, b])
      #expect(await field.drain() == 1)
      #expect(nginx.stored("old/a") == [1])
      let old = field.sidecar("j")
      #expect(old?.files.map(\.state) == [.done, .failed])
      // The missing one appears: only that is sent.
      field.folder.write("src/missing", [2])
      #expect(field.move("j", "failed", "pending"))
      #expect(await field.drain() == 0)
      #expect(nginx.log.count { $0.path == "/put/old/a" } == 1)
      #expect(nginx.stored("old/missing") == [2])
      // Edited in place, everything goes to the new one.
      #expect(field.move("j", "done", "failed"))
      field.folder.write(
        "s/failed/j.json", "{\"to\": \"\(to("new"))\", \"files\": [\"\(a)\", \"\(b)\"]}")
      #expect(field.move("j", "failed", "pending"))
      #expect(await field.drain() == 0)
      #expect(nginx.stored("new/a") == [1])
      #expect(nginx.stored("new/missing") == [2])
    }

    @Test func severalWorkersShareAndNobodySendsTwice() async {
      let field = Field()
      let path = field.source("w", noise(100))
      for i in 0..<900 {
        field.drop(
          "j\(i)",
          "{\"to\": \"\(to("share"))\", \"files\": [{\"path\": \"\(path)\", \"as\": \"\(i)\"}]}")
      }
      let workers = (0..<3).map { _ in field.start("--drain", "--concurrency", "4") }
      for worker in workers { #expect(await worker.ended(60) == 0) }
      #expect(field.folder.names("s/done").count == 900)
      let paths = nginx.log.filter { $0.path.hasPrefix("/put/share/") }.map(\.path)
      #expect(paths.count == 900)
      #expect(Set(paths).count == 900)
      #expect(!field.log.contains(" warning"))
      #expect(field.strays == [])
    }

    @Test func aFrozenWorkerThatGoesOnFindsWhatCameMeanwhile() async {
      let field = Field()
      let worker = field.start("--durability", "process")
      let path = field.source("f", [1])
      field.drop("first", to: to("frozen"), [path])
      #expect(await field.wait("first", in: "done"))
      worker.send(SIGSTOP)
      // More than inotify queues.
      for i in 0..<20_000 {
        field.folder.write(
          "s/pending/j\(i).json", "{\"to\": \"\(nginx.url)/discard/\", \"files\": [\"\(path)\"]}")
      }
      worker.send(SIGCONT)
      #expect(
        await eventually(90) {
          field.folder.names("s/pending").isEmpty && field.folder.names("s/active").isEmpty
        })
      #expect(field.folder.names("s/done").count == 20_001)
      worker.send(SIGTERM)
      #expect(await worker.ended(15) == 0)
    }

    @Test func aStateDirectoryThatIsRemovedEndsTheWorker() async {
      let field = Field()
      let worker = field.start()
      field.drop("j", to: to("gone"), [field.source("a", [1])])
      #expect(await field.wait("j", in: "done"))
      field.folder.move("s/failed", to: "s/elsewhere")
      #expect(await worker.ended(30) == 1)
      #expect(field.log.contains("/failed was removed or replaced"))
    }

    @Test(.enabled(if: geteuid() == 0)) func aFullDiskLosesNothingAndGoesOnByItself() async {
      let field = Field()
      let mount = field.folder.makeDirectory("disk")
      guard run(["/bin/mount", "-t", "tmpfs", "-o", "size=8m", "none", mount]).code == 0 else {
        return
      }
      defer { _ = run(["/bin/umount", "-l", mount]) }
      let inner = Folder(in: mount)
      inner.makeDirectory("pending")
      let path = field.source("a", noise(2000))
      for i in 0..<400 {
        inner.write("pending/j\(i).json", "{\"to\": \"\(to("full"))\", \"files\": [\"\(path)\"]}")
      }
      let worker = spawn(
        [products + "/upspool", "run", "--spool", inner.path, "--concurrency", "1"],
        output: field.folder.at("log"))
      #expect(await eventually(10) { inner.names("done").count > 5 })
      _ = run(["/bin/dd", "if=/dev/zero", "of=\(inner.at("fill2"))", "bs=4k"])
      try? await Task.sleep(nanoseconds: 2_000_000_000)
      let before = worker.cpuTime
      try? await Task.sleep(nanoseconds: 1_500_000_000)
      #expect(worker.cpuTime - before < 150 * millisecond)
      let count = ["pending", "active", "done", "failed"].map { inner.names($0).count }
      #expect(count.reduce(0, +) == 400)
      #expect(count[3] == 0)
      inner.remove("fill2")
      #expect(await eventually(30) { inner.names("done").count == 400 }, "\(field.log)")
      worker.send(SIGTERM)
      #expect(await worker.ended(15) == 0)
      let lines = field.log.split(separator: "\n").filter {
        $0.contains(" full:") || $0.contains(" waiting ")
      }
      #expect(lines.count <= 3, "\(lines)")
    }
  }
}
