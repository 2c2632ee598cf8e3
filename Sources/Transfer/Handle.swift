internal import CCurl
internal import Loop
internal import System

/// What decides a handle's options but for the URL, headers and sizes of one request.
struct Shape: Equatable {
  enum Kind { case get, head, memory, upload, form }
  var kind: Kind
  var method: String
  var tls: TLS
  var proxy: String?
  var user: String?
  var password: String?
  var connectTimeout: Int64
  var uploadBuffer: Int
  var expect: Bool
}

/// A curl handle that is kept for further transfers, with what must live as long as its options.
@OnLoop @safe final class Handle {
  let easy: Easy
  private let errorBuffer: UnsafeMutablePointer<CChar>
  private var shape: Shape?
  /// No kept connection may be used.
  private(set) var isFresh = false
  private var headers: [(String, String)] = []
  private var list: UnsafeMutablePointer<curl_slist>?
  /// A small body lies here while it is sent.
  lazy var small = Piece(Handle.smallest)
  private var mime: OpaquePointer?

  /// Up to here libcurl sends a body together with its headers (MAX_INITIAL_POST_SIZE, exclusive).
  nonisolated static let smallest = (64 << 10) - 1
  private static var idle: [Handle] = []
  private static let keptIdle = 32

  private init?() {
    guard let easy = Easy() else { return nil }
    self.easy = easy
    unsafe errorBuffer = .allocate(capacity: Int(CURL_ERROR_SIZE))
  }
  isolated deinit {
    unsafe curl_easy_cleanup(easy.raw)
    unsafe curl_slist_free_all(list)
    unsafe errorBuffer.deallocate()
  }

  /// An idle handle, with luck one that has this shape already.
  static func take(_ shape: Shape, isFresh: Bool) throws(TransferError) -> Handle {
    let handle: Handle
    if let i = idle.lastIndex(where: { $0.shape == shape }) {
      handle = idle.remove(at: i)
    } else if idle.count >= keptIdle {
      handle = idle.removeFirst()
    } else if let new = Handle() {
      handle = new
    } else {
      throw .invalid("out of memory")
    }
    unsafe handle.errorBuffer[0] = 0
    if handle.shape != shape { handle.become(shape) }
    if isFresh {
      handle.isFresh = true
      unsafe ccurl_set_long(handle.easy.raw, CURLOPT_FRESH_CONNECT, 1)
    }
    return handle
  }
  /// Gives it back after the transfer, off the multi handle.
  func giveBack() {
    if isFresh {
      isFresh = false
      unsafe ccurl_set_long(easy.raw, CURLOPT_FRESH_CONNECT, 0)
    }
    if let mime = unsafe mime {
      unsafe ccurl_set_mime(easy.raw, nil)
      unsafe curl_mime_free(mime)
      unsafe self.mime = nil
    }
    switch shape?.kind {
    case .upload, .form:
      // Its upload buffer is bigger than all the rest: not to be kept idle.
      shape = nil
      unsafe ccurl_set_long(easy.raw, CURLOPT_UPLOAD_BUFFERSIZE, 16 << 10)
    default: break
    }
    if Handle.idle.count < Handle.keptIdle { Handle.idle.append(self) }
  }

