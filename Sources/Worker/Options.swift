package import Configuration
package import Spool

/// What a worker is started with.
package struct Options: Sendable {
  package var spool = "spool"
  package var configurationPath: String?
  package var configuration = Configuration()
  /// Directories given by --root, beside those of the configuration.
  package var roots: [String] = []
  /// Overrides the configuration's.
  package var concurrency: Int?
  /// End when there is nothing left to do.
  package var drain = false
  /// Nanoseconds that running transfers get at SIGTERM.
  package var grace: Int64 = 10_000_000_000
  /// Nanoseconds between looks at the directories, instead of listening for events; nil: listen.
  package var poll: Int64?
  package var singleHost = false
  package var durability = Spool.Durability.full
  package var logFormat = Log.Format.text
  package var version = "0"
  package init() {}

  /// The configuration with what the command line adds.
  package func effective(_ configuration: Configuration) -> Configuration {
    var configuration = configuration
    if !roots.isEmpty { configuration.roots = (configuration.roots ?? []) + roots }
    if let concurrency { configuration.concurrency = concurrency }
    return configuration
  }
}
