/// What is wrong with a job or a configuration, and where, in words for the person who wrote it.
package struct Malformed: Error, Equatable, Sendable, CustomStringConvertible {
  /// From 1; 0 when the place is named by `path` instead.
  package var line: Int
  /// Characters from 1; 0 when unknown.
  package var column: Int
  /// The key, as in `files[1].type`; empty for the whole file or a syntax error.
  package var path: String
  /// What is wrong and what to do; never a value that may be secret.
  package var reason: String

  /// A place in the text.
  package init(line: Int, column: Int, reason: String) {
    (self.line, self.column, self.path, self.reason) = (line, column, "", reason)
  }
  /// A place in the tree; an empty path means the whole.
  package init(_ path: String, _ reason: String) {
    (self.line, self.column, self.path, self.reason) = (0, 0, path, reason)
  }

  /// The same one level further out: `type` within `files[1]` is `files[1].type`.
  package func within(_ outer: String) -> Malformed {
    var moved = self
    if line == 0 {
      moved.path = path.isEmpty ? outer : path.hasPrefix("[") ? outer + path : "\(outer).\(path)"
    }
    return moved
  }

  /// For people, place first.
  package var description: String {
    if line > 0 { return "line \(line), column \(column): \(reason)" }
    return path.isEmpty ? reason : "\(path): \(reason)"
  }
}

/// Why a file is no job that this version can run; the three need different treatment.
package enum Refusal: Error, Equatable, Sendable, CustomStringConvertible {
  /// The bytes aren't JSON: somebody may still be writing them.
  case malformed(Malformed)
  /// JSON, but not a job: it will never run.
  case invalid(Malformed)
  /// A job for a newer worker; it waits for one.
  case newerFormat(Int)

  /// For people.
  package var description: String {
    switch self {
    case .malformed(let what): "not JSON: \(what)"
    case .invalid(let what): what.description
    case .newerFormat(let format):
      "format \(format) is newer than this version knows (\(Job.format)); it waits for a newer "
        + "worker"
    }
  }
}
