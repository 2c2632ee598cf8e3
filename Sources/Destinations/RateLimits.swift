package import Configuration
package import Loop
internal import System
internal import Transfer

/// The limits of bytes and requests per second of the configured destinations. They outlive the
/// configuration: what runs while it is read again keeps to the new limits from then on.
@OnLoop package final class RateLimits {
  private var throttles: [String: Throttle] = [:]
  private var pacers: [String: Pacer] = [:]

  package init() {}

  func throttle(_ name: String, _ bytesPerSecond: Int64?) -> Throttle {
    if let known = throttles[name] {
      if known.bytesPerSecond != bytesPerSecond ?? 0 { known.set(bytesPerSecond ?? 0) }
      return known
    }
    let new = Throttle(bytesPerSecond ?? 0)
    throttles[name] = new
    return new
  }

  func pacer(_ name: String, _ requestsPerSecond: Double?) -> Pacer {
    if let known = pacers[name] {
      known.set(requestsPerSecond ?? 0)
      return known
    }
    let new = Pacer(requestsPerSecond ?? 0)
    pacers[name] = new
    return new
  }

  /// What a new configuration says, for those that are in use.
  package func apply(_ configuration: Configuration) {
    for name in throttles.keys { _ = throttle(name, configuration.destinations[name]?.bandwidth) }
    for name in pacers.keys {
      _ = pacer(name, configuration.destinations[name]?.requestsPerSecond)
    }
  }

  /// A request to a destination is to start soon.
  package func reserve(_ name: String) { pacers[name]?.reserve() }

  /// When a destination may get its next request (monotonic nanoseconds); nil: at once.
  package func nextTurn(_ name: String) -> Int64? {
    guard let time = pacers[name]?.nextTurn, time > Clock.monotonic() else { return nil }
    return time
  }
}
