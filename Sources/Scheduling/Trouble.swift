internal import System

/// What is wrong with a destination, as far as the next try depends on it.
package enum Trouble: String, Sendable, CaseIterable {
  /// No connection, a time-out before a byte, 502, 503, 504 and their kin.
  case unreachable
  /// It answers, and asks for less: 429, or 503 with words to that effect.
  case throttled
  /// It refuses the user, key or signature: tried slowly, so that no account gets locked.
  case signIn
  /// No space left there: 507 or a quota.
  case full

  /// How far apart probes are. All but a refused sign-in stay within 30 s,
  /// random part included.
  package var backoff: Backoff {
    switch self {
    case .unreachable, .throttled: Backoff(first: 1 * second, most: 20 * second)
    case .signIn: Backoff(first: 30 * second, most: 900 * second)
    case .full: Backoff(first: 10 * second, most: 20 * second)
    }
  }
}
