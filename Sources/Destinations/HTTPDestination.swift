internal import Configuration
package import Jobs
internal import Loop
internal import System
package import Transfer

/// A web server that takes each file by one PUT, one POST of the raw file, or one form.
package struct HTTPDestination: Destination {
  package let key: String
  /// A directory when it ends in a slash, to which the file's name is appended.
  private let base: URL
  private let takesNames: Bool
  private let method: String
  private let form: Job.Form?
  private let headers: [Job.Header]
  private let hasOwnCredentials: Bool
  private let settings: Settings

  /// What the operator set for it; the defaults for a plain URL.
  package struct Settings: Sendable {
    package var tls = TLS()
    package var proxy: String?
    package var user: String?
    package var password: String?
    package var timeouts = Timeouts()
    package var throttle: Throttle?
    package var pacer: Pacer?
    package var verifiesByHead = false
    package init() {}
  }

  package init(
    key: String, base: URL, takesNames: Bool, method: Job.Method, form: Job.Form?,
    headers: [Job.Header], hasOwnCredentials: Bool, settings: Settings
  ) {
    (self.key, self.base, self.takesNames, self.form) = (key, base, takesNames, form)
    self.method = form == nil ? method.rawValue : "POST"
    (self.headers, self.settings) = (headers, settings)
    self.hasOwnCredentials = hasOwnCredentials
  }

  private func url(_ remoteName: String) -> URL {
    takesNames && form == nil ? base.appendingPath(remoteName) : base
  }

  package func target(_ remoteName: String) -> Target {
    let url = url(remoteName)
    if method == "PUT" && url.query == nil { return Target(url: url.display) }
    let fields = form.map { form in
      form.field + form.fields.map { "\0\($0.name)\0\($0.value)" }.joined()
    }
    return Target(
      url: url.display, hidden: "\(method)\0\(url.query ?? "")\0\(remoteName)\0\(fields ?? "")")
  }

  package func send(
    _ upload: Upload, report: @escaping @OnLoop (Int64, Sidecar.Resume?) -> Void
  ) async throws(SendError) -> Receipt {
    let url = url(upload.remoteName)
    let type = upload.type ?? ContentTypes.type(of: upload.remoteName)
    var request = self.request(method, url)
    if let form {
      let name = upload.remoteName.split(separator: "/").last.map(String.init) ?? upload.remoteName
      request.body = .form(
        Form(
          fields: form.fields.map { ($0.name, $0.value) }, field: form.field, fileName: name,
          type: type, source: upload.source))
    } else {
      request.body = .file(upload.source)
      set("Content-Type", type, in: &request, unlessThere: true)
    }
    // PUT is idempotent by itself (RFC 9110, 9.2.2); a receiver of POSTs can drop repeats by this.
    if method != "PUT" { request.headers.append(("Idempotency-Key", upload.idempotencyKey())) }
    let response: Response
    do throws(TransferError) {
      response = try await Transfer.perform(request) { report($0, nil) }
    } catch {
      throw HTTPStatus.trouble(error)
    }
    guard response.isSuccess else {
      throw HTTPStatus.trouble(
        response, ownCredentials: hasOwnCredentials, now: Clock.wall())
    }
    var receipt = Receipt(etag: response.header("etag"))
    if form == nil { try await check(response, upload.source, &receipt) }
    if settings.verifiesByHead && form == nil && method == "PUT" {
      try await verifyByHead(url, upload.source)
    }
    return receipt
  }

  package func remove(_ resume: Sidecar.Resume) async throws(SendError) {
    // A PUT or POST that didn't end left nothing that this side could name.
  }

  /// A request with everything that the operator and the job want on each.
  private func request(_ method: String, _ url: URL) -> Request {
    var request = Request(method, url.text)
    request.headers = headers.map { ($0.name, $0.value) }
    request.tls = settings.tls
    request.proxy = settings.proxy
    request.user = settings.user
    request.password = settings.password
    request.timeouts = settings.timeouts
    request.throttle = settings.throttle
    request.pacer = settings.pacer
    return request
  }

  private func set(
    _ name: String, _ value: String, in request: inout Request, unlessThere: Bool
  ) {
    if request.headers.contains(where: { $0.0.lowercased() == name.lowercased() }) { return }
    request.headers.append((name, value))
  }

  /// The best evidence that the answer gives: a digest of what the server stored. It costs another
  /// read of the file only where the server sends one.
  @OnLoop private func check(_ response: Response, _ source: Source, _ receipt: inout Receipt)
    async throws(SendError)
  {
    guard let claimed = ServerDigest.find(in: response) else { return }
    let actual: [UInt8]
    do throws(TransferError) {
      actual = try await source.digest(claimed.kind)
    } catch {
      throw HTTPStatus.trouble(error)
    }
    if claimed.kind == .sha256 { receipt.sha256 = actual.hex }
    if actual != claimed.bytes {
      throw SendError(
        .jobForNow, "checksum",
        "the server says that it stored something else: its \(claimed.kind.rawValue) is "
          + "\(claimed.bytes.hex), the file's is \(actual.hex)", advice: "it is sent again",
        status: response.status)
    }
  }

  @OnLoop private func verifyByHead(_ url: URL, _ source: Source) async throws(SendError) {
    let response: Response
    do throws(TransferError) {
      response = try await Transfer.perform(request("HEAD", url))
    } catch {
      throw HTTPStatus.trouble(error)
    }
    guard response.isSuccess else {
      throw HTTPStatus.trouble(response, ownCredentials: hasOwnCredentials, now: Clock.wall())
    }
    let length = response.header("content-length").flatMap { Int64($0) }
    if let length, length != source.facts.size {
      throw SendError(
        .jobForNow, "checksum",
        "the server has \(length) bytes of it instead of \(source.facts.size)",
        advice: "it is sent again", status: response.status)
    }
  }
}
