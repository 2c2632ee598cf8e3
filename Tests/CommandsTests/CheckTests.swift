internal import Glibc
internal import Jobs
internal import Spool
internal import System
internal import TestKit
internal import Testing

@testable internal import Commands

@Suite struct CheckTests {
  private func troubles(_ result: Result) -> [String] {
    result.lines.filter { $0.hasPrefix("trouble") }.map { String($0.dropFirst(9)) }
  }

  @Test func aHealthySpoolIsFineAndStaysAsItIs() throws {
    let test = try TestSpool()
    test.job("a", in: .pending)
    test.job("b", in: .done)
    try test.sidecar("b", of: .done)
    let before = Place.allCases.map { test.names($0) }
    let result = test.run(["check"])
    #expect(result.code == 0 && result.err.isEmpty, "\(result.out)")
    for word in [
      "format", "filesystem", "owners", "probe", "strays", "active", "pending", "sidecars",
    ] {
      #expect(result.out.contains("\nfine     \(word): "), "\(word)")
    }
    #expect(result.lines.allSatisfy { $0.hasPrefix("fine  ") || $0.hasPrefix("note  ") })
    #expect(Place.allCases.map { test.names($0) } == before)
    #expect(test.folder.names("spool/workers").isEmpty)
  }

  @Test func aSpoolThatIsNotThereIsTrouble() {
    let folder = Folder()
    let result = upspool(["check", "--spool", folder.at("none")])
    #expect(result.code == 1)
    #expect(
      troubles(result) == [
        "\(folder.at("none")): cannot open the directory: No such file or directory"
      ])
    #expect(!folder.exists("none"))
  }

  @Test func whatDeadWorkersLeftIsToldAndRepaired() throws {
    let test = try TestSpool()
    let dead = newUUID()
    test.folder.write("spool/workers/\(dead).lock", "")
    test.folder.write("spool/workers/\(dead).json", "{}")
    test.folder.write("spool/progress/.\(dead).7", "half")
    let lost = test.job("lost", in: .active)
    try test.sidecar("lost", of: .active) { $0.attempt = 1 }
    test.job("ended", in: .active)
    try test.sidecar("ended", of: .active, .done) { $0.finishedAt = Clock.wall() }
    let result = test.run(["check"])
    #expect(result.code == 1)
    #expect(
      troubles(result).sorted() == [
        "active: \(test.path)/active/ended.json has lost its worker; a running worker or --repair takes "
          + "it back",
        "active: \(lost) has lost its worker; a running worker or --repair takes it back",
        "strays: \(test.path)/progress/.\(dead).7 belongs to nobody any more; --repair removes it",
        "workers: \(dead) is dead and left its files; --repair removes them",
      ])
    #expect(test.names(.active).count == 2 && test.folder.exists("spool/progress/.\(dead).7"))

    let repaired = test.run(["check", "--repair"])
    #expect(repaired.code == 0, "\(repaired.out)")
    #expect(test.names(.active).isEmpty)
    #expect(test.names(.pending) == ["lost.json"] && test.names(.done) == ["ended.json"])
    #expect(test.folder.names("spool/workers").isEmpty)
    #expect(!test.folder.exists("spool/progress/.\(dead).7"))
    let sidecar = try #require(try test.spool.sidecar(Name("lost.json")))
    #expect(sidecar.state == .pending && sidecar.crashes == 1 && sidecar.attempt == 1)
    #expect(test.run(["check"]).code == 0)
  }

  @Test func liveWorkersAndTheirJobsAreLeftAlone() throws {
    let test = try TestSpool()
    let presence = try Presence(test.spool)
    defer { presence.leave() }
    test.folder.write("spool/pending/.\(test.spool.uuid).1", "half")
    let file = test.job("runs", in: .active)
    let held = try Calls.live.open(Name(file), O_RDONLY)
    #expect(try Calls.live.tryLock(held.raw))
    let result = test.run(["check", "--repair"])
    #expect(result.code == 0, "\(result.out)")
    #expect(result.out.contains("workers: worker \(test.spool.uuid), heartbeat "))
    #expect(result.out.contains("active: 1 running, none without a worker"))
    #expect(test.names(.active) == ["runs.json"])
    #expect(test.folder.exists("spool/pending/.\(test.spool.uuid).1"))
    // One that hangs.
    let lock = test.folder.at("spool/workers/\(test.spool.uuid).lock")
    let old = timespec(tv_sec: Int(Clock.wall() / second) - 100, tv_nsec: 0)
    #expect(unsafe utimensat(AT_FDCWD, lock, [old, old], 0) == 0)
    #expect(troubles(test.run(["check"])).first?.contains("it lives, but hangs") == true)
  }

  @Test func aProducersFreshTemporaryIsNoStray() throws {
    let test = try TestSpool()
    test.folder.write("spool/pending/.\(newUUID()).1", "half")
    test.folder.write("spool/pending/.other.tmp", "x")
    #expect(test.run(["check", "--repair"]).code == 0)
    #expect(test.folder.names("spool/pending").count == 2)
  }

  @Test func namesAndKindsInPendingThatNeverRunAreTold() throws {
    let test = try TestSpool()
    test.folder.write("spool/pending/.hidden.json", "{}")
    test.folder.write("spool/pending/a\nb.json", "{}")
    test.folder.makeDirectory("spool/pending/d.json")
    let result = test.run(["check"])
    #expect(result.code == 1)
    #expect(
      troubles(result).sorted() == [
        "pending: \(test.path)/pending/.hidden.json: a job's name doesn't begin with \".\"; rename it",
        "pending: \(test.path)/pending/a\u{fffd}b.json: a job's name has no control characters; rename it",
        "pending: \(test.path)/pending/d.json is a directory, not a regular file",
      ])
  }

  @Test func sidecarsWithoutAJobThatOweACleanUpAreTold() throws {
    let test = try TestSpool()
    try test.sidecar("removed", of: .active) {
      $0.resume = [
        .init(file: 0, url: "https://x/a", size: 9, modifiedAt: 1, offset: 3)
      ]
    }
    try test.sidecar("over", of: .done)
    let result = test.run(["check"])
    #expect(result.code == 1 && troubles(result).count == 1)
    #expect(
      troubles(result)[0].hasPrefix(
        "sidecars: \(test.path)/progress/removed.json has no job any more"))
    // A worker that lives does it within seconds.
    let presence = try Presence(test.spool)
    defer { presence.leave() }
    #expect(test.run(["check"]).code == 0)
  }

  @Test func theConfigurationAndWhatItNamesAreTried() throws {
    let test = try TestSpool()
    let good = test.folder.write("ca.pem", "x")
    let config = test.folder.write(
      "good.json",
      """
      {"roots": ["\(test.folder.path)"], "destinations": {
        "a": {"type": "http", "url": "https://x/", "ca": "\(good)"},
        "b": {"type": "file", "path": "\(test.folder.path)"},
        "c": {"type": "file", "path": "\(test.folder.at("later"))"}}}
      """)
    let fine = test.run(["check", "--config", config, "--root", test.folder.path])
    #expect(fine.code == 0, "\(fine.out)")
    #expect(fine.out.contains("fine     configuration: \(config), 3 destinations\n"))
    #expect(fine.out.contains("destinations.a.ca: \(good) can be read"))
    #expect(fine.out.contains("later isn't there; the first job creates it"))

    let bad = test.folder.write(
      "bad.json",
      """
      {"roots": ["/no/where"], "destinations": {
        "a": {"type": "http", "url": "https://x/", "cert": "/no/cert", "key": "\(test.folder.path)"}}}
      """)
    let result = test.run(["check"], environment: ["UPSPOOL_CONFIG": bad])
    #expect(result.code == 1)
    #expect(
      troubles(result) == [
        "\(bad): roots: cannot open the directory /no/where: No such file or directory",
        "\(bad): destinations.a.cert: cannot read /no/cert: No such file or directory",
        "\(bad): destinations.a.key: cannot read \(test.folder.path): Invalid argument",
      ])
    let wrong = test.folder.write("wrong.json", #"{"root": []}"#)
    #expect(
      troubles(test.run(["check", "--config", wrong])) == [
        "\(wrong): root: unknown key; the nearest known one is \"roots\""
      ])
  }
}