  private func become(_ shape: Shape) {
    let easy = unsafe easy.raw
    func long(_ option: CURLoption, _ value: Int) { unsafe ccurl_set_long(easy, option, value) }
    func text(_ option: CURLoption, _ value: String?) {
      if let value { unsafe ccurl_set_str(easy, option, value) }
    }
    unsafe curl_easy_reset(easy)
    self.shape = shape
    long(CURLOPT_NOSIGNAL, 1)
    // With HTTP/2 libcurl 7.88 spins while a slow server reads (curl#10618).
    long(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1))
    text(CURLOPT_PROTOCOLS_STR, "http,https")
    long(CURLOPT_PATH_AS_IS, 1)
    // Else the removal of a transfer waits for its name to be resolved, and with it the loop.
    long(CURLOPT_QUICK_EXIT, 1)
    long(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1)
    long(CURLOPT_TCP_KEEPALIVE, 1)
    long(CURLOPT_CONNECTTIMEOUT_MS, max(1, Int(shape.connectTimeout / 1_000_000)))
    text(CURLOPT_USERAGENT, Transfer.userAgent)
    unsafe ccurl_set_ptr(easy, CURLOPT_ERRORBUFFER, errorBuffer)
    text(CURLOPT_CAINFO, shape.tls.caFile)
    text(CURLOPT_SSLCERT, shape.tls.certificate)
    text(CURLOPT_SSLKEY, shape.tls.key)
    text(CURLOPT_KEYPASSWD, shape.tls.keyPassword)
    text(CURLOPT_PROXY, shape.proxy)
    if shape.user != nil || shape.password != nil {
      long(CURLOPT_HTTPAUTH, 1)  // CURLAUTH_BASIC, a macro that Swift can't see
      text(CURLOPT_USERNAME, shape.user ?? "")
      text(CURLOPT_PASSWORD, shape.password ?? "")
    }
    unsafe ccurl_set_io(easy, CURLOPT_HEADERFUNCTION, Transfer.onHeader)
    unsafe ccurl_set_io(easy, CURLOPT_WRITEFUNCTION, Transfer.onBody)
    unsafe ccurl_set_io(easy, CURLOPT_READFUNCTION, Transfer.onRead)
    unsafe ccurl_set_seek(easy, Transfer.onSeek)
    unsafe ccurl_set_sockets(easy, Sockets.onOpen, Sockets.onClose)
    switch shape.kind {
    case .get: long(CURLOPT_HTTPGET, 1)
    case .head: long(CURLOPT_NOBODY, 1)
    case .memory: long(CURLOPT_POST, 1)
    case .upload:
      long(CURLOPT_UPLOAD, 1)
      long(CURLOPT_UPLOAD_BUFFERSIZE, shape.uploadBuffer)
    case .form: long(CURLOPT_UPLOAD_BUFFERSIZE, shape.uploadBuffer)
    }
    let usual: String? =
      switch shape.kind {
      case .get: "GET"
      case .head: "HEAD"
      case .memory, .form: "POST"
      case .upload: "PUT"
      }
    if shape.method != usual { text(CURLOPT_CUSTOMREQUEST, shape.method) }
    unsafe curl_slist_free_all(list)
    unsafe list = nil
  }

  /// Sets the request's headers, checked already; cheap when they are those of the last one.
  func set(headers: [(String, String)]) {
    if unsafe list != nil, headers.count == self.headers.count,
      zip(headers, self.headers).allSatisfy({ $0 == $1 })
    {
      return
    }
    self.headers = headers
    let old = unsafe list
    unsafe list = nil
    func add(_ line: String) {
      if let longer = unsafe curl_slist_append(list, line) { unsafe list = unsafe longer }
    }
    // An empty value is written with a semicolon; with a colon it would take curl's own away.
    for (name, value) in headers { add(value.isEmpty ? "\(name);" : "\(name): \(value)") }
    add(shape?.expect == true ? "Expect: 100-continue" : "Expect:")
    if shape?.kind == .memory, !headers.contains(where: { $0.0.lowercased() == "content-type" }) {
      add("Content-Type:")
    }
    unsafe ccurl_set_list(easy.raw, CURLOPT_HTTPHEADER, list)
    unsafe curl_slist_free_all(old)
  }

  /// A form whose file is read through the transfer's callbacks.
  func set(form: Form, id: Int) {
    guard let mime = unsafe curl_mime_init(easy.raw) else { return }
    unsafe self.mime = unsafe mime
    for (name, value) in form.fields {
      guard let part = unsafe curl_mime_addpart(mime) else { return }
      unsafe curl_mime_name(part, name)
      unsafe curl_mime_data(part, value, value.utf8.count)
    }
    guard let part = unsafe curl_mime_addpart(mime) else { return }
    unsafe curl_mime_name(part, form.field)
    unsafe ccurl_mime_source(
      part, form.source.facts.size, Transfer.onRead, Transfer.onSeek, id)
    unsafe curl_mime_filename(part, form.fileName)
    unsafe curl_mime_type(part, form.type ?? "application/octet-stream")
    unsafe ccurl_set_mime(easy.raw, mime)
  }

  /// libcurl's words for the last error, with the system's where there are some.
  func errorText(_ code: CURLcode) -> String {
    var text = unsafe String(cString: errorBuffer)
    if text.isEmpty { text = unsafe String(cString: curl_easy_strerror(code)) }
    let number = unsafe ccurl_get_long(easy.raw, CURLINFO_OS_ERRNO)
    if number == 0 || code != CURLE_COULDNT_CONNECT { return text }
    let words = Errno(Int32(number)).description
    return text.contains(words) ? text : "\(text) (\(words))"
  }
}
