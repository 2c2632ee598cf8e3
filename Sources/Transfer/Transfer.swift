internal import CCurl
internal import CLinux
internal import Glibc
package import Loop
internal import System

/// One HTTP transfer by libcurl, as an async call.
@OnLoop package final class Transfer {
  /// The value of `User-Agent`, such as "upspool/1.0"; to be set before the first transfer.
  package static var userAgent = "upspool"

  /// Sends a request and returns the server's answer, whatever its status, but for redirects.
  ///
  /// When the task is cancelled the connection is reset at once: what the kernel still holds is
  /// not sent any more. `progress` gets the body bytes that the other side's kernel has
  /// acknowledged, about ten times a second, and all of them at the end; it may go back when
  /// it is sent again on a new connection, since a kept one had been given up by the server. A
  /// body goes out whole or it is an error: an early 2xx is `.cut`.
  package static func perform(
    _ request: Request, progress: (@OnLoop (Int64) -> Void)? = nil
  ) async throws(TransferError) -> Response {
    try request.check()
    var request = request
    var redirects = 0
    var isFresh = false
    while redirects <= mostRedirects {
      if Task.isCancelled { throw .cancelled }
      if let pacer = request.pacer { try await sleep(until: pacer.turn()) }
      let transfer = try Transfer(request, progress, isFresh: isFresh)
      let response: Response?
      do throws(TransferError) {
        response = try await transfer.run()
      } catch {
        transfer.leave()
        throw error
      }
      let target = response.flatMap { transfer.redirectTarget($0.status) }
      transfer.leave()
      guard let response else {
        isFresh = true
        continue
      }
      guard let target else { return response }
      redirects += 1
      guard request.followSafeRedirects, response.status == 307 || response.status == 308,
        try URL(target).origin == URL(request.url).origin
      else { throw .redirected(to: target) }
      request.url = target
    }
    throw .redirected(to: request.url)
  }
  private static let mostRedirects = 5

  // MARK: One request

  private enum End: Sendable {
    case answered(UInt32)
    case failed(TransferError)
  }
  static var live: [Int: Transfer] = [:]

  private let id: Int
  private let request: Request
  private let handle: Handle
  private let progress: (@OnLoop (Int64) -> Void)?
  private let ending = Once<End>()
  private var feed: Feed?
  /// Body bytes as announced to the server; a form's are known to libcurl alone.
  private var announced: Int64?
  private var answer = Answer()
  private var watch = Watch()
  private var isThrottled = false

  private init(
    _ request: Request, _ progress: (@OnLoop (Int64) -> Void)?, isFresh: Bool
  ) throws(TransferError) {
    (self.request, self.progress) = (request, progress)
    id = Loop.shared.nextID()
    handle = try Handle.take(request.shape, isFresh: isFresh)
  }
  /// The handle may serve others from here on.
  private func leave() {
    if isThrottled { request.throttle?.leave(id) }
    feed = nil
    handle.giveBack()
  }

  /// Nil: to be repeated on a fresh connection.
  private func run() async throws(TransferError) -> Response? {
    let easy = unsafe handle.easy.raw
    handle.set(headers: request.headers)
    unsafe ccurl_set_str(easy, CURLOPT_URL, request.url)
    for option in [
      CURLOPT_PRIVATE, CURLOPT_HEADERDATA, CURLOPT_WRITEDATA, CURLOPT_READDATA, CURLOPT_SEEKDATA,
    ] {
      unsafe ccurl_set_id(easy, option, id)
    }
    try await setBody()
    try await throttle()
    if Task.isCancelled { throw .cancelled }
    Transfer.live[id] = self
    defer { Transfer.live[id] = nil }
    watch.begin(request.timeouts, wantsProgress: progress != nil && feed != nil)
    Watchdog.cover(watch.interval)
    let isAdded = Loop.shared.add(handle.easy, id) { self.ending.end(.answered($0.rawValue)) }
    if !isAdded { throw .invalid("libcurl refuses the transfer") }
    let end = await withTaskCancellationHandler {
      await ending.value()
    } onCancel: {
      Loop.shared.onLoop { self.abort(.cancelled) }
    }
    switch end {
    case .failed(let error): throw error
    case .answered(let code): return try await finish(CURLcode(code))
    }
  }

  /// Ends it now. The kernel's send buffer is thrown away: no byte leaves after this.
  private func abort(_ error: TransferError) {
    if ending.isOver { return }
    if Loop.shared.isPerforming {
      Loop.shared.post { self.abort(error) }
      return
    }
    if let socket = Sockets.find(handle.easy) {
      var reset = linger(l_onoff: 1, l_linger: 0)
      unsafe setsockopt(
        socket, SOL_SOCKET, SO_LINGER, &reset, socklen_t(MemoryLayout<linger>.size))
    }
    Loop.shared.remove(id)
    ending.end(.failed(error))
  }

  private func setBody() async throws(TransferError) {
    let easy = unsafe handle.easy.raw
    switch request.body {
    case .none:
      announced = 0
      if request.shape.kind == .memory {
        unsafe ccurl_set_off(easy, CURLOPT_POSTFIELDSIZE_LARGE, 0)
        unsafe ccurl_set_str(easy, CURLOPT_COPYPOSTFIELDS, "")
      }
    case .bytes(let bytes):
      announced = Int64(bytes.count)
      unsafe ccurl_set_off(easy, CURLOPT_POSTFIELDSIZE_LARGE, Int64(bytes.count))
      unsafe bytes.withUnsafeBytes {
        _ = unsafe ccurl_set_ptr(easy, CURLOPT_COPYPOSTFIELDS, $0.baseAddress)
      }
    case .file(let source, let from, let count):
      announced = count
      if request.shape.kind == .memory {
        try await setSmall(source, from, Int(count))
      } else {
        feed = Feed(source, from: from, count: count) { [weak self] in self?.resume() }
        unsafe ccurl_set_off(easy, CURLOPT_INFILESIZE_LARGE, count)
      }
    case .form(let form):
      feed = Feed(form.source, from: 0, count: form.source.facts.size) { [weak self] in
        self?.resume()
      }
      handle.set(form: form, id: id)
    }
  }
  /// A small body is read before the request begins and goes out in the headers' send.
  private func setSmall(_ source: Source, _ from: Int64, _ count: Int) async throws(TransferError) {
    var piece = handle.small
    let isThere: Bool
    do throws(Errno) {
      isThere = try piece.loadCached(source, at: from, count)
    } catch {
      throw .sourceUnreadable(error)
    }
    if !isThere {
      // Another piece of memory, since a hung thread may keep this one.
      let other = Piece(Handle.smallest)
      let result = try await unhung(request.timeouts.source) {
        Result { () throws(Errno) in try other.load(source, at: from, count) }
      }
      if case .failure(let errno) = result { throw .sourceUnreadable(errno) }
      if other.count < count { throw source.shorter(other.end) }
      handle.small = other
      piece = other
    }
    unsafe ccurl_set_off(handle.easy.raw, CURLOPT_POSTFIELDSIZE_LARGE, Int64(count))
    unsafe ccurl_set_ptr(handle.easy.raw, CURLOPT_POSTFIELDS, piece.memory.baseAddress)
  }
  private func resume() {
    if Transfer.live[id] == nil || ending.isOver { return }
    let easy = unsafe handle.easy.raw
    // A form whose file isn't there yet first sends the bytes before it and pauses a round later;
    // until then libcurl takes "go on" for no change, and would pause for ever.
    if case .form = request.body { unsafe curl_easy_pause(easy, CURLPAUSE_SEND) }
    unsafe curl_easy_pause(easy, CURLPAUSE_CONT)
  }

  private static func sleep(until time: Int64) async throws(TransferError) {
    if time <= Clock.monotonic() { return }
    do throws(CancellationError) {
      try await Loop.shared.sleep(until: time)
    } catch {
      throw .cancelled
    }
  }

  private func throttle() async throws(TransferError) {
    guard let throttle = request.throttle else { return }
    if feed == nil {
      try await Self.sleep(until: throttle.turn(announced ?? 0))
    } else {
      isThrottled = true
      throttle.join(id) { rate in
        unsafe ccurl_set_off(self.handle.easy.raw, CURLOPT_MAX_SEND_SPEED_LARGE, rate)
      }
    }
  }

  // MARK: The end

  private var uploaded: Int64 { unsafe ccurl_get_off(handle.easy.raw, CURLINFO_SIZE_UPLOAD_T) }
  /// The whole body, framing included; -1 while a form's isn't known.
  private var total: Int64 {
    if let announced { return announced }
    return unsafe ccurl_get_off(handle.easy.raw, CURLINFO_CONTENT_LENGTH_UPLOAD_T)
  }
  /// The file's bytes among those uploaded: a form's framing stands mostly before them.
  private var sent: Int64 {
    guard announced == nil, let feed else { return uploaded }
    return min(feed.count, max(0, uploaded - (total - feed.count)))
  }

  private func finish(_ code: CURLcode) async throws(TransferError) -> Response? {
    if let failure = feed?.failure ?? answer.failure(sent) { throw failure }
    if code == CURLE_SEND_ERROR && isOnUsedConnection && answer.isEmpty { return nil }
    if code != CURLE_OK { throw TransferError(code, handle.errorText(code), sent) }
    // To libcurl an end of the connection among the headers is one of the headers.
    if !answer.hasWholeHead { throw .cut("the server's answer ends in its headers", sent: sent) }
    let status = unsafe ccurl_get_long(handle.easy.raw, CURLINFO_RESPONSE_CODE)
    let sent = sent
    let isWhole = uploaded == max(0, total)
    if answersForTheBody(status), let change = try await sourceChange() { throw change }
    if 200...299 ~= status && !isWhole {
      throw .cut("the server said \(status) before it had the whole body", sent: sent)
    }
    progress?(sent)
    return Response(
      status: status, head: answer.head, body: answer.body, sent: sent, finalURL: request.url)
  }
  /// A changed source explains these; the others speak of the server or of who asks.
  private func answersForTheBody(_ status: Int) -> Bool {
    switch status {
    case 401, 407, 408, 425, 429: false
    default: 200...299 ~= status || 400...499 ~= status
    }
  }
  private func sourceChange() async throws(TransferError) -> TransferError? {
    switch request.body {
    case .none, .bytes: nil
    case .file(let source, _, _): try await source.change(limit: request.timeouts.source)
    case .form(let form): try await form.source.change(limit: request.timeouts.source)
    }
  }
  /// libcurl itself repeats a request when a kept connection turns out to be dead at the first
  /// byte, or when it notices by reading; by chance it notices by sending the rest of the body.
  private var isOnUsedConnection: Bool {
    if handle.isFresh { return false }
    return unsafe ccurl_get_long(handle.easy.raw, CURLINFO_NUM_CONNECTS) == 0
  }
  private func redirectTarget(_ status: Int) -> String? {
    if !(300...399 ~= status) { return nil }
    let target = unsafe ccurl_get_str(handle.easy.raw, CURLINFO_REDIRECT_URL)
    return unsafe target.map { unsafe String(cString: $0) }
  }

  // MARK: Standing still

  var checkInterval: Int64 { watch.interval }

  /// Looks whether something has moved since the last time, and ends the transfer when nothing has
  /// for too long.
  func check(_ now: Int64) {
    if ending.isOver { return }
    let easy = unsafe handle.easy.raw
    // Until the request is on its way libcurl's connect time-out watches.
    if unsafe ccurl_get_off(easy, CURLINFO_PRETRANSFER_TIME_T) == 0 { return }
    let uploaded = uploaded
    // A socket takes megabytes long before a slow line has carried them, and TLS takes a whole
    // buffer in one go: what the other side has acknowledged tells more.
    let socket = Sockets.find(handle.easy)
    let acknowledged = socket.map { clinux_bytes_acknowledged($0) } ?? 0
    let isOut = total >= 0 && uploaded >= total
    switch watch.judge(now, uploaded, acknowledged, isOut, feed?.waitingSince) {
    case .fine:
      if watch.wantsProgress {
        let queued = socket.map { Int64(max(0, clinux_bytes_queued($0))) } ?? 0
        progress?(max(0, sent - queued))
      }
    case .stalled: abort(.stalled(sent: sent))
    case .noAnswer: abort(.noAnswer(sent: sent))
    case .sourceHangs: abort(.sourceUnreadable(Errno(ETIMEDOUT)))
    }
  }

  // MARK: libcurl's callbacks

  static let onHeader: ccurl_io = { buffer, size, count, user in
    let id = Int(bitPattern: user)
    nonisolated(unsafe) let bytes = unsafe UnsafeRawBufferPointer(
      start: buffer, count: size * count)
    return OnLoop.assume { unsafe live[id]?.answer.add(header: bytes) == true ? bytes.count : 0 }
  }
  static let onBody: ccurl_io = { buffer, size, count, user in
    let id = Int(bitPattern: user)
    nonisolated(unsafe) let bytes = unsafe UnsafeRawBufferPointer(
      start: buffer, count: size * count)
    return OnLoop.assume { unsafe live[id]?.answer.add(body: bytes) == true ? bytes.count : 0 }
  }
  static let onRead: ccurl_io = { buffer, size, count, user in
    let id = Int(bitPattern: user)
    nonisolated(unsafe) let buffer = unsafe UnsafeMutableRawPointer(buffer!)
    return OnLoop.assume {
      switch unsafe live[id]?.feed?.fill(buffer, size * count) {
      case .bytes(let n): n
      case .wait: Int(CURL_READFUNC_PAUSE)
      case .failed, nil: Int(CURL_READFUNC_ABORT)
      }
    }
  }
  static let onSeek: ccurl_seek = { user, offset, origin in
    let id = Int(bitPattern: user)
    return OnLoop.assume {
      if origin == SEEK_SET, live[id]?.feed?.seek(Int64(offset)) == true {
        return CURL_SEEKFUNC_OK
      }
      return CURL_SEEKFUNC_FAIL
    }
  }
}
