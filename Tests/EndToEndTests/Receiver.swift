internal import Glibc
internal import System
internal import TestKit

/// A server that writes down each request and answers as a rule says.
final class Receiver: Sendable {
  struct Seen: Sendable {
    /// Monotonic nanoseconds at which its body was there, or its connection ended.
    var at: Int64 = 0
    /// The same for its head.
    var began: Int64 = 0
    /// The n-th request to its target, from 1.
    var time = 1
    var method = ""
    var target = ""
    var key: String?
    var authorization: String?
    var length = 0
    var body: [UInt8] = []
    var isWhole: Bool { body.count == length }
  }
  enum Answer {
    case status(String, headers: String = "")
    /// The connection is cut without an answer.
    case cut
    /// It answers after so many seconds.
    case late(Double, String)
    /// It answers when something has happened, after 30 seconds at most.
    case when(@Sendable () -> Bool, String)
  }

  private let server: FaultServer
  private let all: Locked<[Seen]>
  private let busy: Locked<(now: Int, most: Int)>

  /// `receiveBuffer`: small for one that lets the client feel how slowly it reads.
  init(
    port: Int = 0, keeping: Bool = true, receiveBuffer: Int32? = nil,
    _ rule: @escaping @Sendable (Seen) -> Answer
  ) {
    let all = Locked<[Seen]>([])
    let times = Locked<[String: Int]>([:])
    let busy = Locked((now: 0, most: 0))
    (self.all, self.busy) = (all, busy)
    server = FaultServer(port: port, receiveBuffer: receiveBuffer) { connection in
      while let head = connection.readHead() {
        busy.with {
          $0.now += 1
          $0.most = max($0.most, $0.now)
        }
        // Over before the answer goes out: the next one may begin before this thread goes on.
        var isOver = false
        func rest() {
          if !isOver { busy.with { $0.now -= 1 } }
          isOver = true
        }
        defer { rest() }
        var seen = Seen()
        seen.began = Clock.monotonic()
        (seen.method, seen.target, seen.length) = (head.method, head.target, head.length)
        seen.key = head.header("idempotency-key")
        seen.authorization = head.header("authorization")
        let body = connection.read(head.length)
        seen.body = keeping ? body : []
        let isWhole = body.count == head.length
        seen.at = Clock.monotonic()
        seen.time = times.with {
          let n = ($0[head.target] ?? 0) + 1
          $0[head.target] = n
          return n
        }
        let final = seen
        all.with { $0.append(final) }
        if !isWhole { return }
        switch rule(final) {
        case .cut: return connection.reset()
        case .status(let status, let headers):
          rest()
          connection.send("HTTP/1.1 \(status)\r\n\(headers)Content-Length: 0\r\n\r\n")
        case .when(let condition, let status):
          for _ in 0..<15_000 where !condition() { usleep(2_000) }
          rest()
          connection.send("HTTP/1.1 \(status)\r\nContent-Length: 0\r\n\r\n")
        case .late(let seconds, let status):
          usleep(UInt32(seconds * 1e6))
          rest()
          connection.send("HTTP/1.1 \(status)\r\nContent-Length: 0\r\n\r\n")
        }
      }
    }
  }
  deinit { server.stop() }

  var url: String { server.url }
  var port: Int { server.port }
  var seen: [Seen] { all.with { $0 } }
  func seen(_ target: String) -> [Seen] { seen.filter { $0.target == target } }
  /// Requests that were under way together, at most.
  var most: Int { busy.with { $0.most } }
  func stop() { server.stop() }
}
