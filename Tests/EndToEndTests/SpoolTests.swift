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
      let yard = Yard()
      yard.drop("j", to: to("keep"), [yard.source("a", [1])])
      let before = yard.folder.facts("s/pending/j.json")
      let bytes = yard.folder.read("s/pending/j.json")
      #expect(await yard.drain() == 0)
      let after = yard.folder.facts("s/done/j.json")
      #expect(after?.inode == before?.inode)
      #expect(after?.modified == before?.modified)
      #expect(yard.folder.read("s/done/j.json") == bytes)
    }

    @Test func whatIsNoJobFailsWithLineAndColumnAndTheRestGoesOn() async {
      let yard = Yard()
      let hourAgo = Clock.wall() - 3600 * second
      let bad: [(String, [UInt8])] = [
        ("empty", []), ("nul", [UInt8](repeating: 0, count: 400)),
        ("cut", Array("{\"to\": \"x\", \"files\": [".utf8)),
      ]
      for (name, bytes) in bad {
        yard.folder.write("s/pending/\(name).json", bytes, modified: hourAgo)
      }
      for i in 0..<50 { yard.drop("g\(i)", to: to("good"), [yard.source("g\(i)", [UInt8(i)])]) }
      #expect(await yard.drain() == 1)
      for (name, _) in bad {
        #expect(yard.place(name) == "failed", "\(yard.log)")
        let message = yard.sidecar(name)?.error?.message ?? ""
        #expect(message.contains("line 1, column "), "\(message)")
      }
      #expect(yard.folder.names("s/done").count == 50)
      // Mended and moved back, it runs.
      yard.folder.write(
        "s/failed/cut.json",
        "{\"to\": \"\(to("good"))\", \"files\": [\"\(yard.source("mended", [9]))\"]}")
      #expect(yard.move("cut", "failed", "pending"))
      #expect(await yard.drain() == 0)
      #expect(yard.place("cut") == "done")
      #expect(nginx.stored("good/mended") == [9])
    }

    @Test func aJobWrittenInPiecesRunsOnceWhenItIsWhole() async {
      let yard = Yard()
      let worker = yard.start()
      let path = yard.source("pieces", noise(5000))
      let text = Array("{\"to\": \"\(to("pieces"))\", \"files\": [\"\(path)\"]}".utf8)
      let open = unsafe Glibc.open(
        yard.folder.at("s/pending/slow.json"), O_WRONLY | O_CREAT | O_TRUNC, 0o644)
      for start in stride(from: 0, to: text.count, by: 10) {
        let piece = Array(text[start..<min(start + 10, text.count)])
        _ = unsafe write(open, piece, piece.count)
        // Another is opened and closed for each piece.
        let other = unsafe Glibc.open(
          yard.folder.at("s/pending/again.json"), O_WRONLY | O_CREAT | O_APPEND, 0o644)
        _ = unsafe write(other, piece, piece.count)
        close(other)
        try? await Task.sleep(nanoseconds: 60_000_000)
        #expect(yard.place("slow") == "pending" || start + 10 >= text.count)
      }
      close(open)
      yard.folder.write("s/pending/part.json.filepart", text)
      yard.folder.move("s/pending/part.json.filepart", to: "s/pending/part.json")
      for name in ["slow", "again", "part"] {
        #expect(await yard.wait(name, in: "done"), "\(yard.log)")
      }
      worker.send(SIGTERM)
      #expect(await worker.ended(15) == 0)
      #expect(nginx.log.count { $0.path == "/put/pieces/pieces" } == 3)
    }

    @Test func whatIsNoFileIsToldOnceAndNotSpunOn() async {
      let yard = Yard()
      yard.folder.makeDirectory("s/pending/dir.json")
      unsafe mkfifo(yard.folder.at("s/pending/pipe.json"), 0o644)
      unsafe symlink("/etc/passwd", yard.folder.at("s/pending/link.json"))
      yard.folder.write("s/pending/.hidden.json", "{")
      yard.folder.write("s/pending/other.txt", "x")
      let worker = yard.start()
      yard.drop("j", to: to("nofile"), [yard.source("a", [1])])
      #expect(await yard.wait("j", in: "done"))
      let before = worker.cpuTime
      try? await Task.sleep(nanoseconds: 2_500_000_000)
      #expect(worker.cpuTime - before < 200 * millisecond)
      worker.send(SIGTERM)
      #expect(await worker.ended(15) == 0)
      for name in ["dir", "pipe", "link"] {
        let lines = yard.log.split(separator: "\n").filter { $0.contains(" ignored \(name):") }
        #expect(lines.count == 1, "\(name): \(yard.log)")
      }
      #expect(yard.folder.exists("s/pending/other.txt"))
    }

    @Test func aDoneJobMovedBackIsSentAgainAndARedropStandsBesideIt() async {
      let yard = Yard()
      let path = yard.source("again", [1])
      yard.drop("j", to: to("again"), [path])
      #expect(await yard.drain() == 0)
      #expect(yard.move("j", "done", "pending"))
      #expect(await yard.drain() == 0)
      #expect(yard.sidecar("j")?.run == 2)
      #expect(nginx.log.count { $0.path == "/put/again/again" } == 2)
      // Another job of the same name: the older one steps aside with its sidecar.
      let old = yard.sidecar("j")
      yard.drop("j", to: to("again2"), [path])
      #expect(await yard.drain() == 0)
      #expect(yard.place("j~1") == "done")
      #expect(yard.sidecar("j~1")?.id == old?.id)
      #expect(yard.sidecar("j")?.run == 1)
      #expect(nginx.stored("again2/again") == [1])
    }

    @Test func aFailedJobWhoseTargetWasEditedGoesToTheNewPlace() async {
      let yard = Yard()
      let (a, b) = (yard.source("a", [1]), yard.folder.at("src/missing"))
      yard.drop("j", to: to("old"), [a, b])
      #expect(await yard.drain() == 1)
      #expect(nginx.stored("old/a") == [1])
      let old = yard.sidecar("j")
      #expect(old?.files.map(\.state) == [.done, .failed])
      // The missing one appears: only that is sent.
      yard.folder.write("src/missing", [2])
      #expect(yard.move("j", "failed", "pending"))
      #expect(await yard.drain() == 0)
      #expect(nginx.log.count { $0.path == "/put/old/a" } == 1)
      #expect(nginx.stored("old/missing") == [2])
      // Edited in place, everything goes to the new one.
      #expect(yard.move("j", "done", "failed"))
      yard.folder.write(
        "s/failed/j.json", "{\"to\": \"\(to("new"))\", \"files\": [\"\(a)\", \"\(b)\"]}")
      #expect(yard.move("j", "failed", "pending"))
      #expect(await yard.drain() == 0)
      #expect(nginx.stored("new/a") == [1])
      #expect(nginx.stored("new/missing") == [2])
    }
  }
}