@Suite struct PruneTests {
  /// Jobs of several ages in days, in done/ and failed/, with sidecars.
  private func filled() throws -> TestSpool {
    let test = try TestSpool()
    for age in [1, 10, 40] {
      for place in [Place.done, .failed] {
        let name = "\(place.rawValue)-\(age)"
        test.job(name, in: place)
        try test.sidecar(name, of: place) {
          $0.finishedAt = Clock.wall() - Int64(age) * 86400 * second
        }
      }
      try test.sidecar("gone-\(age)", of: .done) {
        $0.finishedAt = Clock.wall() - Int64(age) * 86400 * second
      }
    }
    test.job("waits", in: .pending)
    try test.sidecar("waits", of: .pending)
    usleep(20_000)
    return test
  }

  @Test func ageCountsFromTheEndAndCountsArePrinted() throws {
    let test = try filled()
    // The ctime is of today, so that nothing but "0" can be older than it.
    #expect(
      test.run(["prune"]).out == "removed 0 from done/, 0 from failed/, 2 sidecars without a job\n")
    #expect(
      test.run(["prune", "--done", "0", "--failed", "30d", "--dry-run"]).out
        == "would remove 3 from done/, 0 from failed/, 1 sidecar without a job\n")
    #expect(test.names(.done).count == 3)
    #expect(
      test.run(["prune", "--done", "0"]).out
        == "removed 3 from done/, 0 from failed/, 1 sidecar without a job\n")
    #expect(test.names(.done).isEmpty && test.names(.failed).count == 3)
    #expect(
      test.run(["prune", "--failed", "0"]).out
        == "removed 0 from done/, 3 from failed/, 0 sidecars without a job\n")
    #expect(test.folder.names("spool/progress") == ["waits.json"])
    #expect(test.names(.pending) == ["waits.json"])
  }

  @Test func theConfigurationsRetentionHolds() throws {
    let test = try filled()
    let config = test.folder.write("c.json", #"{"retention": {"done": "0", "failed": "1d"}}"#)
    #expect(
      test.run(["prune", "--config", config]).out
        == "removed 3 from done/, 0 from failed/, 3 sidecars without a job\n")
  }

  @Test func whatOwesACleanUpIsKept() throws {
    let test = try TestSpool()
    for name in ["owes", "paid"] {
      test.job(name, in: .failed)
      try test.sidecar(name, of: .failed) {
        $0.finishedAt = 0
        if name == "owes" {
          $0.resume = [.init(file: 0, url: "https://x/a", size: 9, modifiedAt: 1, offset: 3)]
        }
      }
    }
    usleep(20_000)
    #expect(test.run(["prune", "--failed", "0"]).code == 0)
    #expect(test.names(.failed).isEmpty)
    #expect(test.folder.names("spool/progress") == ["owes.json"])
  }

  @Test func agesThatAreNoneAreWrongCalls() throws {
    let test = try filled()
    for age in ["", "soon", "-1d", "7 d"] {
      let result = test.run(["prune", "--done=\(age)"])
      #expect(result.code == 2 && result.err.contains("--done: must be a span of time"))
    }
    #expect(test.names(.done).count == 3)
  }
}

