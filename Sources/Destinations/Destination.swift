package import Jobs
internal import Loop
internal import System
package import Transfer

/// A place that files are sent to.
///
/// A destination sends one file, reports progress and hands back a receipt, or removes what is
/// half-sent. It never sleeps, counts attempts or decides whether to try again: it says whose
/// trouble an error is, and the worker does the rest.
package protocol Destination: Sendable {
  /// What shares a circuit and limits: a configured name, or an origin such as
  /// `https://example.com:443`.
  var key: String { get }

  /// Where a file of that name goes. Two targets are equal when a result for the one is a result
  /// for the other.
  func target(_ remoteName: String) -> Target

  /// What a file that was begun may leave there from the first byte on, where that can be told
  /// beforehand: it is written down before, or after the worker's death, so that nothing is left that
  /// nobody knows of. It is for `remove`, not to go on from.
  func leftover(_ remoteName: String, ticket: String, index: Int) -> Sidecar.Resume?

  /// Sends one file, from where `upload.resume` says if it still can.
  ///
  /// `report` gets the bytes that are over there by now, and what is needed to go on or to clean
  /// up, as soon as there is something to clean up.
  @OnLoop func send(
    _ upload: Upload, report: @escaping @OnLoop (Int64, Sidecar.Resume?) -> Void
  ) async throws(SendError) -> Receipt

  /// Removes what lies half-sent; nothing there is success.
  @OnLoop func remove(_ resume: Sidecar.Resume) async throws(SendError)
}

extension Destination {
  package func leftover(_ remoteName: String, ticket: String, index: Int) -> Sidecar.Resume? {
    nil
  }
}

/// Where one file goes.
package struct Target: Sendable, Equatable {
  /// For people: without credentials and query.
  package var url: String
  /// Tells targets apart whose `url` looks the same, without showing what must stay secret; nil
  /// where the URL says it all.
  package var digest: String?

  /// - `hidden`: what distinguishes it beyond its URL.
  package init(url: String, hidden: String? = nil) {
    self.url = url
    digest = hidden.map { Digest.of(Array($0.utf8), .sha256).prefix(8).hex }
  }
}

/// One file to be sent.
package struct Upload: Sendable {
  package var source: Source
  package var remoteName: String
  /// The media type that the job names.
  package var type: String?
  /// The job's id and run and the file's place in it, as `ID.RUN.INDEX`: safe in file names.
  package var ticket: String
  /// The same for every repeat of the same work and never for other work; nil where nobody asks.
  package var idempotencyKey: @Sendable () -> String
  package var index: Int
  package var resume: Sidecar.Resume?

  package init(
    source: Source, remoteName: String, type: String?, ticket: String, index: Int,
    resume: Sidecar.Resume?, idempotencyKey: @escaping @Sendable () -> String
  ) {
    (self.source, self.remoteName, self.type) = (source, remoteName, type)
    (self.ticket, self.index, self.resume) = (ticket, index, resume)
    self.idempotencyKey = idempotencyKey
  }
}

/// What a destination says of a file that is there.
package struct Receipt: Sendable, Equatable {
  /// Lower-case hexadecimal, where it was needed.
  package var sha256: String?
  package var etag: String?
  package init(sha256: String? = nil, etag: String? = nil) {
    (self.sha256, self.etag) = (sha256, etag)
  }
}

/// Why a file is not there, sorted by whose trouble it is.
package struct SendError: Error, Sendable, Equatable {
  package enum Blame: Sendable, Equatable {
    /// Nothing of this job's: its circuit opens, no attempt is used.
    case destination(DestinationTrouble)
    /// The job's, but it may work later: an attempt is used.
    case jobForNow
    /// The connection ended in the middle. The job's for now, unless it turns out that the
    /// destination went away.
    case cut
    /// It will never work like this.
    case jobForGood
    /// The task was cancelled.
    case cancelled
  }
  package enum DestinationTrouble: Sendable, Equatable { case unreachable, throttled, signIn, full }

  package var blame: Blame
  /// A word for programs, such as `unreachable`.
  package var kind: String
  package var status: Int?
  package var message: String
  package var advice: String?
  /// The server's Retry-After, nanoseconds since 1970.
  package var retryAt: Int64?

  package init(
    _ blame: Blame, _ kind: String, _ message: String, advice: String? = nil, status: Int? = nil,
    retryAt: Int64? = nil
  ) {
    (self.blame, self.kind, self.message, self.advice) = (blame, kind, message, advice)
    (self.status, self.retryAt) = (status, retryAt)
  }
}
