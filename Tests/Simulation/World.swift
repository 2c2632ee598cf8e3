internal import Glibc
internal import Jobs
internal import Loop
internal import Spool
internal import System
internal import TestKit

/// A job as its producer knows it, from its file's first name to its end.
final class Life {
  let number: Int
  var text: [UInt8]
  let files: Int
  let dedupe: String?
  /// File and name were synced: no power cut may take it away.
  var isDurable = false
  /// It is no job, or was cut down to none by a power cut.
  var isMalformed = false
  var isRemoved = false
  /// When a person removed one of several names.
  var lostNameAt: Int64?
  /// Its producer isn't done with it.
  var isBeingWritten = false
  /// Files that a server said it has, in this run.
  var acknowledged: Set<Int> = []
  /// A person called it done.
  var isCalledDone = false
  /// What a server or a source said against it, since it was begun afresh; and whether for good.
  var troubles = 0
  var isHopeless = false
  var crashes = 0
  /// Who sends which of its files right now.
  var sending: [Int: Int] = [:]
  var lastWord: (id: String, run: Int, percent: Double, state: Sidecar.State)?

  init(_ number: Int, _ text: [UInt8], files: Int, dedupe: String?) {
    (self.number, self.text, self.files, self.dedupe) = (number, text, files, dedupe)
  }
  var isSent: Bool { acknowledged.count == files }
}

/// What shows that the invariants are looked at: each must be found out.
enum Sabotage: String, CaseIterable {
  // The product's world is broken …
  case withoutSync, withoutLocks, overwriting, lyingServer
  // … or more is asked for than it promises.
  case strictLimits, moreAttempts, percentBack
}

/// Everything that one history happens in.
final class World: @unchecked Sendable {
  struct File {
    var inode: Inode
    var process: Int
    var writes: Bool
    var offset: Int64 = 0
  }

  let disk = Disk()
  var random: Seeded
  let sabotage: Sabotage?
  var files: [Int32: File] = [:]
  /// Never the same for two histories of this process.
  private var lastDescriptor: Int32
  private(set) var processes: [Process] = []
  private(set) var lives: [Life] = []
  private(set) var violation: String?
  var log: [String]?

  /// While faults and people are about.
  var isChaotic = true
  /// One call in so many fails; 0: none.
  var faultRate = 0
  var hasNoEvents = false
  var losesEvents = false
  /// Something that a person does may come between any two calls.
  var person: (() -> Void)?
  private var isInMeanwhile = false
  var counts: [String: Int] = [:]
  /// Transfers that run, by worker and destination.
  var sendings: [(process: Int, key: String)] = []
  var usesSlots = false
  var uploads = 0
  var dones = 0

  init(seed: UInt64, sabotage: Sabotage?) {
    random = Seeded(seed)
    lastDescriptor = SimulatedKernel.firstDescriptor + Int32(seed % 10_000) * 100_000
    self.sabotage = sabotage
    processes = [Process(self, 0)]
  }

  var people: Process { processes[0] }
  func isSabotaged(_ kind: Sabotage) -> Bool { sabotage == kind }
  func chance(_ n: Int) -> Bool { Int(random.next() % UInt64(n)) == 0 }
  func below(_ n: Int) -> Int { Int(random.next() % UInt64(n)) }
  func pick<T>(_ all: [T]) -> T { all[below(all.count)] }
  func count(_ what: String) { counts[what, default: 0] += 1 }

  func say(_ text: @autoclosure () -> String) {
    if log != nil { log!.append("\(Clock.monotonic() / millisecond) ms: \(text())") }
  }
  func broken(_ what: String) {
    say("VIOLATION: \(what)")
    if violation == nil { violation = what }
  }

  // MARK: Processes and descriptors

  func newProcess() -> Process {
    let process = Process(self, processes.count)
    processes.append(process)
    return process
  }

  func processDied(_ number: Int) {
    count("deaths of a worker")
    say("worker \(number) dies")
    for life in lives {
      if life.sending.values.contains(number) { life.crashes += 1 }
    }
    for inode in active.entries.values { inode.life?.crashes += 1 }
    processEnded(number)
  }

