internal import CCurl
internal import Loop
internal import System

extension Request {
  /// What may not go onto the wire is refused before anything does.
  func check() throws(TransferError) {
    guard method.isToken else { throw .invalid("the method is not a word of letters") }
    if !url.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }) {
      throw .invalid("the URL holds a blank, a control character or a letter that isn't encoded")
    }
    for (name, value) in headers {
      guard name.isToken else { throw .invalid("a header's name is not allowed in HTTP") }
      if value.utf8.contains(where: { $0 == 0 || $0 == 0x0a || $0 == 0x0d }) {
        throw .invalid("the header \(name) holds a line break")
      }
      let lower = name.lowercased()
      if lower == "content-length" || lower == "transfer-encoding" || lower == "expect" {
        throw .invalid("the header \(name) can't be set; it follows from the body")
      }
      if lower == "content-type", case .form = body {
        throw .invalid("the header Content-Type can't be set, since a form has its own")
      }
    }
    switch body {
    case .none, .bytes: break
    case .file(let source, let from, let count):
      let (end, overflow) = from.addingReportingOverflow(count)
      if from < 0 || count < 0 || overflow || end > source.facts.size {
        throw .invalid("the part to be sent lies outside the file")
      }
    case .form(let form): try form.check()
    }
  }

  @OnLoop var shape: Shape {
    let kind: Shape.Kind =
      switch body {
      case .none:
        switch method {
        case "HEAD": .head
        case "PUT", "POST", "PATCH": .memory
        default: .get
        }
      case .bytes: .memory
      case .file(_, _, let count): count <= Handle.smallest ? .memory : .upload
      case .form: .form
      }
    return Shape(
      kind: kind, method: method, tls: tls, proxy: proxy, user: user, password: password,
      connectTimeout: timeouts.connect, uploadBuffer: uploadBuffer, expect: expect)
  }
  /// Bytes for each read and send. The limit of a throttle is overshot by one such buffer.
  @OnLoop private var uploadBuffer: Int {
    guard let throttle, throttle.bytesPerSecond > 0 else { return 256 << 10 }
    return Int(min(256 << 10, max(16 << 10, throttle.bytesPerSecond / 8)))
  }
}

extension Form {
  fileprivate func check() throws(TransferError) {
    for (name, _) in fields + [(field, "")] where name.hasControls {
      throw .invalid("the name of a form's field holds a control character")
    }
    if fileName.hasControls {
      throw .invalid("the file's name holds a control character; give it another one")
    }
    if type?.hasControls == true { throw .invalid("the media type holds a control character") }
  }
}

extension String {
  /// RFC 9110, 5.6.2.
  fileprivate var isToken: Bool {
    !isEmpty
      && utf8.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
          UInt8(ascii: "0")...UInt8(ascii: "9"):
          true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
      }
  }
  fileprivate var hasControls: Bool { utf8.contains { $0 < 0x20 || $0 == 0x7f } }
}

extension TransferError {
  /// What libcurl's codes mean for the caller (libcurl-errors(3)).
  init(_ code: CURLcode, _ text: String, _ sent: Int64) {
    switch code {
    case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY, CURLE_COULDNT_CONNECT,
      CURLE_PROXY, CURLE_INTERFACE_FAILED, CURLE_OPERATION_TIMEDOUT:
      self = .unreachable(text)
    case CURLE_SSL_CONNECT_ERROR, CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CERTPROBLEM,
      CURLE_SSL_CIPHER, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_ISSUER_ERROR,
      CURLE_SSL_ENGINE_NOTFOUND, CURLE_SSL_ENGINE_SETFAILED, CURLE_SSL_ENGINE_INITFAILED,
      CURLE_SSL_PINNEDPUBKEYNOTMATCH, CURLE_SSL_INVALIDCERTSTATUS, CURLE_SSL_CRL_BADFILE,
      CURLE_SSL_CLIENTCERT, CURLE_SSL_SHUTDOWN_FAILED, CURLE_USE_SSL_FAILED:
      self = .tls(text)
    case CURLE_URL_MALFORMAT:
      self = .invalid("not a URL: it must be like https://host/path/")
    case CURLE_UNSUPPORTED_PROTOCOL where text.contains("HTTP/0.9") || text.contains("response"):
      self = .cut("the server's answer is not HTTP", sent: sent)
    // That is what a header line without an end comes to.
    case CURLE_OUT_OF_MEMORY: self = .cut(text, sent: sent)
    case CURLE_UNSUPPORTED_PROTOCOL, CURLE_BAD_FUNCTION_ARGUMENT, CURLE_UNKNOWN_OPTION,
      CURLE_NOT_BUILT_IN, CURLE_FAILED_INIT:
      self = .invalid(text)
    // With TLS 1.3 a server refuses a client's certificate when the handshake is over.
    case CURLE_RECV_ERROR where text.contains("alert") && text.contains("certificate"):
      self = .tls(text)
    case CURLE_RECV_ERROR, CURLE_SEND_ERROR, CURLE_GOT_NOTHING: self = .cut(text, sent: sent)
    default: self = .cut(text, sent: sent)
    }
  }
}
