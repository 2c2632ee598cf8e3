internal import System

/// What the operator of a worker sets: a JSON object, every key optional.
///
/// - `roots`: absolute directories that jobs may read from (without it: any).
/// - `writeRoots`: absolute directories that `file` destinations may write to (without it: any,
///   but none where `roots` is set).
/// - `hosts`: servers that jobs may reach, see `Hosts` (without it, or empty: any).
/// - `concurrency`: files sent at once, 1 to 1,024 (4).
/// - `slots`: files sent at once over all workers of the spool, 1 to 1,024 (no limit).
/// - `destinations`: an object of names ([A-Za-z0-9_-]{1,64}) and `Destination`s.
/// - `retention`: `{"done": "7d", "failed": "30d"}`, how long finished jobs are kept; `"0"` deletes
///   at once.
/// - `giveUpAfter`: how old a job becomes at most ("5d").
/// - `crashes`: crashes in a row without progress that fail a job, 1 to 1,000 (5).
/// - `attempts`: how often a job may fail by its own fault unless it says so itself, 1 to 1,000 (8).
///
/// Spans of time are strings as `"7d"`, `"12h"`, `"30m"`, `"10s"`, `"500ms"`, or a number of
/// seconds. An unknown or repeated key is an error.
///
/// Values are equal when nothing changed, secrets that were read from elsewhere included.
package struct Configuration: Equatable, Sendable, CustomStringConvertible {
  /// Nil: jobs may read everything that the worker may.
  package var roots: [String]?
  /// Nil: everything where `roots` is nil too, else nothing.
  package var writeRoots: [String]?
  /// The servers that jobs may reach.
  package var hosts = Hosts()
  /// Files sent at once.
  package var concurrency = 4
  /// Files sent at once over all workers of the spool; nil: no limit.
  package var slots: Int?
  /// By name.
  package var destinations: [String: Destination] = [:]
  /// How long finished jobs are kept.
  package var retention = Retention()
  /// Nanoseconds.
  package var giveUpAfter: Int64 = 5 * 86400 * second
  /// Crashes in a row without progress that fail a job.
  package var crashes = 5
  /// For jobs that don't say so themselves.
  package var attempts = 8
  /// Every secret in it, for a `Redactor`: what `${…}` stood for, and tokens and passwords.
  package var secrets: [String] = []

  /// What holds without a configuration file.
  package init() {}

  /// Nanoseconds that finished jobs are kept; 0: not at all.
  package struct Retention: Equatable, Sendable {
    /// 7 days unless set.
    package var done: Int64 = 7 * 86400 * second
    /// 30 days unless set.
    package var failed: Int64 = 30 * 86400 * second
    /// The defaults.
    package init() {}
  }

  /// The directories that `file` destinations may write below; nil: all, empty: none.
  package var effectiveWriteRoots: [String]? { writeRoots ?? (roots == nil ? nil : []) }

  /// Removes every secret of this configuration from texts.
  package var redactor: Redactor { Redactor(secrets) }

  /// Names only: values may be secret.
  package var description: String {
    "configuration with destinations \(destinations.keys.sorted().joined(separator: ", "))"
  }
}
