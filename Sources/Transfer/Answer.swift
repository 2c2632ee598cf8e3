/// A server's answer as it comes in, bounded in every direction.
struct Answer {
  /// The last answer's header lines, as they came.
  private(set) var head: [UInt8] = []
  /// Nothing has come yet.
  var isEmpty: Bool { lines == 0 && bodyBytes == 0 }
  /// The first bytes of its body.
  private(set) var body: [UInt8] = []
  /// The empty line that ends the head has come.
  private(set) var hasWholeHead = false
  private var lines = 0
  private var headBytes = 0
  private var bodyBytes: Int64 = 0
  private var isEndlessHead = false
  private var isEndlessBody = false

  private static let mostLines = 100
  private static let mostHeadBytes = 64 << 10
  private static let keptBody = 64 << 10
  private static let mostBodyBytes: Int64 = 64 << 20

  /// One header line; false when there are too many. Interim answers (1xx) are forgotten when the
  /// next status line comes, but they count, since a server might send nothing else.
  mutating func add(header line: UnsafeRawBufferPointer) -> Bool {
    lines += 1
    headBytes += line.count
    if lines > Self.mostLines || headBytes > Self.mostHeadBytes {
      isEndlessHead = true
      return false
    }
    if unsafe line.starts(with: "HTTP/".utf8) {
      head.removeAll(keepingCapacity: true)
      hasWholeHead = false
    } else {
      let isEnd = unsafe line.allSatisfy { $0 == 0x0d || $0 == 0x0a }
      if isEnd { hasWholeHead = true }
      unsafe head.append(contentsOf: line)
    }
    return true
  }
  /// Part of the body; false when it never seems to end.
  mutating func add(body bytes: UnsafeRawBufferPointer) -> Bool {
    bodyBytes += Int64(bytes.count)
    if bodyBytes > Self.mostBodyBytes {
      isEndlessBody = true
      return false
    }
    let room = Self.keptBody - body.count
    if room > 0 { unsafe body.append(contentsOf: bytes.prefix(room)) }
    return true
  }
  func failure(_ sent: Int64) -> TransferError? {
    if isEndlessHead { return .cut("the server's headers never end", sent: sent) }
    if isEndlessBody { return .cut("the server's answer never ends", sent: sent) }
    return nil
  }
}
