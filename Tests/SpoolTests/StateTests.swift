internal import Glibc
internal import Jobs
internal import Spool
internal import System
internal import TestKit
internal import Testing

/// The rows of the state table, and sidecars from earlier lives.
@Suite struct StateTests {
  private let yard: Yard
  init() throws { yard = try Yard() }

  private func claim(_ name: String) throws -> Claim {
    try #require(try yard.spool.claimed(name), "\(yard.listing)")
  }
  private func done(_ claim: Claim) {
    #expect(
      yard.spool.commit([claim.ending(.done, to: .done)], wholeFilesystem: false) == [.committed])
  }

  // MARK: pending/

  @Test func `a fresh drop runs with one inode made`() throws {
    let job = try yard.put("a.json", in: .pending)
    let claim = try claim("a.json")
    #expect(claim.sidecar == nil && claim.id == job.id && claim.bytes == job.bytes)
    #expect(yard.listing == ["active/a.json"])
    done(claim)
    #expect(yard.listing == ["done/a.json", "progress/a.json"])
    #expect(yard.word("a.json")?.state == .done && yard.word("a.json")?.id == job.id)
    try yard.verify("")
  }

  @Test(arguments: [Sidecar.State.pending, .active, .paused, .failed, .done, .cancelled])
  func `its own sidecar is known and says active before the rename`(_ state: Sidecar.State) throws {
    let job = try yard.put("a.json", in: .pending)
    try yard.tell("a.json", state, id: job.id) { $0.failures = 3 }
    var asked: Sidecar?
    let claiming = try yard.spool.claim(Name("a.json"), now: now) { _, known, _ in
      asked = known
      return false
    } start: { job, known, id, facts in
      begin(job, known, id, facts)
    }
    guard case .later = claiming else {
      Issue.record("\(claiming)")
      return
    }
    #expect(asked?.state == state && asked?.failures == 3)
    #expect(yard.word("a.json")?.state == state, "a job that is left is left untouched")

    // Looked at in the moment of the rename.
    let path = yard.path
    let seen = Locked<Sidecar.State?>(nil)
    let looking = try yard.open(
      Calls { call in
        if call == .rename {
          guard let file = try? Calls.live.open(Name(path + "/progress/a.json"), O_RDONLY) else {
            return nil
          }
          let bytes = try? Calls.live.read(file.raw, upTo: 4096)
          seen.with { $0 = bytes.flatMap { Sidecar.decode($0)?.state } }
        }
        return nil
      })
    let claim = try #require(try looking.claimed("a.json"))
    #expect(seen.with { $0 } == .active)
    #expect(claim.sidecar?.run == (state == .done || state == .cancelled ? 2 : 1))
  }

  @Test func `killed right after the claim, a job of an earlier life is sent`() throws {
    let job = try yard.put("a.json", in: .pending)
    try yard.tell("a.json", .done, id: job.id)
    _ = try claim("a.json")
    #expect(yard.whereabouts(job) == ["active/a.json"])
    #expect(try yard.spool.recovered("a.json") == .requeued(crashes: 1))
    #expect(yard.whereabouts(job) == ["pending/a.json"])
    #expect(yard.word("a.json")?.run == 2)
  }

  @Test func `done and removed and dropped again and killed, it is sent`() throws {
    let old = try yard.put("a.json", in: .done)
    try yard.tell("a.json", .done, id: old.id)
    yard.folder.remove("spool/done/a.json")
    yard.forget(old)
    let new = try yard.put("a.json", in: .pending)
    let first = try claim("a.json").sidecar
    #expect(first?.id == new.id && first?.run == 1)
    #expect(try yard.spool.recovered("a.json") == .requeued(crashes: 1))
    #expect(yard.whereabouts(new) == ["pending/a.json"])
  }

  @Test(arguments: ["", "{", "\0\0\0\0", #"{"state": "done"}"#, "[1]", "null"])
  func `an unreadable sidecar is none`(_ text: String) throws {
    let job = try yard.put("a.json", in: .pending)
    yard.folder.write("spool/progress/a.json", text)
    let claim = try claim("a.json")
    #expect(claim.sidecar?.id == job.id)
    #expect(yard.word("a.json")?.state == .active)
    withExtendedLifetime(claim) {}
  }

  @Test(arguments: ["", "{", "\0\0\0\0"])
  func `recovery beside an unreadable sidecar counts one crash`(_ text: String) throws {
    let job = try yard.put("a.json", in: .active)
    yard.folder.write("spool/progress/a.json", text)
    #expect(try yard.spool.recovered("a.json") == .requeued(crashes: 1))
    #expect(yard.whereabouts(job) == ["pending/a.json"])
    #expect(yard.word("a.json")?.id == job.id && yard.word("a.json")?.crashes == 1)
  }

  @Test func `a sidecar beyond the limit is none and costs no memory`() throws {
    let job = try yard.put("a.json", in: .pending)
    yard.folder.write("spool/progress/a.json", "{}")
    #expect(unsafe truncate(yard.path + "/progress/a.json", 1 << 40) == 0)
    #expect(yard.word("a.json") == nil)
    #expect(try claim("a.json").sidecar?.id == job.id)
  }

  @Test func `a job that a person renames is a new job`() throws {
    let job = try yard.put("a.json", in: .pending)
    try yard.tell("a.json", .failed, id: job.id) { $0.failures = 7 }
    #expect(yard.folder.move("spool/pending/a.json", to: "spool/pending/b.json"))
    let claim = try claim("b.json")
    #expect(claim.sidecar == nil)
    done(claim)
    #expect(yard.word("b.json")?.failures == 0)
    #expect(yard.word("a.json")?.failures == 7)
  }

  @Test func `who changed the bytes in place is the same file`() throws {
    let job = try yard.put("a.json", in: .pending)
    try yard.tell("a.json", .failed, id: job.id)
    yard.folder.write(
      "spool/pending/a.json", #"{"to": "https://other.example.com/in/", "files": ["/data/a.jpg"]}"#)
    let claim = try claim("a.json")
    #expect(claim.id == job.id && claim.sidecar != nil && claim.bytes != job.bytes)
  }

  @Test func `a file that changes while it is read goes back`() throws {
    let path = yard.path + "/pending/a.json"
    try yard.put("a.json", in: .pending)
    let changing = try yard.open(
      Calls { call in
        // Between the reading and the rename.
        if call == .rename, unsafe access(path, F_OK) == 0 {
          var times = [timespec(tv_sec: 1, tv_nsec: 0), timespec(tv_sec: 1, tv_nsec: 0)]
          unsafe utimensat(AT_FDCWD, path, &times, 0)
        }
        return nil
      })
    guard case .changed = try changing.tryClaim("a.json") else {
      Issue.record("not noticed")
      return
    }
    #expect(yard.listing == ["pending/a.json"])
  }

  @Test func `a held job is left alone by everybody`() throws {
    let job = try yard.put("a.json", in: .pending)
    let facts = try #require(yard.folder.facts("spool/pending/a.json"))
    let holder = try Calls.live.open(Name(yard.path + "/pending/a.json"), O_RDONLY)
    #expect(try Calls.live.tryLock(holder.raw))
    guard case .locked = try yard.spool.tryClaim("a.json", isHeld: true) else {
      Issue.record("claimed")
      return
    }
    let word = { (id: String) in
      Sidecar(state: .failed, job: "a", id: id, queuedAt: now, updatedAt: now)
    }
    #expect(try !yard.spool.conclude(Name("a.json"), judged: facts, in: .failed, sidecar: word))
    #expect(try !yard.spool.tellWaiting(Name("a.json"), facts, sidecar: word))
    #expect(yard.folder.move("spool/pending/a.json", to: "spool/active/a.json"))
    #expect(try yard.spool.recovered("a.json", isHeld: true) == .alive)
    #expect(yard.folder.move("spool/active/a.json", to: "spool/done/a.json"))
    #expect(try !yard.spool.prune(Name("a.json"), in: .done, endedBefore: .max))
    #expect(yard.whereabouts(job) == ["done/a.json"] && yard.listing == ["done/a.json"])
    withExtendedLifetime(holder) {}
  }

  @Test func `what is no regular file is told of and left`() throws {
    let folder = yard.folder
    folder.makeDirectory("spool/pending/d.json")
    unsafe mkfifo(folder.at("spool/pending/p.json"), 0o644)
    unsafe symlink("/etc/passwd", folder.at("spool/pending/l.json"))
    let socket = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(socket) }
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let path = Array(folder.at("spool/pending/s.json").utf8)
    unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: path) }
    let bound = unsafe withUnsafePointer(to: &address) {
      unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe bind(socket, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    #expect(bound == 0)
    for name in ["d.json", "p.json", "l.json", "s.json"] {
      guard case .notRegular = try yard.spool.tryClaim(name) else {
        Issue.record("\(name) was taken")
        continue
      }
      #expect(folder.move("spool/pending/\(name)", to: "spool/active/\(name)"))
      guard case .strange = try yard.spool.recovered(name) else {
        Issue.record("\(name) was recovered")
        continue
      }
      // In the way of a namesake's end it steps aside like any other.
      #expect(folder.move("spool/active/\(name)", to: "spool/done/\(name)"))
      try yard.put(name, in: .pending)
      done(try claim(name))
    }
    try yard.verify("")
    #expect(yard.folder.names("spool/done").count == 8)
  }

  @Test func `an mtime ahead of the change is a date, one behind it a clock`() throws {
    try yard.put("a.json", in: .pending, modified: now + 3600 * second)
    guard case .notDue(let time) = try yard.spool.tryClaim("a.json", at: now) else {
      Issue.record("ran early")
      return
    }
    #expect(time == now + 3600 * second)
    // Our clock is behind the filesystem's, which set both times at the drop.
    try yard.put("b.json", in: .pending)
    #expect(try yard.spool.claimed("b.json", at: now - 3600 * second) != nil)
  }

  // MARK: active/

  @Test(arguments: [(Sidecar.State.done, Place.done), (.failed, .failed)])
  func `recovery of an ended job only renames`(_ state: Sidecar.State, _ place: Place) throws {
    let job = try yard.put("a.json", in: .active)
    try yard.tell("a.json", state, id: job.id)
    let before = yard.folder.read("spool/progress/a.json")
    #expect(try yard.spool.recovered("a.json") == .finished(place))
    #expect(yard.whereabouts(job) == ["\(place)/a.json"])
    #expect(yard.folder.read("spool/progress/a.json") == before)
  }

  @Test(arguments: [Sidecar.State.pending, .paused])
  func `a job on its way back has not crashed`(_ state: Sidecar.State) throws {
    let job = try yard.put("a.json", in: .active)
    try yard.tell("a.json", state, id: job.id) { $0.crashes = 2 }
    #expect(try yard.spool.recovered("a.json") == .requeued(crashes: 2))
    #expect(yard.whereabouts(job) == ["pending/a.json"])
  }

  @Test func `done of another file beside a job in active is not believed`() throws {
    let job = try yard.put("a.json", in: .active)
    try yard.tell("a.json", .done, id: "1-2")
    #expect(try yard.spool.recovered("a.json") == .requeued(crashes: 1))
    #expect(yard.whereabouts(job) == ["pending/a.json"])
    #expect(yard.word("a.json")?.id == job.id)
  }

  @Test func `crashes count only without progress and without a reboot, and five are enough`()
    throws
  {
    let job = try yard.put("a.json", in: .active)
    let name = Name("a.json")
    try yard.tell("a.json", .active, id: job.id) { $0.crashProgress = 0 }
    func crash(_ boot: String = boot, sent: Int64? = nil) throws -> Recovery {
      if yard.folder.exists("spool/pending/a.json") {
        var word = try #require(yard.word("a.json"))
        word.state = .active
        word.boot = "boot"
        if let sent {
          word.resume = [.init(file: 0, url: "https://x/", size: 99, modifiedAt: 1, offset: sent)]
        }
        try yard.spool.publish(word, as: name, durable: false)
        #expect(yard.folder.move("spool/pending/a.json", to: "spool/active/a.json"))
      }
      return try yard.spool.recovered("a.json", boot: boot)
    }
    for n in 1...4 { #expect(try crash() == .requeued(crashes: n)) }
    let wait = try #require(yard.word("a.json")?.wait)
    #expect(wait.until == now + 4 * second && wait.mtime == job.modified && wait.reason == "crash")
    #expect(try crash("other boot") == .requeued(crashes: 4))
    #expect(try crash(sent: 10) == .requeued(crashes: 0))
    #expect(yard.word("a.json")?.wait == nil)
    for n in 1...4 { #expect(try crash(sent: 10) == .requeued(crashes: n)) }
    #expect(try crash(sent: 10) == .gaveUp(crashes: 5))
    #expect(yard.whereabouts(job) == ["failed/a.json"])
    #expect(yard.word("a.json")?.error?.message == "its worker died 5 times while running it")
  }

  // MARK: Two names for one file

  @Test(arguments: [
    ("pending", Sidecar.State.active, ["pending/a.json"]),
    ("pending", .pending, ["pending/a.json"]),
    ("done", .done, ["done/a.json"]), ("done", .active, ["pending/a.json"]),
    ("failed", .failed, ["failed/a.json"]), ("failed", .active, ["pending/a.json"]),
  ])
  func `a half-done move is judged by its sidecar`(
    _ other: String, _ state: Sidecar.State, _ result: [String]
  ) throws {
    let job = try yard.put("a.json", in: .active)
    #expect(
      unsafe link(yard.path + "/active/a.json", yard.path + "/\(other)/a.json") == 0)
    try yard.tell("a.json", state, id: job.id)
    _ = try yard.spool.recovered("a.json")
    #expect(yard.whereabouts(job) == result)
  }

  @Test func `a second name in done that nobody knows of doesn't stop the end`() throws {
    let job = try yard.put("a.json", in: .done)
    #expect(unsafe link(yard.path + "/done/a.json", yard.path + "/pending/a.json") == 0)
    let claim = try claim("a.json")
    done(claim)
    #expect(yard.whereabouts(job) == ["done/a.json"])
  }

  @Test func `hard links from outside are nobody's business`() throws {
    let job = try yard.put("a.json", in: .active)
    #expect(unsafe link(yard.path + "/active/a.json", yard.folder.at("mine")) == 0)
    try yard.tell("a.json", .done, id: job.id)
    #expect(try yard.spool.recovered("a.json") == .finished(.done))
    #expect(yard.folder.exists("mine"))
  }

  // MARK: nowhere

  @Test func `a removed job's sidecar is judged by what it owes`() throws {
    try yard.tell("a.json", .active, id: "1-2")
    try yard.tell("b.json", .done, id: "1-3")
    try yard.tell("c.json", .cancelled, id: "1-4")
    try yard.put("d.json", in: .paused)
    try yard.tell("d.json", .active, id: "1-5")
    yard.folder.write("spool/progress/e.json", "")
    func orphan(_ name: String) throws -> Orphan { try yard.spool.orphan(Name(name)) }
    guard case .owesCleanUp(let word) = try orphan("a.json") else {
      Issue.record("a")
      return
    }
    guard case .finished = try orphan("b.json"), case .finished = try orphan("c.json") else {
      Issue.record("b, c")
      return
    }
    #expect(try orphan("d.json") == .no && orphan("e.json") == .no && orphan("f.json") == .no)
    // Settled only while it is the judged one.
    var settled = word
    settled.state = .cancelled
    try yard.tell("a.json", .active, id: "9-9")
    #expect(try !yard.spool.settle(Name("a.json"), judged: word, as: settled))
    #expect(yard.word("a.json")?.id == "9-9")
  }
}
