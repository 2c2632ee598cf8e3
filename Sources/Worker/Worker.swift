internal import CLinux
internal import Configuration
package import Destinations
internal import Glibc
internal import Jobs
package import Loop
internal import Scheduling
package import Spool
internal import System
internal import Transfer

/// Runs the jobs of one spool: the only place that knows both the spool and the network.
///
/// Everything here is on the loop's thread. What blocks (syncs, slow disks) is handed to other
/// threads, and comes back as a call on the loop.
@OnLoop package final class Worker {
  let options: Options
  let spool: Spool
  let presence: Presence
  var log: Log
  var configuration: Configuration
  var resolver: Resolver
  let rates = RateLimits()
  var sources: SourceOpener
  let committer: Committer?
  let host: String
  let boot: String

  // Scheduling.
  var queue = Queue()
  var limits: Limits
  /// Slots over all workers, by destination; -1: of everything.
  var slots: [Int32: Slots] = [:]
  var slotTimer: TimerID?
  var circuits: [Int32: Circuit] = [:]
  var lines = Interner()
  /// When a destination last took a file (wall clock).
  var lastSuccess: [Int32: Int64] = [:]
  /// Jobs that their destination refused, when, and how often while it took others.
  var bounced: [Name: (id: String, at: Int64, strikes: Int)] = [:]
  /// When a destination was last found unreachable (wall clock): what was cut then is given back.
  var wentAway: [Int32: Int64] = [:]
  var random: Randomness
  /// 1, or 64 when other workers take from the same queue.
  var window = 1

  // Jobs in this worker's hands.
  var running: [Name: RunningJob] = [:]
  /// Ended, but not committed yet.
  var uncommitted = 0
  let mostUncommitted: Int
  /// Of these, those whose end couldn't be written so far.
  var stuck = 0
  /// A job that has to run alone waits until nobody else runs.
  var waitsForQuiet: Name?
  /// Jobs that wait for the first one of their `dedupe` key, by that.
  var keyWaiters: [String: Set<Name>] = [:]
  var lastKeySweep = Clock.monotonic()
  /// Further lanes of running jobs that wait for a slot.
  var laneWaiters: [(line: Int32, resume: Once<Bool>)] = []

  // What keeps it from claiming.
  var isStopping = false
  var isHeld = false
  var hasRoom = true
  var space: Space?
  var lastSpaceCheck: Int64 = 0
  var firstScanIsOver = false
  var pumpTimer: TimerID?
  var pumpAt = Int64.max
  var isPumping = false

  // Watching.
  var watcher: Watcher?
  var scan: ScanState?
  var nextScan: Int64 = 0
  var settling: Set<Name> = []
  var settleTimer: TimerID?
  /// Files that are no jobs, told once: why.
  var reported: [Name: String] = [:]
  /// How often in a row its lock was found taken.
  var lockedTries: [Name: Int] = [:]
  /// Since when an undecodable file has been as it is (monotonic nanoseconds).
  var quiet: [Name: (size: Int64, modified: Int64, since: Int64)] = [:]
  var tickTimer: TimerID?
  var ticksSlowly = false
  var orphans: [Name: (sidecar: Sidecar, since: Int64)] = [:]
  var janitor: JanitorState?
  var nextJanitor: Int64 = 0
  var isReadingAhead = false

  // What happened.
  package internal(set) var doneCount = 0
  package internal(set) var failedCount = 0
  var bytesSent: Int64 = 0
  var fatal: String?
  let ended = Once<Int32>()
  var lastReport: Int64 = 0
  var reportIsDue = false
  var startedAt = Clock.wall()
  var drainChecks = 0

  let surroundings: Surroundings

  /// What a worker finds around it, so that a simulation can give it another world.
  package struct Surroundings {
    package var random: Randomness
    package var host: String
    package var boot: String
    /// The destination of a configured name, in the place of a real one.
    package var destination: (@OnLoop (String) -> any Destination)?
    package init(
      random: Randomness = Randomness { SystemRandomNumberGenerator.draw() },
      host: String = hostName(), boot: String = bootID()
    ) {
      (self.random, self.host, self.boot) = (random, host, boot)
    }
  }

  package init(
    _ options: Options, _ spool: Spool, _ presence: Presence, _ log: Log,
    in surroundings: Surroundings = Surroundings()
  ) {
    (self.options, self.spool, self.presence) = (options, spool, presence)
    self.surroundings = surroundings
    random = surroundings.random
    let configuration = options.effective(options.configuration)
    self.configuration = configuration
    self.log = log.with(configuration.redactor)
    resolver = Resolver(
      configuration, durable: spool.durability == .full, rates: rates,
      instead: surroundings.destination)
    sources = SourceOpener(roots: configuration.roots, calls: spool.calls)
    committer = spool.durability == .full ? Committer(spool) : nil
    limits = Limits(.init(total: configuration.concurrency))
    mostUncommitted = max(4, min(1000, Int(raisedDescriptorLimit() / 4)))
    (host, boot) = (surroundings.host, surroundings.boot)
  }

  /// Works until it is stopped, or with `drain` until there is nothing left; the exit code.
  package func run() async -> Int32 {
    Transfer.userAgent = "upspool/\(options.version)"
    readLimits()
    log.say(
      "start", "worker \(spool.uuid) on \(spool.path), \(configuration.concurrency) at once",
      [("worker", .text(spool.uuid)), ("spool", .text(spool.path))])
    watch()
    // After the watch, so that no release falls in between.
    isHeld = spool.isHeld()
    lookForOthers()
    recoverLost()
    startScan()
    scheduleTick()
    report()
    let code = await ended.value()
    presence.leave()
    committer?.close()
    log.say(
      "stop", "\(doneCount) done, \(failedCount) failed, \(formatBytes(bytesSent)) sent",
      [
        ("done", .number(Int64(doneCount))), ("failed", .number(Int64(failedCount))),
        ("bytes", .number(bytesSent)),
      ])
    return code
  }

  /// No new claims; what runs gets the grace time, then goes back to pending/. A second call: at
  /// once.
  package func stop() {
    if isStopping {
      for job in running.values { job.stop(.drained) }
      return
    }
    isStopping = true
    log.say("stopping", "no new jobs; \(running.count) running get \(formatSpan(options.grace))")
    Loop.shared.after(Clock.monotonic() + options.grace) {
      for job in self.running.values { job.stop(.drained) }
    }
    // A hung disk or a full one keeps nobody for ever: what couldn't be written lies in active/, and
    // recovery sends it again.
    Loop.shared.after(Clock.monotonic() + options.grace + 5 * second) {
      if self.ended.isOver { return }
      self.log.say(
        "stopping", "\(self.uncommitted + self.running.count) jobs stay in active/ unfinished")
      self.ended.end(1)
    }
    endIfIdle()
  }

  /// Reads the configuration again; what runs goes on.
  package func reload() {
    guard let path = options.configurationPath else {
      log.say("reload", "there is no configuration file to read")
      return
    }
    do throws(Malformed) {
      configuration = options.effective(try Configuration.load(path))
    } catch {
      log.say("reload", "\(path): \(error); the configuration stays as it was")
      return
    }
    log = log.with(configuration.redactor)
    rates.apply(configuration)
    resolver = Resolver(
      configuration, durable: spool.durability == .full, rates: rates,
      instead: surroundings.destination)
    sources = SourceOpener(roots: configuration.roots, calls: spool.calls)
    // A corrected password or address deserves a try at once.
    circuits.removeAll()
    readLimits()
    reported.removeAll()
    let now = Clock.wall()
    // Those that back off say so when they are read again; those that waited for it may go.
    for name in queue.names(.parked) { queue.park(name, until: now) }
    for name in queue.names(.waiting) { queue.wait(name, until: now) }
    log.say("reload", "\(path) was read again")
    wakeLanes()
    pumpSoon()
    report()
  }

  func readLimits() {
    var values = Limits.Values(total: configuration.concurrency)
    for (name, destination) in configuration.destinations {
      if let own = destination.concurrency { values.destinations[lines.number(name)] = own }
    }
    limits.change(values)
    readSlots()
  }

  /// It was told to stop, or has.
  package var isEnding: Bool { isStopping || ended.isOver }

  /// This worker's name for people: host and UUID.
  var worker: String { "\(host)/\(spool.uuid)" }

  /// Ends the process's work when a stop was asked for and nothing is in its hands.
  func endIfIdle() {
    if ended.isOver { return }
    guard running.isEmpty, uncommitted == 0 else { return }
    if let fatal {
      log.say("error", fatal)
      ended.end(1)
    } else if isStopping {
      ended.end(0)
    } else if options.drain {
      checkDrained()
    }
  }

  /// The spool can't be worked on any more: what runs is given back as far as it goes.
  func fail(_ text: String) {
    if fatal != nil { return }
    fatal = text
    isStopping = true
    for job in running.values { job.stop(.drained) }
    Loop.shared.after(Clock.monotonic() + 5 * second) {
      if !self.ended.isOver {
        self.log.say("error", text)
        self.ended.end(1)
      }
    }
    endIfIdle()
  }
}

