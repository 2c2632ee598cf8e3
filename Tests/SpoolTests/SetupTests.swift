internal import Glibc
internal import Jobs
internal import Spool
internal import System
internal import TestKit
internal import Testing

/// A mounted tmpfs, which only root may have; unmounted with its owner.
private final class Mount {
  let path: String
  init?(_ path: String, _ options: String = "size=4m") {
    self.path = path
    let words = ["/bin/mount", "-t", "tmpfs", "-o", options, "none", path]
    guard geteuid() == 0, spawn(words, errors: "/dev/null").wait() == 0 else { return nil }
  }
  // Lazily: the spool in it may still be open.
  deinit { _ = spawn(["/bin/umount", "-l", path]).wait() }
}

/// Whether this process may mount at all: not in most containers, even as root.
private let mayMount: Bool = {
  let folder = Folder()
  return Mount(folder.makeDirectory("m")) != nil
}()

@Suite struct SetupTests {
  private let folder = Folder(in: memory)
  private var path: String { folder.at("spool") }

  private func made() throws -> Spool {
    try Spool.create(path)
    return try Spool(path)
  }
  private func refusal(_ spool: Spool, singleHost: Bool = false, hasRoots: Bool = false) -> String {
    do {
      let findings = try spool.selfTest(singleHost: singleHost, hasRoots: hasRoots)
      return "accepted: \(findings.warnings)"
    } catch {
      return error.description
    }
  }

  @Test func `a new spool passes, and nothing of the test stays`() throws {
    let spool = try made()
    #expect(refusal(spool).hasPrefix("accepted"))
    for name in ["pending", "active", "paused", "done", "failed", "progress", "workers"] {
      #expect(folder.names("spool/\(name)") == [])
      #expect(folder.facts("spool/\(name)")?.permissions == 0o755)
    }
    #expect(folder.text("spool/format") == "1\n")
    // Making it again changes nothing: not what the owner wants pending/ to be.
    #expect(unsafe chmod(path + "/pending", 0o1777) == 0)
    try Spool.create(path)
    #expect(folder.facts("spool/pending")?.permissions == 0o1777)
  }

