internal import Glibc
internal import Jobs
internal import Spool
internal import System

/// A job as a look at the directories finds it.
struct Listed {
  var name: Name
  var place: Place
  var inode: UInt64
  /// Nanoseconds since 1970; nil where the filesystem keeps no birth times.
  var born: Int64?
  /// Nanoseconds since 1970.
  var modified: Int64
  /// When it came to its place.
  var changed: Int64

  init(_ name: Name, _ place: Place, _ facts: Facts) {
    (self.name, self.place) = (name, place)
    (inode, born) = (facts.inode, facts.born)
    (modified, changed) = (facts.modified, facts.changed)
  }
}

/// What a person asks for: names, patterns, or (without any) everything.
struct Selection {
  /// With its `.json`, or a pattern as fnmatch(3) takes it.
  private struct Wanted {
    var literals: [Name]
    var patterns: [Name]
    var shown: String
  }
  private let wanted: [Wanted]

  /// `names` are names and never patterns: they come from a list, not from a person.
  init(_ operands: [Name], names: [Name] = []) {
    let isName =
      Array(repeating: false, count: operands.count)
      + Array(repeating: true, count: names.count)
    wanted = zip(operands + names, isName).map { operand, isName in
      let full = fileName(of: operand)
      let withSuffix = Name(bytes: Array(operand.bytes) + ".json".utf8)
      let isPattern = !isName && operand.bytes.contains { "*?[".utf8.contains($0) }
      return Wanted(
        // `a.json` may mean the job `a`, or, by the same rule as others, `a.json.json`.
        literals: full == withSuffix ? [full] : [full, withSuffix],
        patterns: isPattern ? [operand, withSuffix] : [],
        shown: operand.description.printable())
    }
  }

  var isEverything: Bool { wanted.isEmpty }

  /// What is meant by one operand.
  struct Match {
    var shown: String
    var isPattern: Bool
    var jobs: [Listed]
  }

  /// The jobs of each operand in turn, in whatever state.
  func matches(_ spool: Spool, _ body: (Match) throws -> Void) throws {
    for one in wanted {
      var jobs = try literal(one.literals, spool)
      let isPattern = jobs.isEmpty && !one.patterns.isEmpty
      if isPattern { jobs = try matching(one.patterns, spool) }
      try body(Match(shown: one.shown, isPattern: isPattern, jobs: jobs))
    }
  }

  /// The jobs that are wanted, by state; `missing` is called with each name that nothing bears.
  func jobs(_ spool: Spool, missing: (String) -> Void) throws(Errno) -> [Listed] {
    var all: [Listed] = []
    for one in wanted {
      var found = try literal(one.literals, spool)
      if found.isEmpty, !one.patterns.isEmpty { found = try matching(one.patterns, spool) }
      if found.isEmpty { missing(one.shown) }
      all += found
    }
    var seen: Set<String> = []
    return all.filter { seen.insert("\($0.inode) \($0.place)").inserted }
  }

  private func literal(_ names: [Name], _ spool: Spool) throws(Errno) -> [Listed] {
    for name in names where !name.bytes.contains(UInt8(ascii: "/")) && JobName.isJob(name) {
      var found: [Listed] = []
      for place in Place.allCases {
        if let facts = try spool.calls.factsIfThere(of: name, in: spool.directory(place)),
          facts.isRegular
        {
          found.append(Listed(name, place, facts))
        }
      }
      if !found.isEmpty { return found }
    }
    return []
  }

  private func matching(_ patterns: [Name], _ spool: Spool) throws(Errno) -> [Listed] {
    var found: [Listed] = []
    for place in Place.allCases {
      try each(place, spool) { name in
        patterns.contains { pattern in
          unsafe fnmatch(pattern.cString, name.cString, 0) == 0
        }
      } body: {
        found.append($0)
      }
    }
    return found
  }
}

/// Streams the jobs of a place that are wanted; what goes away meanwhile, or is no regular file, is
/// left out.
func each(
  _ place: Place, _ spool: Spool, where isWanted: (Name) -> Bool = { _ in true },
  body: (Listed) -> Void
) throws(Errno) {
  let listing = try spool.listing(of: place)
  let directory = spool.directory(place)
  while let names = try listing.next(spool.calls) {
    for name in names where JobName.isJob(name) && isWanted(name) {
      if let facts = try spool.calls.factsIfThere(of: name, in: directory), facts.isRegular {
        body(Listed(name, place, facts))
      }
    }
  }
}

/// The newest of many, in bounded memory.
struct Newest {
  private var kept: [Listed] = []
  private let limit: Int
  /// How many there were in all.
  private(set) var count = 0

  init(limit: Int) { self.limit = limit }

  mutating func add(_ job: Listed) {
    count += 1
    kept.append(job)
    if kept.count >= limit * 8 + 64 { trim() }
  }
  private mutating func trim() {
    kept.sort { ($0.changed, $1.name) > ($1.changed, $0.name) }
    kept.removeLast(max(0, kept.count - limit))
  }
  /// Newest first.
  var sorted: [Listed] {
    var copy = self
    copy.trim()
    return copy.kept
  }
}
