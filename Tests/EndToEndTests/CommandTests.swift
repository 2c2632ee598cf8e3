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
}
