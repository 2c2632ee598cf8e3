internal import Glibc
internal import Jobs
internal import Spool
internal import System
internal import TestKit
internal import Testing

extension EndToEnd {
  /// `upspool watch` beside a running worker.
  @Suite(.timeLimit(.minutes(2))) struct Watching {
    private func watch(_ yard: Yard, _ words: String...) -> Child {
      spawn(
        [products + "/upspool", "watch", "--spool", yard.spool] + words,
        environment: ["UPSPOOL": nil], output: yard.folder.at("watch"))
    }
    /// The same on a terminal of its own with so many columns; its process id goes to a file.
    private func watchOnTerminal(_ yard: Yard, columns: Int, _ words: String) -> Child {
      spawn(
        [
          "/usr/bin/script", "-qec",
          "stty cols \(columns) rows 10; echo $$ > \(yard.folder.at("pid")); "
            + "exec \(products)/upspool watch --spool \(yard.spool) \(words)", "/dev/null",
        ], environment: ["UPSPOOL": nil, "TERM": "xterm", "SHELL": "/bin/sh"],
        output: yard.folder.at("watch"))
    }
    private func text(_ yard: Yard) -> String { yard.folder.text("watch") ?? "" }
    /// What was written, in lines without escape sequences.
    private func lines(_ yard: Yard) -> [String] {
      var plain: [String] = [""]
      var isEscape = false
      for byte in text(yard).utf8 {
        if isEscape {
          if 0x41...0x5a ~= byte || 0x61...0x7a ~= byte { isEscape = false }
        } else if byte == 0x1b {
          isEscape = true
        } else if byte == 0x0a || byte == 0x0d {
          plain.append("")
        } else {
          plain[plain.count - 1].unicodeScalars.append(Unicode.Scalar(byte))
        }
      }
      return plain.filter { !$0.isEmpty }
    }
    /// A yard with a spool that is there before any worker.
    private func inYard(_ body: (Yard) async throws -> Void) async throws {
      try await EndToEndTests.inYard { yard in
        try Spool.create(yard.spool)
        try await body(yard)
      }
    }
    private let hide = "\u{1b}[?25l"
    private let show = "\u{1b}[?25h"

    @Test func inAPipeTwoJobsAreFollowedToTheirEnds() async throws {
      let receiver = Receiver(keeping: false) { seen in
        seen.target.hasPrefix("/bad") ? .status("403 No") : .late(1.5, "201 Created")
      }
      try await inYard { yard in
        let paths = ["a", "b"].map { yard.source($0, noise(300_000)) }
        yard.drop("good", to: receiver.url + "/good/", paths)
        yard.drop("bad", to: receiver.url + "/bad/", paths)
        let child = watch(yard, "--interval", "0.5", "good", "bad")
        #expect(await eventually { text(yard).contains("waiting good\n") })
        let worker = yard.start()
        #expect(await child.ended(15) == 1, "\(yard.log)")
        let out = text(yard)
        let lines = out.split(separator: "\n").map(String.init)
        #expect(lines.count { $0 == "started good" } == 1, "\(out)")
        #expect(lines.count { $0.hasPrefix("good 50% 300.0 kB of 600.0 kB") } >= 1, "\(out)")
        #expect(lines.count { $0.hasPrefix("failed bad: the server answered 403") } == 1)
        #expect(lines.last?.hasPrefix("done good: 2 files, 600.0 kB in ") == true, "\(out)")
        #expect(!out.contains("\u{1b}"))
        // Afterwards both ends are told at once.
        let again = watch(yard, "bad")
        #expect(await again.ended(5) == 1)
        #expect(await yard.stop(worker) == 0)
      }
    }

    @Test func onATerminalBarsKeepToItsWidthAndTheEndsStay() async throws {
      let receiver = Receiver(keeping: false) { _ in .late(1.2, "201 Created") }
      try await inYard { yard in
        let paths = ["a", "b"].map { yard.source($0, noise(300_000)) }
        let long = "a-name-that-is-much-too-long-for-forty-columns-of-a-terminal"
        for name in ["one", long] { yard.drop(name, to: receiver.url + "/\(name)/", paths) }
        let child = watchOnTerminal(yard, columns: 40, "")
        let worker = yard.start()
        #expect(await child.ended(15) == 0, "\(text(yard))")
        let lines = lines(yard)
        #expect(lines.allSatisfy { $0.unicodeScalars.count <= 42 })
        #expect(widest(yard) <= 40, "\(lines)")
        #expect(lines.contains { $0.hasPrefix("one ") && $0.contains("[====") }, "\(lines)")
        #expect(lines.contains { $0.hasPrefix("done one: 2 files, 600.0 kB in") }, "\(lines)")
        #expect(lines.last == "2 done 100% 1.2 MB", "\(lines)")
        #expect(text(yard).components(hide) == 1 && text(yard).hasSuffix(show))
        #expect(await yard.stop(worker) == 0)
      }
    }
    /// Columns of the widest line; all is ASCII but the ellipsis.
    private func widest(_ yard: Yard) -> Int {
      lines(yard).map { $0.unicodeScalars.count { !(0x80...0xbf ~= $0.value) } }.max() ?? 0
    }

    @Test(arguments: [SIGINT, SIGTERM, SIGHUP])
    func theCursorComesBackAtASignal(_ signal: Int32) async throws {
      try await inYard { yard in
        yard.drop("j", to: "x:", [yard.source("a", [1])], in: "paused")
        let child = watchOnTerminal(yard, columns: 40, "j")
        #expect(await eventually { text(yard).contains("1 paused") })
        guard let pid = yard.folder.text("pid").flatMap({ Int32($0.dropLast()) }) else {
          Issue.record("no process")
          return
        }
        #expect(text(yard).components(show) == 0)
        kill(pid, signal)
        #expect(await child.ended(5) == 128 + signal)
        #expect(text(yard).hasSuffix(show) && widest(yard) <= 40, "\(text(yard))")
      }
    }

    private func isStopped(_ pid: Int32) -> Bool {
      guard let file = try? Calls.live.open(Name("/proc/\(pid)/stat"), O_RDONLY),
        let bytes = try? Calls.live.read(file.raw, upTo: 4096)
      else { return false }
      return String(decoding: bytes, as: UTF8.self).components(") T ") == 1
    }

    @Test func stoppedAndContinuedItDrawsAnewBelow() async throws {
      try await inYard { yard in
        yard.drop("j", to: "x:", [yard.source("a", [1])], in: "paused")
        let child = watchOnTerminal(yard, columns: 80, "j")
        #expect(await eventually { text(yard).contains("1 paused") })
        guard let pid = yard.folder.text("pid").flatMap({ Int32($0.dropLast()) }) else {
          Issue.record("no process")
          return
        }
        kill(pid, SIGTSTP)
        // script(1) stops with it, and goes on before it does.
        #expect(await eventually { isStopped(pid) && isStopped(child.pid) })
        child.send(SIGCONT)
        kill(pid, SIGCONT)
        #expect(await eventually { text(yard).components(hide) == 2 }, "\(text(yard))")
        yard.move("j", "paused", "done")
        #expect(await child.ended(5) == 0, "\(text(yard))")
        #expect(text(yard).hasSuffix(show) && text(yard).components(show) == 2)
      }
    }

    @Test func asJSONEachChangeIsALine() async throws {
      let receiver = Receiver(keeping: false) { _ in .late(1.2, "201 Created") }
      try await inYard { yard in
        let paths = ["a", "b"].map { yard.source($0, noise(300_000)) }
        let worker = yard.start()
        yard.drop("j", to: receiver.url + "/j/", paths)
        let child = watch(yard, "--json")
        #expect(await child.ended(15) == 0)
        let lines = text(yard).split(separator: "\n")
        let parsed = lines.compactMap { try? JSON(parsing: Array($0.utf8)) }
        #expect(parsed.count == lines.count)
        let states = parsed.compactMap { $0.member("state")?.string }
        #expect(states.last == "done" && states.contains("active"), "\(states)")
        let percents = parsed.compactMap { $0.member("percent")?.number }
        #expect(percents == percents.sorted() && percents.last == 100)
        #expect(await yard.stop(worker) == 0)
      }
    }
  }
}
