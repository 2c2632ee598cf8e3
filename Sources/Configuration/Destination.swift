package import Jobs
internal import System

extension Configuration {
  /// A place that jobs send to by its name.
  ///
  /// - `type`, needed: `http` (each file is one PUT or POST), `form` (multipart/form-data) or `file`
  ///   (a directory of this machine).
  /// - `url`, needed for `http` and `form`: http:// or https://, with or without `/` at its end; a
  ///   job's path is appended before its query. `path`, needed for `file`: an absolute directory.
  /// - `concurrency`: files at once, 1 to 1,024 (the worker's); `bandwidth`: bytes a second of
  ///   all its transfers of a worker together, a number or as `"2M"`; `slots`: files at once over all
  ///   workers of the spool, 1 to 1,024.
  ///
  /// For `http` and `form`:
  /// - `requestsPerSecond`: of a worker, 0.001 to 100,000.
  /// - `timeout`: for the answer once the body is out ("5m"); `connectTimeout` ("30s");
  ///   `stallTimeout`: without a byte of progress while sending ("60s").
  /// - `ca`: a file of trusted certificates instead of the system's; `cert`, `key`: a client's
  ///   certificate and key (PEM files, absolute paths); `keyPassword`.
  /// - `proxy`: http://, https://, socks5:// or socks5h://, with `user:password@` if needed.
  /// - `headers`: an object; `token`: sent as `Authorization: Bearer`; or `user` and `password`,
  ///   sent as Basic (RFC 7617).
  /// - `method`: `PUT` or `POST` (`http` only); `form`: `{"field", "fields"}` as in jobs (`form`
  ///   only).
  /// - `verify`: `answer` (a 2xx is the proof), or `head`: ask for the length by HEAD afterwards
  ///   (`http` only).
  ///
  /// In every string `${env:NAME}` stands for a variable of the worker's environment, `${file:/x}`
  /// for a file's content without its last newline. What they stand for counts as secret.
  package struct Destination: Equatable, Sendable, CustomStringConvertible {
    /// The key `type`.
    package var kind: Kind
    /// Empty for `file`.
    package var url = ""
    /// Absolute; empty for all but `file`.
    package var path = ""
    /// Nil: the worker's.
    package var concurrency: Int?
    /// At once over all workers of the spool; nil: no limit.
    package var slots: Int?
    /// Bytes a second; nil: no limit.
    package var bandwidth: Int64?
    /// Nil: no limit.
    package var requestsPerSecond: Double?
    /// Nanoseconds for the answer once the body is out.
    package var timeout: Int64 = 300 * second
    /// Nanoseconds.
    package var connectTimeout: Int64 = 30 * second
    /// Nanoseconds without a byte of progress while sending.
    package var stallTimeout: Int64 = 60 * second
    /// An absolute path; nil: the system's.
    package var ca: String?
    /// An absolute path.
    package var cert: String?
    /// An absolute path; nil with `cert`: that holds the key too.
    package var key: String?
    /// For an encrypted key.
    package var keyPassword: Secret?
    /// With its credentials, hence secret.
    package var proxy: Secret?
    /// The values may be secret.
    package var headers: [Job.Header] = []
    /// Sent as `Authorization: Bearer`; never together with `user`.
    package var token: Secret?
    /// Sent as Basic with `password`; without colon.
    package var user: String?
    /// Never without `user`.
    package var password: Secret?
    /// Nil unless set: a job's own, else PUT (`http`) or POST (`form`).
    package var method: Job.Method?
    /// Always there for `form`, never for others.
    package var form: Job.Form?
    /// What proves that a file has arrived.
    package var verify = Verify.answer

    /// The defaults; `url` or `path` is still to be set.
    package init(kind: Kind) {
      self.kind = kind
      if kind == .form { form = Job.Form(field: "file") }
    }

    /// How files are sent.
    package enum Kind: String, Sendable, CaseIterable { case http, form, file }
    /// A 2xx answer, or a HEAD afterwards that gives the right length.
    package enum Verify: String, Sendable, CaseIterable { case answer, head }

    /// The kind only: values may be secret.
    package var description: String { "\(kind.rawValue) destination" }
  }
}