  func processEnded(_ number: Int) {
    for (fd, file) in files where file.process == number { close(fd) }
    for life in lives {
      life.sending = life.sending.filter { $0.value != number }
    }
    Loop.shared.kill(number)
  }

  func open(_ inode: Inode, process: Int, writes: Bool, _ name: Name) -> Int32 {
    lastDescriptor += 1
    let fd = lastDescriptor
    files[fd] = File(inode: inode, process: process, writes: writes)
    inode.opens += 1
    if writes { inode.writers += 1 }
    return fd
  }

  func close(_ fd: Int32) {
    guard let file = files.removeValue(forKey: fd) else { return }
    let inode = file.inode
    inode.opens -= 1
    if file.writes { inode.writers -= 1 }
    if inode.lock == fd { inode.lock = nil }
    disk.forget(inode)
    if file.writes, !inode.isDirectory, !places.isEmpty {
      for (place, directory) in places where place == .pending {
        if let name = directory.entries.first(where: { $0.value === inode })?.key {
          tell(directory, UInt32(IN_CLOSE_WRITE), name)
        }
      }
    }
  }

  func facts(_ inode: Inode) -> Facts {
    Facts(
      inode: inode.number, size: Int64(inode.content.count), modified: inode.modified,
      changed: inode.changed, born: disk.hasBirthTimes ? inode.born : nil,
      mode: inode.isDirectory ? S_IFDIR | 0o755 : S_IFREG | 0o644, links: UInt32(inode.links))
  }

  // MARK: Places

  var places: [Place: Inode] = [:]
  var active: Inode { places[.active]! }
  var progress: Inode!
  var workers: Inode!
  /// The files that jobs name.
  var sources: [Inode] = []
  /// The people's own descriptors.
  var fds: [Place: Int32] = [:]
  var rootFD: Int32 = 0
  var usesKeys = false
  var mostJobs = 8

  /// The file of a job begins to be one.
  func adopt(_ fd: Int32, _ life: Life) { files[fd]?.inode.life = life }
  func isOpen(_ fd: Int32) -> Bool { files[fd] != nil }

  /// Makes the spool and the sources, durable from the start.
  func build() {
    func make(_ name: String, in parent: Inode) -> Inode {
      let inode = disk.make(isDirectory: true)
      disk.change([(parent, Name(name), inode)])
      return inode
    }
    let spool = make("spool", in: disk.root)
    for place in Place.allCases {
      let inode = make(place.rawValue, in: spool)
      inode.place = place
      places[place] = inode
    }
    (progress, workers) = (make("progress", in: spool), make("workers", in: spool))
    let src = make("src", in: disk.root)
    for i in 0..<4 {
      let inode = disk.make(isDirectory: false)
      inode.content = [UInt8](repeating: 1, count: i * 700)
      disk.change([(src, Name(String(i)), inode)])
      sources.append(inode)
    }
    disk.syncAll()
    openPeoplesDirectories()
  }

  func openPeoplesDirectories() {
    for place in Place.allCases {
      fds[place] = open(places[place]!, process: 0, writes: false, Name("."))
    }
    rootFD = open(disk.root.entries[Name("spool")]!, process: 0, writes: false, Name("."))
  }

  /// The machine stops in this moment: all processes end, and the disk keeps what it has.
  func cutPower() {
    count("power cuts")
    say("power cut")
    for process in processes where !process.isPerson { process.die() }
    files = [:]
    disk.cutPower(&random)
    openPeoplesDirectories()
    // Drafts that weren't there yet.
    for place in Place.allCases {
      for (name, inode) in places[place]!.entries where name.bytes.starts(with: Array(".drop".utf8))
      {
        disk.change([(places[place]!, name, nil)])
        inode.life?.isRemoved = true
      }
    }
    for life in lives {
      // What a sidecar said last may be gone, and a move of a finished job undone.
      life.lastWord = nil
      if life.isBeingWritten { life.isMalformed = true }
      if whereabouts(life).contains(where: { $0.0 == .done }) { life.isCalledDone = true }
    }
    verify(afterCut: true)
  }

  /// The place and name of a job's file, if it has one.
  func whereabouts(_ life: Life) -> [(Place, Name)] {
    Place.allCases.flatMap { place in
      places[place]!.entries.filter { $0.value.life === life }.map { (place, $0.key) }
    }
  }

