internal import Destinations
internal import Jobs
internal import Loop
internal import System
internal import Transfer

/// What one destination's server does with its clients, by the history's dice.
@OnLoop final class Server {
  let name: String
  unowned let world: World
  var isAway = false
  var refusesSignIn = false
  var throttledUntil: Int64 = 0
  /// It goes on where an upload stopped.
  let resumes: Bool
  /// Half-sent uploads: bytes by ticket.
  private(set) var parts: [String: Int64] = [:]
  var running = 0

  init(_ name: String, _ world: World, resumes: Bool) {
    (self.name, self.world, self.resumes) = (name, world, resumes)
  }

  func setPart(_ ticket: String, _ bytes: Int64?) { parts[ticket] = bytes }
}

/// One worker's way to a server.
struct Client: Destination {
  let key: String
  let server: Server
  let process: Process

  func target(_ remoteName: String) -> Target { Target(url: "http://\(key)/\(remoteName)") }

  @OnLoop func send(
    _ upload: Upload, report: @escaping @OnLoop (Int64, Sidecar.Resume?) -> Void
  ) async throws(SendError) -> Receipt {
    let world = server.world
    let inode = UInt64(upload.ticket.prefix { $0 != "-" }, radix: 16) ?? 0
    let life = world.lives.first { life in
      world.whereabouts(life).contains { place, name in
        world.places[place]!.entries[name]?.number == inode
      }
    }
    guard let life else {
      // Removed in this moment.
      throw SendError(.jobForNow, "gone", "gone")
    }
    if let other = life.sending[upload.index] {
      world.broken("job \(life.number) is sent by \(process.number) and \(other) at once")
    }
    life.sending[upload.index] = process.number
    world.beganSending(process, key)
    defer {
      life.sending[upload.index] = nil
      world.endedSending(process, key)
    }
    do throws(SendError) {
      let receipt = try await talk(upload, life, report)
      life.acknowledged.insert(upload.index)
      if life.isSent, let key = life.dedupe { world.doneKeys.insert(key) }
      world.uploads += 1
      world.say("the server of \(key) has job \(life.number), file \(upload.index)")
      return receipt
    } catch {
      switch error.blame {
      case .jobForNow, .cut: life.troubles += 1
      case .jobForGood: life.isHopeless = true
      case .destination, .cancelled: break
      }
      world.say("job \(life.number): \(error.kind)")
      throw error
    }
  }

  @OnLoop private func pause(_ most: Int64) async throws(SendError) {
    let time = Int64(server.world.below(Int(most)))
    do throws(CancellationError) {
      try await Loop.shared.sleep(until: Clock.monotonic() + time)
    } catch {
      throw SendError(.cancelled, "cancelled", "cancelled")
    }
  }

  @OnLoop private func talk(
    _ upload: Upload, _ life: Life, _ report: @escaping @OnLoop (Int64, Sidecar.Resume?) -> Void
  ) async throws(SendError) -> Receipt {
    let world = server.world
    try await pause(world.chance(4) ? 3 * second : 50 * millisecond)
    if server.isAway { throw SendError(.destination(.unreachable), "unreachable", "away") }
    if server.refusesSignIn { throw SendError(.destination(.signIn), "signIn", "no", status: 401) }
    if Clock.wall() < server.throttledUntil {
      throw SendError(
        .destination(.throttled), "throttled", "slower", status: 429,
        retryAt: server.throttledUntil)
    }
    let size = upload.source.facts.size
    var offset: Int64 = 0
    if server.resumes, let resume = upload.resume, resume.size == size,
      resume.modifiedAt == upload.source.facts.modified, let part = server.parts[upload.ticket]
    {
      // It may have more than was heard of.
      offset = min(part, size)
    }
    var resume: Sidecar.Resume? {
      guard server.resumes else { return nil }
      return Sidecar.Resume(
        file: upload.index, url: target(upload.remoteName).url, size: size,
        modifiedAt: upload.source.facts.modified, offset: offset,
        data: [.init(name: "ticket", value: upload.ticket)])
    }
    let chaos = world.isChaotic
    for piece in 1...3 {
      let to = size * Int64(piece) / 3
      if to > offset { offset = to }
      if server.resumes { server.setPart(upload.ticket, offset) }
      if world.chance(3) { try await pause(2 * second) }
      if server.isAway { throw SendError(.cut, "cut", "cut") }
      report(offset, resume)
      if chaos && world.chance(20) { throw SendError(.cut, "cut", "cut in the middle") }
    }
    if chaos {
      switch world.below(40) {
      case 0: throw SendError(.jobForNow, "status", "500", status: 500)
      case 1: throw SendError(.jobForGood, "status", "400", status: 400)
      case 2:
        // It has everything, and its answer is lost.
        life.acknowledged.insert(upload.index)
        if life.isSent, let key = life.dedupe { world.doneKeys.insert(key) }
        throw SendError(.cut, "cut", "cut before the answer")
      default: break
      }
    }
    do throws(TransferError) {
      if let change = try await upload.source.change(limit: 300 * second) { throw change }
    } catch {
      throw SendError(.jobForNow, "source", "\(error)")
    }
    if world.isSabotaged(.lyingServer), life.files > 1 { life.acknowledged.remove(0) }
    server.setPart(upload.ticket, nil)
    return Receipt()
  }

  @OnLoop func remove(_ resume: Sidecar.Resume) async throws(SendError) {
    try await pause(20 * millisecond)
    if server.isAway { throw SendError(.destination(.unreachable), "unreachable", "away") }
    if let ticket = resume.data.first(where: { $0.name == "ticket" })?.value {
      server.setPart(ticket, nil)
    }
  }
}

extension World {
  static let concurrency = 3
  static let slots = 4
  static let slotsOfA = 2

  func beganSending(_ process: Process, _ key: String) {
    sendings.append((process.number, key))
    let alive = sendings.filter { !processes[$0.process].isDead }
    let less = isSabotaged(.strictLimits) ? 1 : 0
    if alive.count(where: { $0.process == process.number }) > Self.concurrency - less {
      broken("worker \(process.number) sends more than \(Self.concurrency) files at once")
    }
    if usesSlots, alive.count > Self.slots - less {
      broken("more than \(Self.slots) files at once")
    }
    if usesSlots, alive.count(where: { $0.key == "a" }) > Self.slotsOfA - less {
      broken("more than \(Self.slotsOfA) files at once to a")
    }
  }
  func endedSending(_ process: Process, _ key: String) {
    if let i = sendings.firstIndex(where: { $0.process == process.number && $0.key == key }) {
      sendings.remove(at: i)
    }
  }
}
