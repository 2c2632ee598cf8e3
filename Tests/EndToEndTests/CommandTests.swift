internal import Glibc
internal import Jobs
internal import System
internal import TestKit
internal import Testing

/// The commands beside a running worker.
@Suite(.serialized, .timeLimit(.minutes(3))) struct CommandTests {
  private func call(_ yard: Yard, _ words: String...) -> (code: Int32, output: String) {
    run(
      [products + "/upspool", words[0], "--spool", yard.spool] + words.dropFirst(),
      environment: ["UPSPOOL": nil])
  }

  @Test func aRunningJobIsPausedResumedAndCancelledByCommand() async {
    let receiver = Receiver(keeping: false, receiveBuffer: 65_536) { _ in .status("201 Created") }
    await inYard { yard in
      yard.destinations(
        [("slow", "\"type\": \"http\", \"url\": \"\(receiver.url)/\", \"bandwidth\": \"2M\"")])
      let big = yard.sparse("big", 40_000_000)
      let worker = yard.start("--concurrency", "1")
      yard.drop("big", to: "slow:", [big], "\"group\": \"g\"")
      #expect(await yard.wait("big", in: "active"))
      yard.drop("next", to: receiver.url + "/next", [yard.source("a", [1])])
      #expect(call(yard, "pause", "big") == (0, "paused big\n"))
      #expect(await yard.wait("next", in: "done", seconds: 2))
      #expect(await yard.wait("big", .paused))
      #expect(yard.sidecar("big")?.group == "g")
      #expect(call(yard, "resume", "--group", "g") == (0, "resumed big\n"))
      #expect(await yard.wait("big", in: "active"))
      #expect(call(yard, "cancel", "--destination", "slow") == (0, "cancelled big\n"))
      #expect(await yard.wait("big", .cancelled))
      #expect(await yard.stop(worker) == 0)
    }
  }

  @Test func watchFollowsUntilAllHaveEnded() async {
    let receiver = Receiver(keeping: false) { seen in
      seen.target.contains("bad") ? .late(1.2, "400 No") : .late(1.5, "201 Created")
    }
    await inYard { yard in
      let path = yard.source("a", [1])
      let worker = yard.start()
      yard.drop("good", to: receiver.url + "/good", [path])
      yard.drop("bad", to: receiver.url + "/bad", [path])
      #expect(await yard.wait("bad", in: "active"))
      let watch = spawn(
        [products + "/upspool", "watch", "--spool", yard.spool, "--interval", "0.5"],
        output: yard.folder.at("watch"))
      #expect(await watch.ended(10) == 1)
      let text = yard.folder.text("watch") ?? ""
      #expect(text.contains("active good\n") && text.contains("done good: 1 file, 1 B"), "\(text)")
      #expect(text.contains("failed bad: ") && text.contains("active good: 0%"), "\(text)")
      #expect(!text.contains("\u{1b}"))
      // On a terminal of 40 columns.
      yard.drop("again", to: receiver.url + "/good2", [path])
      let terminal = spawn(
        [
          "/usr/bin/script", "-qec",
          "stty cols 40 rows 10; \(products)/upspool watch --spool \(yard.spool)", "/dev/null",
        ], output: yard.folder.at("terminal"))
      #expect(await terminal.ended(10) == 0)
      let drawn = yard.folder.text("terminal") ?? ""
      #expect(drawn.contains("again [") && drawn.contains("\u{1b}["), "\(drawn)")
      #expect(drawn.contains("done again: 1 file, 1 B"))
      for line in drawn.split(whereSeparator: { $0.isNewline })
      where line.contains("[") && line.contains("%") {
        let shown = line.split(separator: "\u{1b}[").map { part in
          part.first?.isNumber == true || part.first == "K" || part.first == "J"
            ? part.drop { $0.isNumber }.dropFirst() : part
        }.joined()
        #expect(shown.count <= 40, "\(shown)")
      }
      #expect(await yard.stop(worker) == 0)
    }
  }
}