  func newLife(_ text: [UInt8], files: Int, dedupe: String?) -> Life {
    let life = Life(lives.count + 1, text, files: files, dedupe: dedupe)
    lives.append(life)
    return life
  }

  // MARK: What happens at each call

  private static let codes: [Call: [Int32]] = [
    .open: [EACCES, ENOSPC, EDQUOT, EROFS, ESTALE, EMFILE, EINTR, EIO],
    .statx: [EIO, ESTALE, EINTR], .flock: [ENOLCK, EWOULDBLOCK, EINTR],
    .read: [EIO, ESTALE, EINTR], .write: [ENOSPC, EDQUOT, EIO, EINTR],
    .fsync: [EIO, ENOSPC, EDQUOT, EINTR], .syncfs: [EIO, ENOSPC],
    .rename: [ENOSPC, EDQUOT, EIO, EACCES, ESTALE, EINTR, EXDEV],
    .replace: [ENOSPC, EDQUOT, EIO, ESTALE, EINTR],
    .link: [ENOSPC, EDQUOT, EIO, EMLINK], .unlink: [EIO, EACCES],
    .truncate: [EIO], .getdents: [EIO, ESTALE],
  ]

  func fault(_ call: Call) -> Int32 {
    guard isChaotic, faultRate > 0, chance(faultRate), let codes = Self.codes[call] else {
      return 0
    }
    let code = pick(codes)
    count("\(call): \(Errno(code))")
    // A claim that could be neither checked nor taken back stays without its lock.
    if call == .rename { for inode in active.entries.values { inode.life?.crashes += 1 } }
    say("\(call) says \(Errno(code))")
    return code
  }

  func meanwhile(_ process: Process) {
    guard isChaotic, !isInMeanwhile else { return }
    let draw = random.next()
    if draw % 40 == 0 {
      isInMeanwhile = true
      OnLoop.assume { Loop.shared.interleave() }
      isInMeanwhile = false
    } else if draw % 97 == 1, let person {
      isInMeanwhile = true
      person()
      isInMeanwhile = false
    }
  }

  /// Tells who watches a directory; some events are lost, as when the kernel's queue overflows.
  func tell(_ directory: Inode, _ event: UInt32, _ name: Name) {
    for process in processes where !process.isDead {
      for watch in process.watches where watch.directory === directory && watch.mask & event != 0 {
        if losesEvents && chance(4) { continue }
        watch.tell(event, name)
      }
    }
  }

  // MARK: What must hold

  /// Does it, and looks at what it means for jobs.
  func change(_ parts: [(directory: Inode, name: Name, inode: Inode?)], by process: Process) {
    let replaced = parts.compactMap { part in
      part.inode == nil ? nil : part.directory.entries[part.name]
    }
    let removed = parts.compactMap { part in
      part.inode == nil ? part.directory.entries[part.name] : nil
    }
    disk.change(parts)
    if parts.count == 1, let life = removed.first?.life {
      say(
        "\(process.number): job \(life.number) from \(parts[0].directory.place.map { "\($0)" } ?? "?")/\(parts[0].name)"
      )
    }
    if let target = parts.last, let inode = target.inode, let life = inode.life {
      let from = parts.count == 2 ? parts[0].directory.place : nil
      say(
        "\(process.number): job \(life.number) to \(target.directory.place.map { "\($0)" } ?? "?")/\(target.name)"
      )
      if target.directory.place == nil { broken("job \(life.number) was moved out of the spool") }
      let isThere =
        parts.count == 1 && whereabouts(life).count { $0.0 == target.directory.place } > 1
      if from != target.directory.place && !isThere {
        arrived(life, target.directory.place, process)
      }
    } else if let target = parts.last, let inode = target.inode, target.directory === progress,
      parts.count == 2
    {
      published(inode, target.name)
    }
    for inode in replaced + removed {
      guard let life = inode.life else { continue }
      if inode.links > 0 {
        // Of the two names that a move without NOREPLACE has for a moment.
        if process.isPerson { life.lostNameAt = Clock.monotonic() }
        continue
      }
      if process.isPerson || life.lostNameAt == Clock.monotonic() {
        life.isRemoved = true
        say("job \(life.number) is removed")
      } else {
        broken("job \(life.number) lost its last name by a worker")
      }
    }
  }

