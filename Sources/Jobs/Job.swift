/// What a producer asks for: which files go where.
///
/// A job is a JSON object of at most 1 MiB with these keys. Needed:
/// - `to`: a URL (http, https, file), or `NAME:PATH` with a destination of the configuration. Where
///   its path ends in `/` (or is empty) each file's name is appended.
/// - `files`: a list of absolute paths, or of objects `{"path", "as", "type"}`: `as` is the name
///   over there (else the path's last component), `type` the media type.
///
/// And if wanted:
/// - `title` (1,000 bytes), `priority` (0 first, 9 last, 5), `notBefore` and `expires` (RFC 3339),
///   `attempts` (1 to 1,000), `parallel` (1 to 64 of its files at once), `onError` (`stop` or
///   `continue`), `group` (up to 200
///   bytes: jobs that are handled together), `dedupe` (the same: the same work only once), `format` (1), and any `x-…` (the producer's own, 64 KiB in all);
/// - `method` (`PUT`, `POST`), `form` (`{"field": "file", "fields": {…}}`), `headers`.
///
/// Any other key is an error, so that a typo can't drop a `notBefore` silently.
package struct Job: Equatable, Sendable {
  /// The newest `format` that this version knows.
  package static let format = 1
  /// Bytes that a job may have at most.
  package static let sizeLimit: Int64 = 1 << 20
  /// Files that a job may have at most.
  package static let fileLimit = 100_000

  /// As the job has it.
  package var to: String
  /// `to`, taken apart.
  package var destination: Destination
  /// One at least, in the order to send them.
  package var files: [File]
  /// For people, up to 1,000 bytes; it may hold control characters: print it `printable`.
  package var title: String?
  /// 0 (first) to 9.
  package var priority = 5
  /// Nanoseconds since 1970; not before this time.
  package var notBefore: Int64?
  /// Nanoseconds since 1970; after this time it has failed.
  package var expires: Int64?
  /// How often it may fail by its own fault; nil: what the configuration says.
  package var attempts: Int?
  /// How many of its files at once.
  package var parallel = 1
  /// What becomes of the other files when one fails for good.
  package var onError = OnError.stop
  /// Nil: what the destination says, else PUT. A `form` makes it POST.
  package var method: Method?
  /// Set: each file is sent as multipart/form-data.
  package var form: Form?
  /// Set by the producer; none that the transfer itself depends on.
  package var headers: [Header] = []
  /// What people call it and others together by, to pause, resume, cancel or retry them.
  package var group: String?
  /// Names its work: of waiting and running jobs with one key only the first is run.
  package var dedupe: String?
  /// The producer's own `x-` keys in their order.
  package var extra: [Extra] = []

  /// Unchecked; everything else as if it were left out.
  package init(to: String, destination: Destination, files: [File]) {
    (self.to, self.destination, self.files) = (to, destination, files)
  }

  /// What becomes of the other files when one fails for good.
  package enum OnError: String, Sendable, CaseIterable { case stop, `continue` }
  /// What a file is sent by (RFC 9110 9.3).
  package enum Method: String, Sendable, CaseIterable {
    case put = "PUT"
    case post = "POST"
  }

  /// A file to send.
  package struct File: Equatable, Sendable {
    /// Absolute, without NUL.
    package var path: String
    /// What the file is called over there: `as`, else the path's last component. It may hold
    /// slashes (never `.`, `..` or empty segments) and no control characters.
    package var remoteName: String
    /// The media type, if the job says so.
    package var type: String?

    /// Unchecked.
    package init(path: String, remoteName: String, type: String? = nil) {
      (self.path, self.remoteName, self.type) = (path, remoteName, type)
    }
  }

  /// A multipart/form-data upload (RFC 7578).
  package struct Form: Equatable, Sendable {
    /// The name of the part that holds the file.
    package var field: String
    /// Further parts, before the file, in their order.
    package var fields: [Field]

    /// Unchecked.
    package init(field: String, fields: [Field] = []) {
      (self.field, self.fields) = (field, fields)
    }
  }
  /// A part of a form that is text.
  package struct Field: Equatable, Sendable {
    /// 1 to 255 bytes, no control characters.
    package var name: String
    /// Any text.
    package var value: String
    /// Unchecked.
    package init(name: String, value: String) { (self.name, self.value) = (name, value) }
  }

  /// A field of a request's head: the name a token (RFC 9110 5.1), the value without control
  /// characters.
  package struct Header: Equatable, Sendable {
    /// As it was spelt; servers don't tell case apart.
    package var name: String
    /// Up to 8 KiB.
    package var value: String
    /// Unchecked; `headerFault` says what is wrong with one.
    package init(name: String, value: String) { (self.name, self.value) = (name, value) }
  }

  /// A key of the producer's own.
  package struct Extra: Equatable, Sendable {
    /// With its `x-`.
    package var key: String
    /// Any value, as compact JSON text.
    package var json: String
    /// Unchecked; `json` must be JSON.
    package init(key: String, json: String) { (self.key, self.json) = (key, json) }
  }
}