/// A source of random numbers that can be another one than the system's.
package struct Randomness: RandomNumberGenerator {
  private let draw: () -> UInt64
  package init(_ draw: @escaping () -> UInt64) { self.draw = draw }
  package func next() -> UInt64 { draw() }
}
extension SystemRandomNumberGenerator {
  static func draw() -> UInt64 {
    var system = SystemRandomNumberGenerator()
    return system.next()
  }
}

/// Gives small numbers to names of destinations.
struct Interner {
  private var numbers: [String: Int32] = [:]
  private(set) var names: [String] = []
  mutating func number(_ name: String) -> Int32 {
    if let number = numbers[name] { return number }
    let number = Int32(names.count)
    numbers[name] = number
    names.append(name)
    return number
  }
  func name(_ number: Int32) -> String { names[Int(number)] }
}

/// Raises this process's descriptor limit to the most that it may have, and tells it.
private func raisedDescriptorLimit() -> UInt64 {
  var limit = rlimit()
  unsafe getrlimit(__rlimit_resource_t(7), &limit)
  limit.rlim_cur = limit.rlim_max
  unsafe setrlimit(__rlimit_resource_t(7), &limit)
  unsafe getrlimit(__rlimit_resource_t(7), &limit)
  return UInt64(limit.rlim_cur)
}

package func hostName() -> String {
  var buffer = [CChar](repeating: 0, count: 256)
  unsafe gethostname(&buffer, 255)
  return Name(bytes: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }).description
}

/// Which boot of this machine it is; "" where that can't be told.
package func bootID() -> String {
  guard let file = try? Calls.live.open(Name("/proc/sys/kernel/random/boot_id"), O_RDONLY),
    let bytes = try? Calls.live.read(file.raw, upTo: 36)
  else { return "" }
  return String(decoding: bytes.prefix(8), as: UTF8.self)
}