  private func arrived(_ life: Life, _ place: Place?, _ process: Process) {
    switch place {
    case .done:
      if process.isPerson { life.isCalledDone = true }
      dones += 1
      if life.isSent || life.isCalledDone, let key = life.dedupe { doneKeys.insert(key) }
      if !life.isSent && !life.isCalledDone && !isDuplicate(life) {
        broken(
          "job \(life.number) is called done, and the server has \(life.acknowledged.sorted()) of "
            + "\(life.files) files")
      }
    case .failed where !process.isPerson:
      let attempts = attempts + (isSabotaged(.moreAttempts) ? 1 : 0)
      let mayFail =
        life.isHopeless || life.isMalformed || life.troubles >= attempts
        || life.crashes >= crashes
      if !mayFail {
        broken(
          "job \(life.number) failed after \(life.troubles) troubles and \(life.crashes) crashes")
      }
    // Their word, which its worker writes down.
    case .failed: life.isHopeless = true
    // It has no worker there, and counts as one that died with it.
    case .active where process.isPerson: life.crashes += 1
    default: break
    }
  }
  var attempts = 4
  var crashes = 5

  /// Work that was done once; it may be begun afresh by hand, and its duplicates stay done.
  private var doneKeys: Set<String> = []

  private func isDuplicate(_ life: Life) -> Bool {
    life.dedupe.map { doneKeys.contains($0) } ?? false
  }

  /// A sidecar came to its place: percent never goes back within a run.
  private func published(_ inode: Inode, _ name: Name) {
    guard let word = Sidecar.decode(inode.content) else {
      return broken("progress/\(name) is no sidecar")
    }
    guard let life = lives.first(where: { $0.lastWord?.id == word.id }) ?? life(of: word.id) else {
      return
    }
    // Under another name it is what a power cut left of an older one.
    // Of two names each has its own.
    let all = whereabouts(life)
    guard all.count == 1, all[0].1 == name else { return }
    say("job \(life.number): \(word.state), run \(word.run), \(word.percent) percent, as \(name)")
    if let last = life.lastWord, last.id == word.id, last.run == word.run, !last.state.isFinal,
      isSabotaged(.percentBack) ? word.percent < last.percent + 0.1 : word.percent < last.percent,
      !life.isMalformed
    {
      broken("job \(life.number) went from \(last.percent) to \(word.percent) percent")
    }
    life.lastWord = (word.id, word.run, word.percent, word.state)
  }

  /// What its sidecar says of it, if that is its own.
  func word(of life: Life) -> Sidecar.State? {
    guard let (place, name) = whereabouts(life).first,
      let sidecar = progress.entries[name].flatMap({ Sidecar.decode($0.content) }),
      sidecar.id == jobID(facts(places[place]!.entries[name]!), bytes: life.text)
    else { return nil }
    return sidecar.state
  }

  func life(of id: String) -> Life? {
    for place in Place.allCases {
      for inode in places[place]!.entries.values {
        if let life = inode.life, jobID(facts(inode), bytes: life.text) == id { return life }
      }
    }
    return nil
  }

  /// Each job that nobody removed has its names and its bytes.
  func verify(afterCut: Bool = false) {
    var names = [Int](repeating: 0, count: lives.count + 1)
    for place in Place.allCases {
      for (name, inode) in places[place]!.entries {
        guard let life = inode.life else { continue }
        names[life.number] += 1
        if life.isRemoved {
          if afterCut { life.isRemoved = false } else { broken("\(place)/\(name) came back") }
        }
        if inode.content != life.text {
          if afterCut && !life.isDurable {
            (life.text, life.isMalformed) = (inode.content, true)
          } else {
            broken("\(place)/\(name) has other bytes")
          }
        }
      }
    }
    for life in lives where !life.isRemoved && names[life.number] != 1 {
      if names[life.number] > 1 && !disk.hasNoReplace { continue }
      if names[life.number] == 0 && afterCut && !life.isDurable {
        life.isRemoved = true
        count("jobs that were never synced, lost by a power cut")
        continue
      }
      broken("job \(life.number) has \(names[life.number]) names")
    }
  }
}
