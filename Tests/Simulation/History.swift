internal import Configuration
internal import Glibc
internal import Jobs
internal import Loop
internal import Spool
internal import System
internal import Worker

/// One history: a spool, up to three workers, servers, people and faults, all from one seed.
@OnLoop final class History {
  let seed: UInt64
  let world: World
  private let people: People
  private var servers: [String: Server] = [:]
  private var running: [Process] = []
  private var workers: [Int: Worker] = [:]
  private var boot = 1
  private var monotonic: Int64 = 1_000 * second
  /// The wall clock is so far ahead of the other.
  private var offset: Int64 = 1_800_000_000 * second
  private let configuration: Configuration
  private let durability: Spool.Durability
  private let mayCutPower: Bool
  private(set) var simulated: Int64 = 0

  init(_ seed: UInt64, sabotage: Sabotage?, isTold: Bool) throws {
    self.seed = seed
    world = World(seed: seed, sabotage: sabotage)
    if isTold { world.log = [] }
    let world = world
    Clock.simulate(monotonic: monotonic, wall: monotonic + offset)
    SimulatedKernel.closes { world.close($0) }
    world.disk.hasNoReplace = !world.chance(5)
    world.disk.hasBirthTimes = !world.chance(5)
    world.disk.syncsNames = world.chance(2)
    world.hasNoEvents = world.chance(6)
    world.losesEvents = world.chance(6)
    world.usesSlots = world.chance(3)
    world.usesKeys = world.chance(3)
    world.mostJobs = 2 + world.below(8)
    (world.attempts, world.crashes) = (1 + world.below(4), 2 + world.below(4))
    durability = world.chance(5) ? .process : .full
    mayCutPower = durability == .full && world.chance(2)
    world.disk.reusesNumbers = !mayCutPower
    world.faultRate = world.chance(3) ? 0 : world.pick([30, 100, 400])
    world.build()
    let slots = world.usesSlots ? #""slots": \#(World.slots), "# : ""
    let slotsOfA = world.usesSlots ? #", "slots": \#(World.slotsOfA)"# : ""
    let text = """
      {"concurrency": \(World.concurrency), "attempts": \(world.attempts), \(slots)
       "crashes": \(world.crashes), "destinations": {
        "a": {"type": "http", "url": "http://a.example/"\(slotsOfA)},
        "b": {"type": "http", "url": "http://b.example/", "concurrency": 2}}}
      """
    configuration = try Configuration.decode(
      Array(text.utf8), environment: { _ in nil }, readFile: { _ in [] })
    people = People(world)
    for name in ["a", "b"] { servers[name] = Server(name, world, resumes: name == "b") }
    Blocking.simulatedTime = { usual in 1 + Int64(world.below(Int(usual * 2))) }
    world.person = { [people] in OnLoop.assume { people.act() } }
  }

  // MARK: Workers

  private func startWorker() {
    let process = world.newProcess()
    world.say("worker \(process.number) starts")
    Loop.shared.process = process.number
    defer { Loop.shared.process = 0 }
    let calls = Calls(kernel: process)
    guard
      let spool = try? Spool("/spool", durability: durability, uuid: process.uuid, calls: calls),
      let presence = try? Presence(spool)
    else {
      process.die()
      return
    }
    var options = Options()
    options.spool = "/spool"
    options.configuration = configuration
    options.grace = 3 * second
    if world.chance(5) { options.poll = second / 2 }
    var surroundings = Worker.Surroundings(
      random: Randomness { self.world.random.next() }, host: "host", boot: "boot-\(boot)")
    let servers = servers
    surroundings.destination = { name in
      Client(key: name, server: servers[name]!, process: process)
    }
    let world = world
    let number = process.number
    let log = Log(
      .text, now: { 0 },
      write: { bytes in
        let line = String(decoding: bytes.dropFirst(21).dropLast(), as: UTF8.self)
        world.say("\(number) | \(line)")
        if line.contains(" in -") { world.broken("a span of less than nothing: \(line)") }
      })
    let worker = Worker(options, spool, presence, log, in: surroundings)
    running.append(process)
    workers[process.number] = worker
    Loop.shared.start {
      _ = await worker.run()
      process.exit()
    }
    if world.chance(2) && world.isChaotic { process.fuse = 20 + world.below(3000) }
  }

  private func forgetTheDead() {
    running.removeAll { process in
      if process.isDead { workers[process.number] = nil }
      return process.isDead
    }
  }

