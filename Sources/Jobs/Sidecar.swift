/// What the workers say of one job: for people and programs to read, and for recovery.
///
/// Times are nanoseconds since 1970. Where exactness matters (`modifiedAt`, `wait`, `retryAt`) the
/// text keeps them to the nanosecond; all others have whole seconds in it, rounded down.
package struct Sidecar: Equatable, Sendable {
  /// What the worker knows; the directory that the job lies in wins over it.
  package var state: State
  /// Only while active.
  package var phase: Phase?
  /// 0 to 100, one decimal in the text (rounded down: 100 only when done).
  package var percent: Double = 0
  /// The last thing that went wrong; nil once it is overcome.
  package var error: Failure?
  /// The job file's name without `.json`; for people: bytes that are no UTF-8 became U+FFFD.
  package var job: String
  /// Which file it speaks for: inode and birth time, or inode and SHA-256.
  package var id: String
  /// Rises when a finished job is submitted again.
  package var run = 1
  /// The job's.
  package var title: String?
  /// The job's.
  package var group: String?
  /// Bytes sent of all files; never less than before within a run.
  package var bytes: Int64 = 0
  /// Bytes of all files; nil until all were looked at.
  package var totalBytes: Int64?
  /// Lately; nil when nothing is being sent.
  package var bytesPerSecond: Int64?
  /// Seconds to the end at that rate.
  package var etaSeconds: Int64?
  /// The attempt that runs or ran last, from 1; 0 before the first.
  package var attempt = 0
  /// Crashes in a row without progress.
  package var crashes = 0
  /// Host and UUID of the worker that has or had it.
  package var worker: String?
  /// When a worker saw it first.
  package var queuedAt: Int64
  /// When its first attempt of this run began.
  package var startedAt: Int64?
  /// When this was written.
  package var updatedAt: Int64
  /// When it reached a final state.
  package var finishedAt: Int64?
  /// As in the job, by the same index; empty until they were looked at.
  package var files: [FileStatus] = []
  /// Why it isn't running, until when; void once the job file's mtime is another.
  package var wait: Wait?
  /// What lies half-sent at servers; at most one for each file, by rising `file`.
  package var resume: [Resume] = []
  /// Attempts counted so far.
  package var failures = 0
  /// Bytes known to be safe at the last crash.
  package var crashProgress: Int64?
  /// The boot id of the machine that wrote `crashProgress` or ran the job last.
  package var boot: String?
  /// The last counted failure was a cut, which is given back when it turns out that the destination
  /// went away.
  package var mayRefund = false
  /// The job that did this one's work, since both had one `dedupe` key.
  package var duplicateOf: String?
  /// The producer's own `x-` keys.
  package var extra: [Job.Extra] = []

  /// A new job's; everything else as if it were absent.
  package init(state: State, job: String, id: String, queuedAt: Int64, updatedAt: Int64) {
    (self.state, self.job, self.id) = (state, job, id)
    (self.queuedAt, self.updatedAt) = (queuedAt, updatedAt)
  }

  /// Where a job stands.
  package enum State: String, Sendable, CaseIterable {
    case pending, active, paused, done, failed, cancelled
    /// Nothing more happens by itself.
    package var isFinal: Bool { self == .done || self == .failed || self == .cancelled }
  }
  /// What an active job is busy with.
  package enum Phase: String, Sendable, CaseIterable { case preparing, sending, notifying }

  /// The last thing that went wrong.
  package struct Failure: Equatable, Sendable {
    /// A word for programs, such as `unreachable` or `invalid`.
    package var kind: String
    /// The server's, if it answered.
    package var status: Int?
    /// For people; without secrets.
    package var message: String
    /// What a person can do about it.
    package var advice: String?
    /// The next try by itself; nil: none.
    package var retryAt: Int64?
    /// Unchecked.
    package init(
      kind: String, status: Int? = nil, message: String, advice: String? = nil,
      retryAt: Int64? = nil
    ) {
      (self.kind, self.status, self.message) = (kind, status, message)
      (self.advice, self.retryAt) = (advice, retryAt)
    }
  }

  /// Where a file stands.
  package enum FileState: String, Sendable, CaseIterable { case waiting, active, done, failed }

  /// What became of one file.
  package struct FileStatus: Equatable, Sendable {
    /// The source's, as in the job.
    package var path: String
    /// The key `as` in the text.
    package var remoteName: String
    /// Where it stands.
    package var state: FileState
    /// Bytes sent.
    package var bytes: Int64
    /// The source's size when it was opened.
    package var totalBytes: Int64?
    /// The source's mtime, exact: a result counts only for the same size and mtime.
    package var modifiedAt: Int64?
    /// Where it is now, without credentials.
    package var url: String?
    /// A digest that tells two targets apart whose `url` looks the same without its query.
    package var target: String?
    /// Lower-case hexadecimal.
    package var sha256: String?
    /// The server's, with its quotes.
    package var etag: String?
    /// Why it failed, for people.
    package var error: String?
    /// Unchecked.
    package init(
      path: String, remoteName: String, state: FileState = .waiting, bytes: Int64 = 0,
      totalBytes: Int64? = nil, modifiedAt: Int64? = nil, url: String? = nil, target: String? = nil,
      sha256: String? = nil, etag: String? = nil, error: String? = nil
    ) {
      (self.path, self.remoteName, self.state) = (path, remoteName, state)
      (self.bytes, self.totalBytes, self.modifiedAt) = (bytes, totalBytes, modifiedAt)
      (self.url, self.sha256, self.etag, self.error) = (url, sha256, etag, error)
    }
  }

  /// A back-off, a `notBefore` or another reason not to run yet.
  package struct Wait: Equatable, Sendable {
    /// Nil: until something else changes.
    package var until: Int64?
    /// The job file's mtime that this wait is for, exact.
    package var mtime: Int64
    /// For people.
    package var reason: String
    /// Unchecked.
    package init(until: Int64?, mtime: Int64, reason: String) {
      (self.until, self.mtime, self.reason) = (until, mtime, reason)
    }
  }

  /// Where a file's transfer can go on, and what has to be removed at the server otherwise.
  package struct Resume: Equatable, Sendable {
    /// The file's index in the job.
    package var file: Int
    /// Names destination and remote path, without credentials.
    package var url: String
    /// The source's size and mtime that the offset belongs to.
    package var size: Int64
    /// Nanoseconds since 1970, exact.
    package var modifiedAt: Int64
    /// Bytes that the server has for sure.
    package var offset: Int64
    /// The destination's own (an upload's URL, part tags), in its order; names are unique.
    package var data: [Datum]
    /// Unchecked.
    package init(
      file: Int, url: String, size: Int64, modifiedAt: Int64, offset: Int64, data: [Datum] = []
    ) {
      (self.file, self.url, self.size) = (file, url, size)
      (self.modifiedAt, self.offset, self.data) = (modifiedAt, offset, data)
    }
  }
  /// A name and a text of a destination's own.
  package struct Datum: Equatable, Sendable {
    /// Unique within one `data`, without NUL.
    package var name: String
    /// Any text.
    package var value: String
    /// Unchecked.
    package init(name: String, value: String) { (self.name, self.value) = (name, value) }
  }
}
