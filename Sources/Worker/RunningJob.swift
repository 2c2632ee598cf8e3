internal import Destinations
internal import Jobs
internal import Loop
internal import Scheduling
internal import Spool
internal import System

/// One claimed job while it runs: what was sent, what its sidecar says, and how it is stopped.
@OnLoop final class RunningJob {
  let claim: Claim
  let destination: any Destination
  /// The circuit's and limits' number of its destination.
  let line: Int32
  /// Wall clock, for the circuit.
  let startedAt: Int64
  private(set) var sidecar: Sidecar
  private var progress: Progress
  private var rate = Rate()
  /// Whether a sidecar of this life is on the disk.
  var isTold: Bool
  /// What a person, a signal or a hold wants of it; nil: nothing.
  private(set) var stop: Stop?
  /// Its task; cancelled to stop it.
  var task: Task<Void, Never>?
  /// Seen nowhere at the last look (monotonic nanoseconds).
  var missingSince: Int64?
  /// A write of the sidecar that is under way; the last word waits for it.
  var telling: Task<Void, Never>?
  /// Something that must survive a power cut changed since the sidecar was written.
  private(set) var resumeChanged = false
  /// It lets nobody run beside it, since it may be what killed its worker.
  var isAlone: Bool
  /// Its destination took a file in this try.
  private(set) var tookAny = false
  /// It is its circuit's probe.
  let isProbe: Bool
  /// Bytes were safe at its start.
  let safeAtStart: Int64

  enum Stop: Sendable, Equatable {
    /// active/NAME was moved there by a person.
    case moved(Place)
    /// Its file was removed.
    case cancelled
    /// The worker ends, or everything is held: back to pending/.
    case drained
  }

  init(
    _ claim: Claim, to destination: any Destination, line: Int32, isAlone: Bool, isProbe: Bool,
    worker: String, boot: String, now: Int64
  ) {
    self.claim = claim
    (self.destination, self.line, self.startedAt) = (destination, line, now)
    (self.isAlone, self.isProbe) = (isAlone, isProbe)
    isTold = claim.sidecar != nil
    var sidecar =
      claim.sidecar
      ?? Self.firstWord(claim.job, id: claim.id, facts: claim.facts, name: claim.name, now: now)
    sidecar.begin(worker: worker, boot: boot, now: now)
    let job = claim.job
    let known = sidecar.files
    sidecar.files = job.files.enumerated().map { i, file in
      if i < known.count, known[i].path.hasSameBytes(as: file.path),
        known[i].remoteName.hasSameBytes(as: file.remoteName)
      {
        var old = known[i]
        if old.state != .done { (old.state, old.bytes, old.error) = (.waiting, 0, nil) }
        return old
      }
      return Sidecar.FileStatus(path: file.path, remoteName: file.remoteName)
    }
    sidecar.resume.removeAll { !job.files.indices.contains($0.file) }
    progress = Progress(files: job.files.count)
    self.sidecar = sidecar
    safeAtStart = sidecar.safeBytes
  }

  /// The entry of a resume state's data that names its destination.
  static let destinationKey = "destination"

  /// The sidecar of a job that has none yet.
  static func firstWord(_ job: Job, id: String, facts: Facts, name: Name, now: Int64) -> Sidecar {
    var sidecar = Sidecar(
      state: .active, job: JobName.stem(name), id: id, queuedAt: min(facts.changed, now),
      updatedAt: now)
    sidecar.title = job.title
    sidecar.group = job.group
    sidecar.extra = job.extra
    return sidecar
  }

  var name: Name { claim.name }
  var job: Job { claim.job }

  /// Asks it to stop; the first wish counts, but a cancellation overrules all.
  func stop(_ wish: Stop) {
    if stop == nil || wish == .cancelled || stop == .drained { stop = wish }
    task?.cancel()
  }

  /// It became free to run beside others: bytes flow, and nothing died of it.
  func madeProgress() { isAlone = false }

  // MARK: Files

  /// What a first look at the sources told; nil: it can't be had.
  func setSize(_ i: Int, _ facts: Facts?) {
    let isThere =
      sidecar.files[i].state == .done && facts != nil && facts?.size == sidecar.files[i].totalBytes
    progress.setSize(i, facts?.size)
    sidecar.files[i].totalBytes = facts?.size
    if isThere, let facts { progress.setSent(i, facts.size) }
    refresh()
  }

  /// Whether an earlier result of this file still counts: same place, size and mtime.
  func isDone(_ i: Int, _ target: Target, _ facts: Facts) -> Bool {
    let file = sidecar.files[i]
    return file.state == .done && file.url == target.url && file.target == target.digest
      && file.totalBytes == facts.size
      && file.modifiedAt == facts.modified
  }

