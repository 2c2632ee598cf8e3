internal import Glibc
internal import System

/// Work that may block, such as disks and network filesystems, on threads of our own.
///
/// A new thread is made whenever none is idle, up to 256: one stuck in a hung filesystem delays
/// nobody. Idle ones end after 10 s. (The runtime's own pool has as many threads as cores; a few
/// stuck reads would end it.)
package enum Blocking {
  private struct Pool {
    var waiting: [@Sendable () -> Void] = []
    var head = 0
    var threads = 0
    var idle = 0
    var count: Int { waiting.count - head }
    mutating func next() -> (@Sendable () -> Void)? {
      if head == waiting.count { return nil }
      let body = waiting[head]
      head += 1
      if head == waiting.count || head >= 1024 {
        waiting.removeFirst(head)
        head = 0
      }
      return body
    }
  }
  private static let pool = Locked(Pool())
  private static let most = 256
  private static let idleTime = 10 * second

  /// Runs `body` on such a thread and returns its result where the caller was.
  package static func run<T: Sendable>(_ body: @escaping @Sendable () -> T) async -> T {
    await withCheckedContinuation { continuation in
      submit { continuation.resume(returning: body()) }
    }
  }
  /// The same for a body that throws.
  package static func run<T: Sendable, E: Error>(
    _ body: @escaping @Sendable () throws(E) -> T
  ) async throws(E) -> T {
    try await run { () -> Result<T, E> in Result(catching: body) }.get()
  }

  /// Runs `body` on such a thread, as soon as one is free.
  package static func submit(_ body: @escaping @Sendable () -> Void) {
    if Clock.isSimulated {
      OnLoop.assume {
        _ = Loop.shared.after(Clock.monotonic() + simulatedTime(millisecond)) { body() }
      }
      return
    }
    let isShort = pool.with { pool in
      pool.waiting.append(body)
      // An idle thread that has been signalled counts as idle until it has woken up.
      if pool.idle >= pool.count || pool.threads >= most { return false }
      pool.threads += 1
      return true
    }
    if !isShort {
      pool.signal()
      return
    }
    if startThread({ work() }) { return }
    // The system has no more threads: an existing one will come to it, and without any the caller
    // does it, since late is better than never.
    let alone = pool.with { pool in
      pool.threads -= 1
      return pool.threads == 0 ? pool.next() : nil
    }
    alone?()
    pool.signal()
  }

  /// In a simulation: how long a thread takes, by what it usually takes (nanoseconds).
  @OnLoop package static var simulatedTime: (Int64) -> Int64 = { $0 }

  private static func work() {
    while true {
      pool.with { $0.idle += 1 }
      let body = pool.wait(
        until: { $0.count > 0 }, deadline: Clock.monotonic() + idleTime,
        then: { pool in
          pool.idle -= 1
          let body = pool.next()
          if body == nil { pool.threads -= 1 }
          return body
        })
      guard let body else { return }
      body()
    }
  }
}
