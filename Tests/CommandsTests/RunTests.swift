internal import Glibc
internal import Jobs
internal import Spool
internal import System
internal import TestKit
internal import Testing

@testable internal import Commands

@Suite struct RunTests {
  /// Starts a worker and waits until it lives.
  private func worker(_ test: TestSpool, _ words: [String] = [], prefix: [String] = []) async
    -> Child
  {
    let child = start(
      ["run", "--spool", test.path] + words, output: test.folder.at("log"), prefix: prefix)
    #expect(await eventually { (test.folder.text("log") ?? "").contains("start") })
    return child
  }

  @Test func whatIsWrongWithTheSpoolIsOneLine() throws {
    let folder = Folder()
    let file = folder.write("file", "x")
    let inTheWay = upspool(["run", "--spool", file])
    #expect(
      inTheWay.code == 1
        && inTheWay.err.hasPrefix("\(file): cannot create the spool: Not a directory"))
    #expect(
      upspool(["run", "--spool", "\(file)/a/b"]).err.hasPrefix(
        "\(file)/a/b: cannot create the spool: "))
    folder.makeDirectory("s")
    folder.write("s/pending", "x")
    let part = upspool(["run", "--spool", folder.at("s")])
    #expect(part.code == 1 && part.err.contains("Not a directory"))
    for result in [inTheWay, part] {
      #expect(result.out.isEmpty && result.err.split(separator: "\n").count == 1)
    }
    let newer = try TestSpool()
    newer.folder.write("spool/format", "2\n")
    #expect(newer.run(["run", "--drain"]).err.contains("run a newer upspool"))
    #expect(newer.folder.names("spool/workers").isEmpty)
  }

  @Test func missingParentsAreMade() {
    let folder = Folder()
    let result = upspool(["run", "--drain", "--spool", "a/b/c/"], directory: folder.path)
    #expect(result.code == 0, "\(result.err)")
    #expect(folder.names("a/b/c").count == 8)
    #expect(folder.names("a/b/c/workers").isEmpty)
  }

  @Test(.enabled(if: !asNobody.isEmpty)) func aSpoolThatMayNotBeWrittenIsOneLine() throws {
    let test = try TestSpool()
    let result = upspool(["run", "--drain", "--spool", test.path], prefix: asNobody)
    #expect(result.code == 1 && result.err.split(separator: "\n").count == 1)
    #expect(result.err.contains("Permission denied"))
    let none = upspool(["run", "--drain", "--spool", test.folder.at("new")], prefix: asNobody)
    #expect(none.code == 1)
    #expect(
      none.err
        == "\(test.folder.at("new")): cannot create the spool: Permission denied; name a directory that "
        + "this user may write to with --spool DIR\n")
  }

  @Test func aFailedSelfTestLeavesNothingBehind() throws {
    let test = try TestSpool()
    #expect(unsafe chmod("\(test.path)/pending", 0o1777) == 0)
    let result = test.run(["run", "--drain"])
    #expect(result.code == 1 && result.err.contains("--root DIR"))
    #expect(result.err.split(separator: "\n").count == 1)
    #expect(test.folder.names("spool/workers").isEmpty)
    #expect(test.run(["run", "--drain", "--root", "."]).code == 0)
  }

  @Test func aWrongConfigurationIsAWrongCall() throws {
    let test = try TestSpool()
    let wrong = test.folder.write("c.json", #"{"concurency": 3}"#)
    for result in [
      test.run(["run", "--drain", "--config", wrong]),
      test.run(["run", "--drain"], environment: ["UPSPOOL_CONFIG": wrong]),
    ] {
      #expect(result.code == 2)
      #expect(
        result.err
          == "\(wrong): concurency: unknown key; the nearest known one is \"concurrency\"\n")
    }
    let none = test.run(["run", "--drain", "--config", test.folder.at("none")])
    #expect(
      none.code == 2
        && none.err == "\(test.folder.at("none")): can't read it: No such file or directory\n")
    for words in [
      ["--concurrency", "0"], ["--grace", "-1"], ["--poll", "0"], ["--durability", "some"],
      ["--log", "xml"], ["--root", ""],
    ] {
      let result = test.run(["run", "--drain"] + words)
      #expect(
        result.code == 2 && result.err.hasPrefix("upspool run: \(words[0]): "), "\(result.err)")
    }
  }

  @Test func aDrainTellsByItsExitCodeWhetherAJobFailed() throws {
    let test = try TestSpool()
    test.folder.makeDirectory("out")
    let target = "file://\(test.folder.at("out"))/"
    let file = test.folder.write("a", "x")
    #expect(test.run(["submit", file, "--to", target, "--name", "good"]).code == 0)
    #expect(test.run(["run", "--drain", "--log", "json"]).code == 0)
    #expect(test.names(.done) == ["good.json"])
    #expect(test.run(["submit", file, "--to", target, "--name", "bad"]).code == 0)
    test.folder.remove("a")
    let result = test.run(["run", "--drain", "--log", "json"])
    #expect(result.code == 1 && result.out.isEmpty)
    #expect(test.names(.failed) == ["bad.json"])
    // Every line is JSON.
    for line in result.err.split(separator: "\n") {
      #expect(try JSON(parsing: Array(line.utf8)).member("event")?.string != nil)
    }
  }

  @Test func rootsMayBeRelativeAndLimitWhatIsRead() throws {
    let test = try TestSpool()
    test.folder.makeDirectory("out")
    test.folder.makeDirectory("in")
    let inside = test.folder.write("in/a", "x")
    let outside = test.folder.write("b", "x")
    let config = test.folder.write("c.json", #"{"writeRoots": ["\#(test.folder.at("out"))"]}"#)
    let target = "file://\(test.folder.at("out"))/"
    #expect(test.run(["submit", inside, "--to", target, "--name", "inside"]).code == 0)
    #expect(test.run(["submit", outside, "--to", target, "--name", "outside"]).code == 0)
    let result = upspool(
      ["run", "--drain", "--spool", test.path, "--root", "./in/.", "--config", config],
      directory: test.folder.path)
    #expect(result.code == 1, "\(result.err)")
    #expect(test.names(.done) == ["inside.json"] && test.names(.failed) == ["outside.json"])
  }

  @Test func signalsEndItAndReadTheConfigurationAgain() async throws {
    for signal in [SIGTERM, SIGINT] {
      let test = try TestSpool()
      let config = test.folder.write("c.json", "{}")
      let child = await worker(test, ["--config", config])
      #expect(test.run(["health"]).code == 0)
      #expect(test.run(["status"]).out.contains("1 worker"))
      child.send(SIGHUP)
      #expect(
        await eventually { test.folder.text("log")!.contains("reload: \(config) was read again") })
      test.folder.write("c.json", "{")
      child.send(SIGHUP)
      #expect(await eventually { test.folder.text("log")!.contains("stays as it was") })
      #expect(child.isRunning)
      child.send(SIGIO)
      child.send(SIGPIPE)
      usleep(50_000)
      #expect(child.isRunning)
      child.send(signal)
      #expect(child.wait(seconds: 10) == 0)
      #expect(test.folder.names("spool/workers").isEmpty)
      #expect(test.run(["health"]).code == 1)
    }
  }

  /// Whether a process of its own numbering can be had here.
  static let canBeFirst: Bool =
    geteuid() == 0
    && shell("unshare --pid --fork true").code == 0

  @Test(.enabled(if: canBeFirst)) func itStopsAsProcessOneOfAContainer() async throws {
    let test = try TestSpool()
    // unshare's only child is process 1 of its own numbering.
    let child = await worker(
      test, prefix: ["/usr/bin/unshare", "--pid", "--fork", "--kill-child"])
    let children = "/proc/\(child.pid)/task/\(child.pid)/children"
    let file = try Calls.live.open(Name(children), O_RDONLY)
    let text = try Calls.live.read(file.raw, upTo: 64)
    let first = try #require(Int32(String(decoding: text, as: UTF8.self).split(separator: " ")[0]))
    #expect(kill(first, SIGTERM) == 0)
    #expect(child.wait(seconds: 10) == 0)
    #expect(test.folder.text("log")!.contains("stopping"))
  }

  @Test func warningsComeInTheLogsForm() throws {
    let folder = Folder(in: "/dev/shm")
    let json = upspool(["run", "--drain", "--log", "json", "--spool", folder.at("s")])
    #expect(json.code == 0)
    let first = try JSON(parsing: Array(try #require(json.err.split(separator: "\n").first).utf8))
    #expect(first.member("event")?.string == "warning")
    #expect(first.member("message")?.string?.contains("tmpfs") == true)
    let text = upspool(["run", "--drain", "--spool", folder.at("s")])
    #expect(text.err.hasPrefix("warning: \(folder.at("s")) is in memory (tmpfs)"))
    #expect(
      upspool(["run", "--drain", "--durability", "process", "--spool", folder.at("s")]).err
        .contains("warning") == false)
  }
}
