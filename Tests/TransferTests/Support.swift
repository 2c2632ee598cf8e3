internal import Glibc
internal import Loop
internal import System
internal import TestKit
internal import Testing
internal import Transfer

/// They measure times and share a loop and a server: one after the other.
@Suite(.serialized) enum Transfers {}

/// One nginx for all suites.
let nginx = Nginx.shared

extension Source {
  /// A file as the worker would open it.
  static func open(_ path: String, isLocal: Bool = true, calls: Calls = .live) throws -> Source {
    let file = try Calls.live.open(Name(path), O_RDONLY)
    let facts = try Calls.live.facts(of: file.raw)
    return Source(file, facts: facts, isLocal: isLocal, calls: calls)
  }
}

/// Performs a request on the loop.
func perform(_ request: Request) async throws -> Response {
  try await onTheLoop { try await Transfer.perform(request) }
}

/// The error that a request ends with; nil when there is an answer.
func failure(_ request: Request) async throws -> TransferError? {
  try await onTheLoop { () -> TransferError? in
    do throws(TransferError) {
      _ = try await Transfer.perform(request)
      return nil
    } catch {
      return error
    }
  }
}

/// Waits until a test sets it.
final class Gate: Sendable {
  private let box = Locked(false)
  func open() {
    box.with { $0 = true }
    box.broadcast()
  }
  /// False when `seconds` are over first.
  @discardableResult
  func wait(seconds: Double = 20) -> Bool {
    box.wait(
      until: { $0 }, deadline: Clock.monotonic() + Int64(seconds * 1e9), then: { $0 })
  }
  var isOpen: Bool { box.with { $0 } }
  /// The same as `wait` without holding a thread.
  func opened() async -> Bool { await eventually(20) { isOpen } }
}

/// Cancels a task and gives the time in nanoseconds until it has ended, as the loop sees it.
func timeToCancel<T: Sendable>(_ task: Task<T, any Error>) async throws -> Int64 {
  let began = Clock.monotonic()
  task.cancel()
  return try await onTheLoop {
    _ = await task.result
    return Clock.monotonic() - began
  }
}

let mebibyte = 1 << 20
