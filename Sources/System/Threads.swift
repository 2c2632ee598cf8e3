internal import Glibc

/// A pthread mutex and condition around a value. (ThreadSanitizer understands pthreads; it reports
/// false races on `Synchronization.Mutex`.)
@safe package final class Locked<Value>: @unchecked Sendable {
  private let mutex: UnsafeMutablePointer<pthread_mutex_t>
  private let condition: UnsafeMutablePointer<pthread_cond_t>
  private var value: Value

  package init(_ value: sending Value) {
    unsafe mutex = .allocate(capacity: 1)
    unsafe condition = .allocate(capacity: 1)
    unsafe pthread_mutex_init(mutex, nil)
    var attributes = pthread_condattr_t()
    unsafe pthread_condattr_init(&attributes)
    unsafe pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
    unsafe pthread_cond_init(condition, &attributes)
    unsafe pthread_condattr_destroy(&attributes)
    self.value = value
  }
  deinit {
    unsafe pthread_mutex_destroy(mutex)
    unsafe pthread_cond_destroy(condition)
    unsafe mutex.deallocate()
    unsafe condition.deallocate()
  }

  /// Runs `body` alone.
  package func with<R: ~Copyable>(_ body: (inout Value) throws -> sending R) rethrows -> sending R {
    unsafe pthread_mutex_lock(mutex)
    defer { unsafe pthread_mutex_unlock(mutex) }
    return try body(&value)
  }

  /// Waits until `ready` says so or the monotonic `deadline` (nanoseconds) is over, then runs `body`.
  package func wait<R>(
    until ready: (Value) -> Bool, deadline: Int64? = nil, then body: (inout Value) -> sending R
  ) -> sending R {
    unsafe pthread_mutex_lock(mutex)
    defer { unsafe pthread_mutex_unlock(mutex) }
    while !ready(value) {
      guard let deadline else {
        unsafe pthread_cond_wait(condition, mutex)
        continue
      }
      let end = max(0, deadline)
      var time = timespec(tv_sec: Int(end / second), tv_nsec: Int(end % second))
      // Besides a time-out only a mistake is possible; repeating that would spin.
      if unsafe pthread_cond_timedwait(condition, mutex, &time) != 0 { break }
    }
    return body(&value)
  }

  /// Wakes one thread in `wait`.
  package func signal() { unsafe pthread_cond_signal(condition) }
  /// Wakes every thread in `wait`.
  package func broadcast() { unsafe pthread_cond_broadcast(condition) }
}

/// Starts a detached thread of our own; false when the system has no more.
@discardableResult
package func startThread(_ body: @escaping @Sendable () -> Void) -> Bool {
  final class Box: Sendable {
    let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
  }
  var thread = pthread_t()
  var attributes = pthread_attr_t()
  unsafe pthread_attr_init(&attributes)
  defer { unsafe pthread_attr_destroy(&attributes) }
  unsafe pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
  unsafe pthread_attr_setstacksize(&attributes, 512 << 10)
  let box = unsafe Unmanaged.passRetained(Box(body))
  let code = unsafe pthread_create(
    &thread, &attributes,
    { context in
      unsafe Unmanaged<Box>.fromOpaque(context!).takeRetainedValue().body()
      return nil
    }, box.toOpaque())
  if code != 0 { unsafe box.release() }
  return code == 0
}
