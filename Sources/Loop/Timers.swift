internal import System

/// What `after` gives, to cancel it by.
package struct TimerID: Hashable, Sendable { let raw: Int }

/// Deadlines with what to do then, earliest first, in the order of their setting when equal.
struct Timers {
  private var heap: [(at: Int64, id: Int)] = []
  /// Cancelled ones are gone here at once and from the heap later.
  private var bodies: [Int: Timer] = [:]
  private struct Timer {
    var at: Int64
    var process: Int
    var body: @OnLoop () -> Void
  }
  private var lastID = 0

  var isEmpty: Bool { bodies.isEmpty }

  mutating func add(_ at: Int64, _ process: Int, _ body: @escaping @OnLoop () -> Void) -> TimerID {
    lastID += 1
    bodies[lastID] = Timer(at: at, process: process, body: body)
    push((at, lastID))
    return TimerID(raw: lastID)
  }
  @discardableResult
  mutating func take(_ id: TimerID) -> (body: @OnLoop () -> Void, process: Int)? {
    bodies.removeValue(forKey: id.raw).map { ($0.body, $0.process) }
  }
  /// Which simulated process set it.
  func owner(of id: TimerID) -> Int? { bodies[id.raw]?.process }
  /// Takes back what `due` gave: it is due again.
  mutating func putBack(_ id: TimerID) {
    if let timer = bodies[id.raw] { push((timer.at, id.raw)) }
  }
  mutating func removeAll(of process: Int) {
    for (id, timer) in bodies where timer.process == process { bodies[id] = nil }
  }
  /// When the first one is due.
  var next: Int64? {
    mutating get {
      while let first = heap.first, bodies[first.id] == nil { pop() }
      return heap.first?.at
    }
  }
  mutating func cancel(_ id: TimerID) {
    if take(id) == nil { return }
    // The heap's dead entries are at most as many as the living, but for a few.
    if heap.count > 64 && heap.count > 2 * bodies.count {
      let old = heap
      heap = []
      for entry in old where bodies[entry.id] != nil { push(entry) }
    }
  }
  /// Those whose time has come, taken off the heap; `take` gives their bodies.
  mutating func due(_ now: Int64) -> [TimerID] {
    var ids: [TimerID] = []
    while let first = heap.first, first.at <= now {
      pop()
      if bodies[first.id] != nil { ids.append(TimerID(raw: first.id)) }
    }
    return ids
  }
  /// For poll(2): milliseconds to the first one, rounded up so that it isn't woken for early.
  mutating func timeout(_ now: Int64) -> Int32 {
    while let first = heap.first, bodies[first.id] == nil { pop() }
    guard let first = heap.first else { return Self.forever }
    if first.at <= now { return 0 }
    let (left, overflow) = first.at.subtractingReportingOverflow(now)
    if overflow { return Self.forever }
    return Int32(min((left - 1) / millisecond + 1, Int64(Self.forever)))
  }
  /// `curl_multi_poll` knows no endless wait; this is 24 days.
  private static let forever = Int32.max

  private func before(_ a: Int, _ b: Int) -> Bool {
    (heap[a].at, heap[a].id) < (heap[b].at, heap[b].id)
  }
  private mutating func push(_ entry: (at: Int64, id: Int)) {
    heap.append(entry)
    var i = heap.count - 1
    while i > 0, before(i, (i - 1) / 2) {
      heap.swapAt(i, (i - 1) / 2)
      i = (i - 1) / 2
    }
  }
  private mutating func pop() {
    heap.swapAt(0, heap.count - 1)
    heap.removeLast()
    var i = 0
    while true {
      var least = i
      for child in [2 * i + 1, 2 * i + 2] where child < heap.count && before(child, least) {
        least = child
      }
      if least == i { return }
      heap.swapAt(i, least)
      i = least
    }
  }
}

extension Loop {
  /// Calls `body` at a monotonic time (nanoseconds, `Clock.monotonic`), up to a millisecond late;
  /// in the past: in the next turn.
  @OnLoop @discardableResult
  package func after(_ monotonic: Int64, _ body: @escaping @OnLoop () -> Void) -> TimerID {
    timers.add(monotonic, process, body)
  }
  /// Ends a timer; nothing happens when it has run already.
  @OnLoop package func cancel(_ id: TimerID) { timers.cancel(id) }

  /// Returns at a monotonic time (nanoseconds), or at once with an error when the task is
  /// cancelled.
  @OnLoop package func sleep(until monotonic: Int64) async throws(CancellationError) {
    let sleeper = Once<Bool>()
    let timer = after(monotonic) { sleeper.end(true) }
    let slept = await withTaskCancellationHandler {
      await sleeper.value()
    } onCancel: {
      onLoop { sleeper.end(false) }
    }
    cancel(timer)
    if !slept { throw CancellationError() }
  }
}

/// A result that several may want to give, of which the first one counts; awaited once.
@OnLoop package final class Once<T: Sendable> {
  private var result: T?
  private var waiting: CheckedContinuation<T, Never>?
  /// No result yet.
  package init() {}
  /// Whether there is a result.
  package private(set) var isOver = false

  /// Gives the result; what comes after the first is dropped.
  package func end(_ value: T) {
    if isOver { return }
    isOver = true
    if let waiting {
      self.waiting = nil
      waiting.resume(returning: value)
    } else {
      result = value
    }
  }
  /// Waits for the result; to be called once.
  package func value() async -> T {
    if let result {
      self.result = nil
      return result
    }
    return await withCheckedContinuation { waiting = $0 }
  }
}
