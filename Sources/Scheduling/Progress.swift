/// How far a job of many files is; its percentage never goes back.
///
/// Sizes become known one by one. A file of unknown size counts as large as the known ones are on
/// average. 100 is reached by `finish` alone, since until then something may have to be sent again.
package struct Progress: Equatable, Sendable {
  private var sent: [Int64]
  private var sizes: [Int64]
  /// The part that the files are of the whole: 0.9 where an acknowledgement follows, else 1.
  private let share: Double
  private var highest = 0.0
  private var known = 0
  private var knownBytes: Int64 = 0
  private var isFinished = false

  /// Bytes of all files that have been acknowledged or sent so far.
  package private(set) var bytes: Int64 = 0

  /// A job of so many files; `share` is how much of the whole they make up, 0 to 1.
  package init(files: Int, share: Double = 1) {
    sent = Array(repeating: 0, count: max(0, files))
    sizes = Array(repeating: -1, count: max(0, files))
    self.share = min(1, max(0, share))
  }

  /// Bytes of the whole job; nil until every file's size is known.
  package var totalBytes: Int64? { known == sizes.count ? knownBytes : nil }

  /// A file's size in bytes became known or changed; nil: unknown (again).
  package mutating func setSize(_ file: Int, _ bytes: Int64?) {
    guard sizes.indices.contains(file) else { return }
    if sizes[file] >= 0 {
      known -= 1
      knownBytes = knownBytes.minus(sizes[file])
    }
    sizes[file] = bytes.map { max(0, $0) } ?? -1
    if sizes[file] >= 0 {
      known += 1
      knownBytes = knownBytes.plus(sizes[file])
    }
    settle()
  }

  /// So many of a file's bytes are there; fewer than before when it starts again.
  package mutating func setSent(_ file: Int, _ bytes: Int64) {
    guard sent.indices.contains(file) else { return }
    let now = max(0, bytes)
    self.bytes = self.bytes.minus(sent[file]).plus(now)
    sent[file] = now
    settle()
  }

  /// The whole job is done: 100 percent.
  package mutating func finish() {
    isFinished = true
    highest = 100
  }

  /// 0 to 100 in steps of a tenth, rounded down; never less than it was, and 100 only when finished.
  package var percent: Double { highest }

  private mutating func settle() {
    guard !isFinished, !sizes.isEmpty else { return }
    guard known > 0 else { return }
    let average = Double(knownBytes) / Double(known)
    let total = Double(knownBytes) + average * Double(sizes.count - known)
    let part = total > 0 ? min(1, Double(bytes) / total) : 0
    let tenths = (part * share * 1000).rounded(.down)
    highest = max(highest, min(tenths, 999) / 10)
  }
}