  func resume(for i: Int) -> Sidecar.Resume? { sidecar.resume.first { $0.file == i } }

  func begin(_ i: Int, _ target: Target, _ facts: Facts) {
    sidecar.phase = .sending
    progress.setSize(i, facts.size)
    sidecar.files[i].state = .active
    sidecar.files[i].url = target.url
    sidecar.files[i].target = target.digest
    sidecar.files[i].totalBytes = facts.size
    sidecar.files[i].modifiedAt = facts.modified
    sidecar.files[i].error = nil
    sidecar.files[i].etag = nil
    sidecar.files[i].sha256 = nil
    refresh()
  }

  func sent(_ i: Int, _ bytes: Int64, _ resume: Sidecar.Resume?) {
    progress.setSent(i, bytes)
    sidecar.files[i].bytes = bytes
    if let resume { remember(resume) }
    refresh()
    rate.sample(now: Clock.monotonic(), bytes: progress.bytes)
  }

  private func remember(_ resume: Sidecar.Resume) {
    var resume = resume
    // Who is to clean up when the job's file is gone.
    resume.data.append(.init(name: Self.destinationKey, value: destination.key))
    if let at = sidecar.resume.firstIndex(where: { $0.file == resume.file }) {
      if sidecar.resume[at] == resume { return }
      sidecar.resume[at] = resume
    } else {
      sidecar.resume.append(resume)
      sidecar.resume.sort { $0.file < $1.file }
    }
    resumeChanged = true
  }

  func done(_ i: Int, _ receipt: Receipt, _ facts: Facts) {
    progress.setSent(i, facts.size)
    tookAny = true
    sidecar.files[i].state = .done
    sidecar.files[i].bytes = facts.size
    sidecar.files[i].sha256 = receipt.sha256
    sidecar.files[i].etag = receipt.etag
    sidecar.resume.removeAll { $0.file == i }
    resumeChanged = true
    refresh()
  }

  func failed(_ i: Int, _ message: String, forGood: Bool) {
    sidecar.files[i].state = forGood ? .failed : .waiting
    sidecar.files[i].error = message
  }

  /// An earlier result counts.
  func skip(_ i: Int, _ facts: Facts) {
    progress.setSize(i, facts.size)
    progress.setSent(i, facts.size)
    sidecar.files[i].bytes = facts.size
    refresh()
  }

  private func refresh() {
    sidecar.bytes = progress.bytes
    sidecar.totalBytes = progress.totalBytes
    sidecar.percent = max(sidecar.percent, progress.percent)
  }

  // MARK: Words

  /// What its sidecar says while it runs.
  func currentWord(now: Int64) -> Sidecar {
    let monotonic = Clock.monotonic()
    sidecar.updatedAt = now
    sidecar.bytesPerSecond = rate.bytesPerSecond(now: monotonic)
    sidecar.etaSeconds = sidecar.totalBytes.flatMap {
      rate.secondsLeft($0 - sidecar.bytes, now: monotonic)
    }
    resumeChanged = false
    return sidecar
  }

  /// What its sidecar says from now on, in another state.
  func word(_ state: Sidecar.State, now: Int64, _ change: (inout Sidecar) -> Void = { _ in })
    -> Sidecar
  {
    var word = sidecar
    word.state = state
    word.phase = nil
    word.updatedAt = now
    (word.bytesPerSecond, word.etaSeconds) = (nil, nil)
    for i in word.files.indices where word.files[i].state == .active {
      word.files[i].state = .waiting
    }
    if state.isFinal { word.finishedAt = now }
    if state == .done {
      word.percent = 100
      word.error = nil
      word.resume = []
      word.wait = nil
    }
    change(&word)
    sidecar = word
    return word
  }
}

extension Sidecar {
  /// A new try begins.
  mutating func begin(worker: String, boot: String, now: Int64) {
    state = .active
    phase = nil
    self.worker = worker
    self.boot = boot
    wait = nil
    finishedAt = nil
    startedAt = startedAt ?? now
    updatedAt = now
    attempt = failures + 1
    if crashProgress == nil { crashProgress = safeBytes }
  }

  /// The same file in a new life: what a person's move back to pending/ means.
  func reborn(queuedAt: Int64, now: Int64) -> Sidecar {
    var new = self
    switch state {
    case .done, .cancelled:
      new = Sidecar(state: .active, job: job, id: id, queuedAt: queuedAt, updatedAt: now)
      new.run = run + 1
      new.title = title
      new.group = group
      new.extra = extra
    case .failed:
      new.failures = 0
      new.crashes = 0
      new.crashProgress = nil
      new.mayRefund = false
      new.error = nil
      new.queuedAt = queuedAt
      new.startedAt = nil
      new.finishedAt = nil
    case .pending, .active, .paused: break
    }
    return new
  }
}