  @Test func `parents are made, and twenty make it at once`() async throws {
    let deep = folder.at("a/b/c/spool")
    await withTaskGroup(of: Bool.self) { group in
      for _ in 0..<20 {
        group.addTask { (try? Spool.create(deep)) != nil }
      }
      for await isMade in group { #expect(isMade) }
    }
    #expect(refusal(try Spool(deep)).hasPrefix("accepted"))
  }

  @Test func `what is missing is named`() throws {
    #expect(throws: SpoolError.self) { try Spool(folder.at("nowhere")) }
    _ = try made()
    #expect(unsafe rmdir(path + "/paused") == 0)
    do {
      _ = try Spool(path)
      Issue.record("opened")
    } catch let error as SpoolError {
      #expect(error.description.hasPrefix(path + "/paused: cannot open the directory"))
    }
  }

  @Test(arguments: ["pending", "progress", "workers"])
  func `a state directory that is a link is refused`(_ name: String) throws {
    _ = try made()
    #expect(folder.move("spool/\(name)", to: "elsewhere"))
    #expect(unsafe symlink(folder.at("elsewhere"), path + "/" + name) == 0)
    do {
      _ = try Spool(path)
      Issue.record("opened")
    } catch let error as SpoolError {
      #expect(error.description.contains(path + "/" + name))
      #expect(error.description.contains("not a symbolic link"))
    }
  }

  @Test func `the spool itself may be behind a link`() throws {
    _ = try made()
    #expect(unsafe symlink(path, folder.at("link")) == 0)
    let spool = try Spool(folder.at("link"))
    #expect(refusal(spool).hasPrefix("accepted") && spool.replacedDirectories() == [])
  }

  @Test(arguments: [
    ("1\n", true), ("1", true), ("", true), ("2\n", false), ("10\n", false), ("new\n", false),
    ("2\n" + String(repeating: "x", count: 100), false), ("99999999999999999999\n", false),
  ])
  func `a newer format is refused with one line`(_ text: String, _ isFine: Bool) throws {
    let spool = try made()
    folder.write("spool/format", text)
    let answer = refusal(spool)
    #expect(answer.hasPrefix("accepted") == isFine, "\(answer)")
    if !isFine {
      #expect(answer.hasPrefix(path + "/format says") && !answer.contains("\n"))
    }
  }

  @Test func `a format that can't be read may be newer`() throws {
    _ = try made()
    let armed = Locked(false)
    let spool = try Spool(
      path, calls: Calls { call in call == .open && armed.with { $0 } ? EACCES : nil })
    armed.with { $0 = true }
    #expect(throws: SpoolError.self) { try spool.checkFormat() }
  }

  @Test(
    .enabled(if: mayMount, "needs the right to mount a tmpfs"),
    arguments: [
      "pending", "active", "done", "progress", "workers",
    ])
  func `a split spool is refused with both paths`(_ name: String) throws {
    _ = try made()
    let mount = try #require(Mount(path + "/" + name, "size=1m,mode=755"))
    let answer = refusal(try Spool(path))
    #expect(answer.contains("\(path)/pending"), "\(answer)")
    #expect(answer.contains("different filesystems"))
    withExtendedLifetime(mount) {}
  }

  @Test(.enabled(if: mayMount, "needs the right to mount a tmpfs"))
  func `a read-only spool is refused`() throws {
    folder.makeDirectory("spool")
    let mount = try #require(Mount(path, "size=1m,mode=755"))
    let spool = try made()
    #expect(spawn(["/bin/mount", "-o", "remount,ro", path]).wait() == 0)
    let answer = refusal(spool)
    #expect(answer.contains("\(path)/pending: cannot write"), "\(answer)")
    #expect(answer.contains("Read-only"))
    withExtendedLifetime(mount) {}
  }

  @Test(.enabled(if: mayMount, "needs the right to mount a tmpfs"))
  func `a full spool is no reason not to start, and has no room`() throws {
    folder.makeDirectory("spool")
    let mount = try #require(Mount(path, "size=1m,nr_inodes=12,mode=755"))
    let spool = try made()
    for n in 0..<20 {
      let file = try? Calls.live.open(Name(path + "/fill\(n)"), O_WRONLY | O_CREAT)
      if file == nil { break }
    }
    #expect(refusal(spool).hasPrefix("accepted"))
    #expect(try !spool.hasRoom().ok)
    withExtendedLifetime(mount) {}
  }

  @Test func `who may write where is checked`() throws {
    let spool = try made()
    func mode(_ name: String, _ mode: mode_t) { unsafe chmod(path + name, mode) }
    for name in ["progress", "workers"] {
      for bad: mode_t in [0o775, 0o757, 0o777, 0o1777] {
        mode("/" + name, bad)
        let answer = refusal(spool, hasRoots: true)
        #expect(answer.hasPrefix("\(path)/\(name) belongs to"), "\(answer)")
      }
      mode("/" + name, 0o755)
    }
    mode("", 0o777)
    #expect(refusal(spool, hasRoots: true).contains("may be written to by anybody"))
    mode("", 0o755)
    for name in ["pending", "active"] {
      for drop: mode_t in [0o775, 0o1777] {
        mode("/" + name, drop)
        #expect(refusal(spool).hasPrefix("\(path)/\(name) may be written to"))
        #expect(refusal(spool, hasRoots: true).hasPrefix("accepted"))
      }
      mode("/" + name, 0o755)
    }
    #expect(refusal(spool).hasPrefix("accepted"))
  }

  @Test(
    .enabled(if: geteuid() == 0, "needs the right to change owners"),
    arguments: [
      "progress", "workers",
    ])
  func `what is believed must be the worker's own`(_ name: String) throws {
    let spool = try made()
    #expect(unsafe chown(path + "/" + name, 12_345, 0) == 0)
    #expect(refusal(spool, hasRoots: true).contains("belongs to user 12345"))
    #expect(unsafe chown(path + "/" + name, 0, 0) == 0)
    #expect(unsafe chown(path + "/pending", 12_345, 0) == 0)
    #expect(refusal(spool).contains("owner 12345"))
    #expect(refusal(spool, hasRoots: true).hasPrefix("accepted"))
  }

  @Test func `what the self-test meets is said in words, and nothing of it stays`() throws {
    _ = try made()
    for (kind, code, words) in [
      (Call.flock, ENOLCK, "locks don't exclude"), (.rename, EXDEV, "different filesystems"),
      (.rename, EACCES, "must be able to create and rename"),
      (.fsync, EIO, "cannot write to the directory"),
    ] {
      let faults = Faults(.init(kind: kind, n: 1, code: code))
      let spool = try Spool(path, calls: faults.calls)
      faults.begin()
      let answer = refusal(spool)
      #expect(answer.contains(words), "\(kind) \(code): \(answer)")
      for place in Place.allCases { #expect(folder.names("spool/\(place)") == []) }
    }
    let old = try Spool(path, calls: Calls { $0 == .rename ? EINVAL : nil })
    #expect(refusal(old).hasPrefix("accepted"), "link and unlink do instead")
  }

  @Test func `hold is a file`() throws {
    let spool = try made()
    #expect(!spool.isHeld())
    folder.write("spool/hold", "")
    #expect(spool.isHeld())
    folder.remove("spool/hold")
    #expect(!spool.isHeld())
  }

  @Test func `a scan tells jobs from what is none`() throws {
    let spool = try made()
    for name in ["a.json", ".a.json", "a.json.tmp", "\u{1}.json", "b.json"] {
      folder.write("spool/pending/\(name)", "")
    }
    folder.write("spool/pending/\(String(repeating: "n", count: 240)).json", "")
    let scan = try spool.scanPending()
    var (jobs, misnamed) = ([String](), 0)
    while let batch = try scan.next() {
      jobs += batch.jobs.map(\.name.description)
      misnamed += batch.misnamed.count
    }
    #expect(jobs.sorted() == ["a.json", "b.json"] && misnamed == 3)
  }
}

@Suite struct PresenceTests {
  private let folder = Folder(in: memory)
  private func open() throws -> Spool {
    try Spool.create(folder.at("spool"))
    return try Spool(folder.at("spool"))
  }
  private func isGone(_ uuid: String) -> Bool {
    ["workers", "pending", "progress", "done"].allSatisfy {
      folder.names("spool/\($0)").allSatisfy { !$0.contains(uuid) }
    }
  }

  @Test func `the living are left alone and the dead are removed by one`() throws {
    let (mine, other, dead) = (try open(), try open(), try open())
    let (me, you) = (try Presence(mine), try Presence(other))
    do {
      let third = try Presence(dead)
      third.publish(Array("{}".utf8), suffix: ".json")
      third.publish(Array("x 1".utf8), suffix: ".prom")
      #expect(try Set(mine.otherWorkers().alive) == [other.uuid, dead.uuid])
      #expect(try mine.removeDeadWorkers(now: 0) == [])
      #expect(try mine.report(of: dead.uuid, now: Clock.wall())?.json == Array("{}".utf8))
      withExtendedLifetime(third) {}
    }
    for uuid in [mine.uuid, other.uuid, dead.uuid] {
      folder.write("spool/pending/.\(uuid).9", "")
      folder.write("spool/progress/.\(uuid).7", "")
      folder.write("spool/done/.\(uuid).probe", "")
    }
    folder.write("spool/pending/.producer.tmp", "")
    folder.write("spool/pending/\(dead.uuid).json", "")
    folder.remove("spool/pending/\(dead.uuid).json")
    var removed: [String] = []
    #expect(
      try patiently {
        removed += try mine.removeDeadWorkers(now: 0)
        removed += try other.removeDeadWorkers(now: 0)
        return !removed.isEmpty
      })
    #expect(removed == [dead.uuid])
    #expect(isGone(dead.uuid) && !isGone(mine.uuid) && !isGone(other.uuid))
    #expect(folder.exists("spool/pending/.producer.tmp"))
    you.leave()
    #expect(!folder.exists("spool/workers/\(other.uuid).lock"))
    withExtendedLifetime((me, you)) {}
  }

  @Test func `of many who look at once exactly one removes`() async throws {
    for _ in 0..<20 {
      let dead = try open()
      do { _ = try Presence(dead) }
      let lookers = try (0..<4).map { _ in try open() }
      let removed = Locked<[String]>([])
      let left = Locked(lookers.count)
      for looker in lookers {
        startThread {
          for _ in 0..<50 {
            let found = (try? looker.removeDeadWorkers(now: 0)) ?? []
            removed.with { $0 += found }
            usleep(500)
          }
          left.with { $0 -= 1 }
        }
      }
      #expect(await eventually { left.with { $0 } == 0 })
      #expect(removed.with { $0 } == [dead.uuid])
    }
  }

  @Test func `who is born while others clean up begins anew`() throws {
    let cleaner = try open()
    let removed = Locked<[String]>([])
    let isFirst = Locked(true)
    // Between its creation and its lock the file looks like a dead worker's.
    let calls = Calls { call in
      if call == .flock,
        isFirst.with({ first in
          defer { first = false }
          return first
        })
      {
        let found = (try? cleaner.removeDeadWorkers(now: 0)) ?? []
        removed.with { $0 = found }
      }
      return nil
    }
    let spool = try Spool(folder.at("spool"), calls: calls)
    let presence = try Presence(spool)
    #expect(removed.with { $0 } == [spool.uuid])
    #expect(folder.exists("spool/workers/\(spool.uuid).lock"))
    #expect(try cleaner.otherWorkers().alive == [spool.uuid])
    #expect(try cleaner.removeDeadWorkers(now: 0) == [])
    withExtendedLifetime(presence) {}
  }

  @Test func `two can't be one`() throws {
    let spool = try open()
    let first = try Presence(spool)
    #expect(throws: SpoolError.self) { try Presence(spool) }
    first.beat()
    #expect(folder.exists("spool/workers/\(spool.uuid).lock"))
    withExtendedLifetime(first) {}
  }

  @Test func `what can't be written leaves no temporary`() throws {
    try Spool.create(folder.at("spool"))
    let faults = Faults(.init(kind: .write, n: 1, code: ENOSPC))
    let spool = try Spool(folder.at("spool"), calls: faults.calls)
    let presence = try Presence(spool)
    faults.begin()
    presence.publish(Array("{}".utf8), suffix: ".json")
    #expect(folder.names("spool/workers") == [spool.uuid + ".lock"])
  }
}
