internal import Glibc
internal import Loop
internal import System

// simulation FIRST COUNT [--told] [--sabotage KIND]: histories from the seed FIRST on.
//
// Swift's dictionaries are ordered by chance; SWIFT_DETERMINISTIC_HASHING=1 makes a seed repeatable,
// and is set here for this program's own second start.

let words = CommandLine.arguments
guard words.count >= 3, let first = UInt64(words[1]), let number = UInt64(words[2]) else {
  print("usage: simulation FIRST COUNT [--told] [--sabotage KIND]")
  exit(2)
}
if unsafe getenv("SWIFT_DETERMINISTIC_HASHING") == nil {
  unsafe setenv("SWIFT_DETERMINISTIC_HASHING", "1", 1)
  var arguments = unsafe words.map { unsafe strdup($0) } + [nil]
  unsafe execv("/proc/self/exe", &arguments)
  exit(2)
}
let isTold = words.contains("--told")
let sabotage = words.firstIndex(of: "--sabotage").flatMap { Sabotage(rawValue: words[$0 + 1]) }

Loop.shared.beginSimulation()
OnLoop.assume { exit(simulate(first, number, isTold: isTold, sabotage)) }

@OnLoop func simulate(_ first: UInt64, _ number: UInt64, isTold: Bool, _ sabotage: Sabotage?)
  -> Int32
{
  var counts: [String: Int] = [:]
  var violations = 0
  var (uploads, dones, lives, simulated) = (0, 0, 0, Int64(0))
  for seed in first..<(first + number) {
    guard let history = try? History(seed, sabotage: sabotage, isTold: isTold) else { return 2 }
    let violation = history.run()
    if isTold { for line in history.world.log ?? [] { print(line) } }
    if let violation {
      print("seed \(seed): \(violation)")
      fflush(nil)
      violations += 1
      if violations == 20 { return 1 }
    }
    counts.merge(history.world.counts, uniquingKeysWith: +)
    uploads += history.world.uploads
    dones += history.world.dones
    lives += history.world.lives.count
    simulated += history.simulated
    Loop.shared.endSimulation()
  }
  print("histories \(number)")
  print("simulated seconds \(simulated / second)")
  print("jobs \(lives)")
  print("uploads \(uploads)")
  print("arrivals in done \(dones)")
  for (what, count) in counts.sorted(by: { $0.key < $1.key }) { print("\(what) \(count)") }
  return violations == 0 ? 0 : 1
}
