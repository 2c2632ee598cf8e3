internal import Configuration
internal import Destinations
internal import Jobs
internal import Loop
internal import Scheduling
internal import Spool
internal import System
internal import Transfer

/// Running one job: its files, in order, `parallel` at once.
extension Worker {
  func start(_ job: RunningJob) {
    running[job.name] = job
    limits.started(job.line)
    if ticksSlowly, let tickTimer {
      Loop.shared.cancel(tickTimer)
      scheduleTick()
    }
    job.task = Loop.shared.start { await self.run(job) }
  }

  private func run(_ job: RunningJob) async {
    let lanes = Lanes(count: job.job.files.count)
    if job.job.files.count > 1 {
      let facts = await sources.facts(job.job.files.map(\.path))
      for (i, facts) in facts.enumerated() { job.setSize(i, facts) }
    }
    let width = min(job.job.parallel, job.job.files.count)
    if width > 1 {
      await withDiscardingTaskGroup { group in
        for lane in 0..<width {
          group.addTask { await self.lane(lane, job, lanes) }
        }
      }
    } else {
      await lane(0, job, lanes)
    }
    await job.telling?.value
    finish(job, lanes)
  }

  /// Sends files one after the other. The first lane has the job's slot; each further one needs a
  /// slot of its own for as long as it sends.
  private func lane(_ lane: Int, _ job: RunningJob, _ lanes: Lanes) async {
    if lane > 0 {
      guard await takeSlot(job.line, lanes) else { return }
    }
    while job.stop == nil, let i = lanes.next() {
      do throws(SendError) {
        try await send(i, job)
      } catch {
        let error = redacted(error, job.job)
        lanes.add(i, error, stopsOthers: stopsOthers(error, job))
        let text = configuration.redactor.redact(error.message)
        job.failed(i, text, forGood: error.blame == .jobForGood)
      }
    }
    if lane > 0 { giveSlot(job.line) }
    // The others would wait for this one's slot, which the job keeps until they are over.
    if !lanes.hasMore { wakeLanes() }
  }

  /// A server may say again what the job itself carries to sign in with.
  private func redacted(_ trouble: SendError, _ job: Job) -> SendError {
    var secrets: [String] = []
    for header in job.headers where Configuration.Destination.isCredential(header.name) {
      secrets.append(header.value)
      secrets += header.value.split(separator: " ").dropFirst().map(String.init)
    }
    if case .url(let url) = job.destination, let user = URLParts(url)?.userInfo {
      secrets.append(user)
      secrets += user.split(separator: ":").dropFirst().map(String.init)
    }
    if secrets.isEmpty { return trouble }
    var new = trouble
    let redactor = Redactor(secrets)
    new.message = redactor.redact(trouble.message)
    new.advice = trouble.advice.map { redactor.redact($0) }
    return new
  }

  private func stopsOthers(_ trouble: SendError, _ job: RunningJob) -> Bool {
    switch trouble.blame {
    case .destination, .cancelled: true
    case .jobForNow, .cut, .jobForGood: job.job.onError == .stop
    }
  }

  /// One file: open, send, check.
  private func send(_ i: Int, _ job: RunningJob) async throws(SendError) {
    let file = job.job.files[i]
    let source = try await sources.open(file.path)
    let target = job.destination.target(file.remoteName)
    if job.isDone(i, target, source.facts) { return job.skip(i, source.facts) }
    // What lies half-sent somewhere else, or of another version of the file, is worthless.
    if let old = job.resume(for: i),
      old.url != target.url || old.size != source.facts.size
        || old.modifiedAt != source.facts.modified
    {
      try? await job.destination.remove(old)
    }
    job.begin(i, target, source.facts)
    let (claim, run) = (job.claim, job.sidecar.run)
    let upload = Upload(
      source: source, remoteName: file.remoteName, type: file.type,
      ticket: "\(claim.id).\(run).\(i)", index: i, resume: job.resume(for: i)
    ) {
      let digest = Digest.of(claim.bytes, .sha256).prefix(8).hex
      return "\(claim.id).\(run).\(digest).\(i)"
    }
    // What is small is there a moment later; after a crash in it recovery finds out.
    if upload.resume == nil, source.facts.size > 1 << 20,
      let leftover = job.destination.leftover(file.remoteName, ticket: upload.ticket, index: i)
    {
      job.sent(i, 0, leftover)
      await tell(job)
    }
    let receipt = try await job.destination.send(upload) { bytes, resume in
      job.sent(i, bytes, resume)
      if bytes > 0 { self.sawProgress(job) }
    }
    job.done(i, receipt, source.facts)
    bytesSent += source.facts.size
  }

  private func sawProgress(_ job: RunningJob) {
    job.madeProgress()
    guard var circuit = circuits[job.line], circuit.isOpen else { return }
    circuit.sawProgress(Clock.wall())
    circuits[job.line] = circuit
    if !circuit.isOpen { pumpSoon() }
  }

  // MARK: Slots of further lanes

  /// Waits for a slot; false when there is nothing left to do with it.
  private func takeSlot(_ line: Int32, _ lanes: Lanes) async -> Bool {
    while !Task.isCancelled, lanes.hasMore {
      if mayStart(line) {
        limits.started(line)
        return true
      }
      let waiter = Once<Bool>()
      laneWaiters.append((line, waiter))
      let go = await withTaskCancellationHandler {
        await waiter.value()
      } onCancel: {
        Loop.shared.onLoop { waiter.end(false) }
      }
      if !go { return false }
    }
    return false
  }

  func giveSlot(_ line: Int32) {
    limits.ended(line)
    if !slots.isEmpty { giveUnused() }
    wakeLanes()
    pumpSoon()
  }

  /// Jobs that run already get a free slot before new ones start.
  func wakeLanes() {
    let waiters = laneWaiters
    laneWaiters = []
    for waiter in waiters { waiter.resume.end(true) }
  }
}

/// The files of a running job that are still to be sent, and what went wrong so far.
@OnLoop final class Lanes {
  private var upcoming = 0
  private let count: Int
  private var isStopped = false
  private(set) var troubles: [(file: Int, trouble: SendError)] = []

  init(count: Int) { self.count = count }

  var hasMore: Bool { !isStopped && upcoming < count }

  func next() -> Int? {
    guard hasMore, !Task.isCancelled else { return nil }
    defer { upcoming += 1 }
    return upcoming
  }

  func add(_ file: Int, _ trouble: SendError, stopsOthers: Bool) {
    troubles.append((file, trouble))
    if stopsOthers { isStopped = true }
  }
}
