internal import CCurl
internal import Glibc
internal import Synchronization
internal import System

/// The isolation of everything that concerns jobs: one thread, `Loop.shared`'s.
@globalActor package actor OnLoop {
  /// The actor that stands for the loop's thread.
  package static let shared = OnLoop()
  /// `Loop.shared` itself.
  package nonisolated var unownedExecutor: UnownedSerialExecutor {
    unsafe Loop.shared.asUnownedSerialExecutor()
  }
  /// Runs a body that is on the loop's thread already, for C callbacks; a trap anywhere else.
  package static nonisolated func assume<T, E: Error>(_ body: @OnLoop () throws(E) -> T)
    throws(E) -> T
  {
    Loop.shared.checkIsolated()
    typealias Plain = () throws(E) -> T
    return try withoutActuallyEscaping(body) { body throws(E) in
      try unsafe unsafeBitCast(body, to: Plain.self)()
    }
  }
}

/// One thread's loop: it waits in one `curl_multi_poll` for curl's sockets, watched descriptors,
/// timers and other threads' wake-ups, and it is the executor of `OnLoop`.
///
/// It is a task executor too: a continuation resumed by a plain serial executor would take the way
/// through the global pool. Start root tasks with `start`; the children of task groups inherit it.
/// Nothing here wakes up by itself: without transfers, timers and events it sleeps.
@safe package final class Loop: SerialExecutor, TaskExecutor, @unchecked Sendable {
  /// The process's loop.
  package static let shared = Loop()

  /// What is to be run on the loop's thread.
  enum Work {
    case job(UnownedJob)
    case body(@Sendable @OnLoop () -> Void)
  }
  /// What other threads hand in. `asleep`: the loop has looked, found nothing and may be in poll,
  /// so that whoever adds the first piece owes it a wake-up.
  private struct Mail {
    var work: [Work] = []
    var asleep = false
    var stopping = false
  }
  private let mail = Locked(Mail())
  private let thread = Atomic<pthread_t>(0)

  // What follows belongs to the loop's thread.
  let multi: UnsafeMutableRawPointer
  private var local = WorkQueue()
  var timers = Timers()
  var watched: [curl_waitfd] = []
  var ready: [Int32: @OnLoop () -> Void] = [:]
  var transfers: [Int: Running] = [:]
  var lastID = 0
  /// libcurl is being run: its handles must not be removed from within its callbacks.
  package internal(set) var isPerforming = false

  /// So many pieces of work between two looks at the network.
  private static let workPerTurn = 256
  /// So many turns without asking the kernel for events while there is work.
  private static let turnsWithoutPoll = 8

  private init() {
    curl_global_init(Int(CURL_GLOBAL_ALL))
    unsafe multi = unsafe curl_multi_init()
    // Connections that are kept for the next transfer to the same server.
    unsafe ccurl_multi_long(multi, CURLMOPT_MAXCONNECTS, 64)
  }

  // MARK: Executor

  package func enqueue(_ job: consuming ExecutorJob) { add(.job(UnownedJob(job))) }

  private func add(_ work: Work) {
    if isHere {
      local.append(work, process)
      return
    }
    let wake = mail.with { mail in
      mail.work.append(work)
      defer { mail.asleep = false }
      return mail.asleep
    }
    if wake { unsafe curl_multi_wakeup(multi) }
  }
  /// Whether the caller is on the loop's thread.
  package var isHere: Bool { thread.load(ordering: .relaxed) == pthread_self() }
  package func checkIsolated() { precondition(isHere, "not on the loop's thread") }
  package func isIsolatingCurrentContext() -> Bool? { isHere }
  package func asUnownedSerialExecutor() -> UnownedSerialExecutor {
    unsafe UnownedSerialExecutor(ordinary: self)
  }
  package func asUnownedTaskExecutor() -> UnownedTaskExecutor {
    unsafe UnownedTaskExecutor(ordinary: self)
  }

  /// Runs `body` on the loop: at once when the caller is there already, else as soon as it can.
  package func onLoop(_ body: @escaping @Sendable @OnLoop () -> Void) {
    if isHere { OnLoop.assume(body) } else { add(.body(body)) }
  }
  /// Runs `body` on the loop later, never from within this call.
  package func post(_ body: @escaping @Sendable @OnLoop () -> Void) { add(.body(body)) }
  /// The same as a simulated process.
  package func post(as process: Int, _ body: @escaping @Sendable @OnLoop () -> Void) {
    local.append(.body(body), process)
  }

  /// Starts a root task that stays on the loop's thread from its first to its last line.
  @discardableResult
  package func start<T: Sendable>(_ body: @escaping @Sendable @OnLoop () async -> T)
    -> Task<T, Never>
  {
    Task(executorPreference: self) { await body() }
  }
  /// The same for a body that throws.
  @discardableResult
  package func start<T: Sendable>(_ body: @escaping @Sendable @OnLoop () async throws -> T)
    -> Task<T, any Error>
  {
    Task(executorPreference: self) { try await body() }
  }

  // MARK: Running

  /// Makes the calling thread the loop's until `stop`; it may be run again afterwards. What is
  /// handed in meanwhile waits for the next run.
  package func run() {
    thread.store(pthread_self(), ordering: .relaxed)
    var turns = 0
    while !collect() {
      runWork()
      if !transfers.isEmpty { perform() }
      if local.isEmpty || turns >= Self.turnsWithoutPoll {
        turns = 0
        wait()
      } else {
        turns += 1
      }
    }
    thread.store(0, ordering: .relaxed)
  }

  /// Bounded, so that work that begets work can't keep the network waiting.
  private func runWork() {
    let serial = unsafe asUnownedSerialExecutor()
    let task = unsafe asUnownedTaskExecutor()
    for _ in 0..<Self.workPerTurn {
      guard let (work, process) = local.next() else { return }
      self.process = process
      if deadProcesses.contains(process) { continue }
      switch work {
      case .job(let job): unsafe job.runSynchronously(isolatedTo: serial, taskExecutor: task)
      case .body(let body): OnLoop.assume(body)
      }
    }
  }

  // MARK: Simulation

  /// Which of several simulated processes runs right now; what it starts is its own. 0: none.
  package var process = 0
  private var deadProcesses: Set<Int> = []

  /// What a simulated process has begun never goes on: neither its timers nor its tasks.
  package func kill(_ process: Int) {
    deadProcesses.insert(process)
    timers.removeAll(of: process)
  }

  /// Makes the calling thread the loop's for a simulation, which has the process to itself.
  package func beginSimulation() { thread.store(pthread_self(), ordering: .relaxed) }

  /// Forgets all work, timers and processes, for the next simulation.
  package func endSimulation() {
    (local, timers, deadProcesses, process) = (WorkQueue(), Timers(), [], 0)
  }

  /// Runs what is ready now, without ever waiting, and gives the time of the next timer.
  package func simulate() -> Int64? {
    _ = collect()
    while !local.isEmpty { runWork() }
    for id in timers.due(Clock.monotonic()) { runTimer(id) }
    return local.isEmpty ? timers.next : 0
  }

  private func runTimer(_ id: TimerID) {
    guard let (body, process) = timers.take(id), !deadProcesses.contains(process) else { return }
    self.process = process
    OnLoop.assume(body)
  }

  /// Runs timers of other processes that are due, within a call of the running one: plain bodies may
  /// come between any two of its calls, as on another core.
  package func interleave() {
    let own = process
    for id in timers.due(Clock.monotonic()) {
      if timers.owner(of: id) == own { timers.putBack(id) } else { runTimer(id) }
    }
    process = own
  }

  /// Makes `run` return soon; callable from any thread. Work and timers stay for the next run.
  package func stop() {
    mail.with { $0.stopping = true }
    unsafe curl_multi_wakeup(multi)
  }

  /// Takes over what other threads handed in; true when the loop is to stop.
  private func collect() -> Bool {
    let (work, stopping) = mail.with { mail in
      let all = (mail.work, mail.stopping)
      if !mail.work.isEmpty { mail.work = [] }
      mail.stopping = false
      return all
    }
    local.append(contentsOf: work, process)
    return stopping
  }

  /// Waits for events, for no time at all while there is work, then runs what has become due.
  private func wait() {
    let timeout = local.isEmpty ? timers.timeout(Clock.monotonic()) : 0
    // Decided under the lock: work added before it makes this a mere look, work added behind it
    // sees `asleep` and wakes the poll.
    let mayWait = mail.with { mail in
      mail.asleep = mail.work.isEmpty && !mail.stopping
      return mail.asleep
    }
    unsafe watched.withUnsafeMutableBufferPointer { buffer in
      _ = unsafe curl_multi_poll(
        multi, buffer.baseAddress, UInt32(buffer.count), mayWait ? timeout : 0, nil)
    }
    mail.with { $0.asleep = false }
    // A handler may watch and unwatch: collected first, looked up when its turn comes.
    var events: [Int32] = []
    for i in watched.indices where watched[i].revents != 0 {
      events.append(watched[i].fd)
      // libcurl leaves it as it was when nothing happens.
      watched[i].revents = 0
    }
    for fd in events {
      if let ready = ready[fd] { OnLoop.assume(ready) }
    }
    if timers.isEmpty { return }
    for id in timers.due(Clock.monotonic()) { runTimer(id) }
  }
}