  private func disturb() {
    switch world.below(30) {
    case 0...2: running.randomElement(using: &world.random)?.die()
    case 3:
      if let process = running.randomElement(using: &world.random),
        let worker = workers[process.number]
      {
        world.say("worker \(process.number) is told to stop")
        Loop.shared.process = process.number
        worker.stop()
        Loop.shared.process = 0
      }
    case 4: running.randomElement(using: &world.random)?.fuse = 1 + world.below(60)
    case 5:
      if mayCutPower {
        world.cutPower()
        boot += 1
      }
    case 6: world.disk.isFull.toggle()
    case 7, 8:
      guard let server = servers[world.pick(["a", "b"])] else { return }
      server.isAway.toggle()
    case 9: servers["a"]?.throttledUntil = Clock.wall() + Int64(world.below(5)) * second
    case 10: servers[world.pick(["a", "b"])]?.refusesSignIn.toggle()
    case 11: jump(Int64(world.below(7200) - 3600) * second)
    case 12: world.disk.syncAll()
    default: people.act()
    }
    forgetTheDead()
    if running.count < 3 && world.chance(3) { startWorker() }
  }

  private func jump(_ time: Int64) {
    world.count("clock jumps")
    world.say("the clock jumps by \(time / second) s")
    offset += time
    Clock.simulate(monotonic: monotonic, wall: monotonic + offset)
  }

  // MARK: Time

  /// Lets everything happen up to a time.
  private func run(until end: Int64) {
    var turns = 0
    while world.violation == nil {
      turns += 1
      if turns > 200_000 { world.broken("it spins") }
      guard let next = Loop.shared.simulate(), next <= end else { break }
      // Whatever runs takes time.
      monotonic = max(next, monotonic + 1_000)
      Clock.simulate(monotonic: monotonic, wall: monotonic + offset)
    }
    monotonic = max(monotonic, end)
    Clock.simulate(monotonic: monotonic, wall: monotonic + offset)
    Loop.shared.process = 0
  }

  /// Its whole course; nil, or what didn't hold.
  func run() -> String? {
    for _ in 0..<(1 + world.below(3)) { startWorker() }
    let steps = 20 + world.below(60)
    for _ in 0..<steps where world.violation == nil {
      run(until: monotonic + 1 + Int64(world.below(Int(world.chance(5) ? 3 * second : second / 4))))
      disturb()
      world.verify()
    }
    settle()
    simulated = monotonic - 1_000 * second
    for process in running { Loop.shared.kill(process.number) }
    return world.violation
  }

  /// No more trouble: everything comes to its end.
  private func settle() {
    guard world.violation == nil else { return }
    world.say("from here on nothing goes wrong")
    world.isChaotic = false
    world.disk.isFull = false
    for server in servers.values {
      (server.isAway, server.refusesSignIn, server.throttledUntil) = (false, false, 0)
    }
    for process in running { process.fuse = nil }
    people.release()
    forgetTheDead()
    if running.isEmpty || workers.values.allSatisfy(\.isEnding) { startWorker() }
    run(until: monotonic + 3 * second)
    for i in 0..<200 where world.violation == nil {
      if i < 3 { people.touchAll() }
      run(until: monotonic + Int64(i < 3 ? 5 : 60) * second)
      if world.active.entries.isEmpty
        && world.places[.pending]!.entries.values.allSatisfy({
          $0.life.map(waitsForAPaused) ?? false
        })
      {
        break
      }
      forgetTheDead()
      if running.isEmpty || workers.values.allSatisfy(\.isEnding) { startWorker() }
    }
    // Dead workers' files go with the next look at workers/, others' after an hour.
    jump(100 * 3600 * second)
    run(until: monotonic + 25 * second)
    world.verify()
    for place in [Place.pending, .active] {
      for name in world.places[place]!.entries.keys where world.violation == nil {
        let life = world.places[place]!.entries[name]!.life
        if let life, place == .pending, waitsForAPaused(life) { continue }
        world.broken("\(place)/\(name) never ends")
        world.say(String(decoding: life?.text ?? [], as: UTF8.self))
        world.say(String(decoding: world.progress.entries[name]?.content ?? [], as: UTF8.self))
      }
    }
    for (directory, name, inode) in allNames() where name.bytes.first == UInt8(ascii: ".") {
      // Who couldn't remove his own does it at his end.
      let isAlive = running.contains { !$0.isDead && name.description.contains($0.uuid) }
      if inode.life == nil && !isAlive { world.broken("the temporary \(directory)/\(name) stays") }
    }
    for life in world.lives where !life.isRemoved && world.violation == nil {
      // Two names of one file may have been moved apart.
      let all = world.whereabouts(life)
      guard let (place, _) = all.first, all.count == 1 else { continue }
      if place == .done && !life.isSent && !life.isCalledDone && life.dedupe == nil {
        world.broken("job \(life.number) lies in done/ and wasn't sent")
      }
    }
  }

  /// Its work is that of a job that a person has paused.
  private func waitsForAPaused(_ life: Life) -> Bool {
    life.dedupe != nil
      && world.places[.paused]!.entries.values.contains {
        $0.life !== life && $0.life?.dedupe == life.dedupe
      }
  }

  private func allNames() -> [(String, Name, Inode)] {
    let directories =
      Place.allCases.map { ($0.rawValue, world.places[$0]!) }
      + [("progress", world.progress!), ("workers", world.workers!)]
    return directories.flatMap { directory, inode in
      inode.entries.map { (directory, $0.key, $0.value) }
    }
  }
}