@Suite struct HealthTests {
  private func age(_ test: TestSpool, _ uuid: String, seconds: Int) {
    let lock = test.folder.at("spool/workers/\(uuid).lock")
    let time = timespec(tv_sec: Int(Clock.wall() / second) - seconds, tv_nsec: 0)
    #expect(unsafe utimensat(AT_FDCWD, lock, [time, time], 0) == 0)
  }

  @Test func aFreshHeartbeatIsHealthAndNothingIsWritten() throws {
    let test = try TestSpool()
    let presence = try Presence(test.spool)
    defer { presence.leave() }
    let before = test.folder.facts("spool/workers")
    let result = test.run(["health"])
    #expect(result.code == 0 && result.out.isEmpty && result.err.isEmpty)
    #expect(test.folder.facts("spool/workers") == before)
    age(test, test.spool.uuid, seconds: 100)
    let old = test.run(["health"])
    #expect(old.code == 1)
    #expect(
      old.err
        == "\(test.path): worker \(test.spool.uuid), heartbeat 2 min ago, more than 30 s\n")
    #expect(test.run(["health", "--max-age", "200"]).code == 0)
    #expect(test.run(["health", "--max-age", "x"]).code == 2)
  }

  @Test func noWorkerAndDeadWorkersAreNoHealth() throws {
    let test = try TestSpool()
    #expect(test.run(["health"]).err == "\(test.path): no worker is alive\n")
    test.folder.write("spool/workers/\(newUUID()).lock", "")
    #expect(test.run(["health"]).code == 1)
    #expect(upspool(["health", "--spool", test.folder.at("none")]).code == 1)
  }

  @Test func aWorkerOfThisHostCountsBeforeOthers() throws {
    let test = try TestSpool()
    var buffer = [CChar](repeating: 0, count: 256)
    unsafe gethostname(&buffer, 255)
    let host = Name(bytes: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }).description
    let other = try Spool(test.path)
    let (mine, theirs) = (try Presence(test.spool), try Presence(other))
    defer {
      mine.leave()
      theirs.leave()
    }
    theirs.publish(Array(#"{"host": "elsewhere"}"#.utf8), suffix: ".json")
    #expect(test.run(["health"]).code == 0)
    mine.publish(Array("{\"host\": \"\(host)\"}".utf8), suffix: ".json")
    age(test, test.spool.uuid, seconds: 100)
    let result = test.run(["health"])
    #expect(result.code == 1 && result.err.contains("on \(host), heartbeat 2 min ago"))
  }
}