/// A first-in, first-out queue of work.
private struct WorkQueue {
  private var items: [(work: Loop.Work, process: Int)] = []
  private var head = 0
  var isEmpty: Bool { head == items.count }
  mutating func append(_ work: Loop.Work, _ process: Int) { items.append((work, process)) }
  mutating func append(contentsOf work: [Loop.Work], _ process: Int) {
    for one in work { items.append((one, process)) }
  }
  mutating func next() -> (work: Loop.Work, process: Int)? {
    if head == items.count {
      if head > 0 {
        items.removeAll(keepingCapacity: head < 4096)
        head = 0
      }
      return nil
    }
    defer { head += 1 }
    return items[head]
  }
}

extension Loop {
  /// Descriptors: `ready` is called in each turn in which `fd` is readable or hung up
  /// (level-triggered POLLIN, poll(2)). Call `unwatch` before `fd` is closed.
  @OnLoop package func watch(_ fd: Int32, _ ready: @escaping @OnLoop () -> Void) {
    if self.ready.updateValue(ready, forKey: fd) == nil {
      watched.append(curl_waitfd(fd: fd, events: Int16(CURL_WAIT_POLLIN), revents: 0))
    }
  }
  /// Ends `watch`; nothing happens when `fd` isn't watched.
  @OnLoop package func unwatch(_ fd: Int32) {
    if ready.removeValue(forKey: fd) != nil { watched.removeAll { $0.fd == fd } }
  }
}
