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
  /// What the configuration says.
  var attempts = 4
  var crashes = 5
  /// Work that was done once; it may be begun afresh by hand, and its duplicates stay done.
  var doneKeys: Set<String> = []
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
    if [.rename, .link, .fsync, .unlink].contains(call) { moveFailed() }
    say("\(call) says \(Errno(code))")
    return code
  }

  /// A claim that could be neither checked nor taken back stays without its lock, as after a crash.
  func moveFailed() {
    for inode in active.entries.values { inode.life?.crashes += 1 }
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
}
