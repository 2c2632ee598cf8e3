internal import System

/// One HTTP request. Nothing here is checked before it is sent; `Transfer.perform` says `.invalid`.
package struct Request: Sendable {
  /// "PUT", "POST", "GET", "HEAD", "DELETE" or another token (RFC 9110, 9.1).
  package var method: String
  /// An http or https URL, encoded already; it goes onto the wire as it stands.
  package var url: String
  /// Further headers in the order of the list. Content-Length and Transfer-Encoding are refused.
  package var headers: [(String, String)] = []
  /// What is sent.
  package var body: Body
  /// How the server is recognised and this client shows who it is.
  package var tls = TLS()
  /// A proxy's URL; nil: what `http_proxy` and its kin say, "" for none at all.
  package var proxy: String?
  /// For Basic authentication (RFC 7617), together with `password`.
  package var user: String?
  /// For Basic authentication.
  package var password: String?
  /// How long each phase may stand still.
  package var timeouts = Timeouts()
  /// Shared by all transfers that share a limit of bytes per second.
  package var throttle: Throttle?
  /// Shared by all transfers that share a limit of requests per second.
  package var pacer: Pacer?
  /// Follows 307 and 308 to the same origin, at most 5 times, sending the body again.
  package var followSafeRedirects = true
  /// Sends `Expect: 100-continue` and waits up to a second for the server's word (RFC 9110,
  /// 10.1.1): for big bodies to servers that are known to answer it.
  package var expect = false

  /// A request with the usual settings.
  package init(_ method: String, _ url: String, body: Body = .none) {
    (self.method, self.url, self.body) = (method, url, body)
  }
}

/// What a request carries.
package enum Body: Sendable {
  /// Nothing; PUT, POST and PATCH say `Content-Length: 0`.
  case none
  /// Bytes in memory.
  case bytes([UInt8])
  /// `count` bytes of a file from the offset `from` on.
  case file(Source, from: Int64, count: Int64)
  /// `multipart/form-data` (RFC 7578) with one file.
  case form(Form)

  /// The whole of a file as it was when it was opened.
  package static func file(_ source: Source) -> Body {
    .file(source, from: 0, count: source.facts.size)
  }
}

/// A form with a file, which comes last.
package struct Form: Sendable {
  /// Names and values of the ordinary fields.
  package var fields: [(String, String)]
  /// The name of the file's field.
  package var field: String
  /// The file's name for the receiver, in any script; UTF-8 as it is, a quote becomes `%22`.
  package var fileName: String
  /// Its media type; nil: application/octet-stream.
  package var type: String?
  /// The file, which is sent whole.
  package var source: Source
  /// A form.
  package init(
    fields: [(String, String)] = [], field: String = "file", fileName: String,
    type: String? = nil, source: Source
  ) {
    (self.fields, self.field, self.fileName) = (fields, field, fileName)
    (self.type, self.source) = (type, source)
  }
}

/// Files with keys and certificates, in PEM. Servers are always verified.
package struct TLS: Sendable, Equatable {
  /// Authorities to trust instead of the system's.
  package var caFile: String?
  /// This client's certificate (with its chain).
  package var certificate: String?
  /// Its key.
  package var key: String?
  /// The key's password.
  package var keyPassword: String?
  /// The system's authorities and no client certificate.
  package init() {}
}

/// How long a transfer may stand still, in nanoseconds. There is no limit for the whole.
package struct Timeouts: Sendable, Equatable {
  /// Resolving the name, connecting and the TLS handshake together.
  package var connect = 30 * second
  /// While the body is being sent: no byte moved.
  package var progress = 60 * second
  /// The body is out: until the whole answer is there.
  package var answer = 300 * second
  /// A read of the source that does not come back (a hung network filesystem).
  package var source = 300 * second
  /// The usual ones.
  package init() {}
}
