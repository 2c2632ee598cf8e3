internal import Glibc
internal import Jobs
internal import Loop
internal import Spool
internal import System

/// What producers and people do, each thing as a program of theirs would.
@OnLoop final class People {
  unowned let world: World
  private let calls: Calls
  private let names = ["a", "b", "c", "d"].map { Name($0 + ".json") }
  private var drafts = 0

  init(_ world: World) {
    self.world = world
    calls = Calls(kernel: world.people)
  }

  private func fd(_ place: Place) -> Int32 { world.fds[place]! }

  func act() {
    switch world.below(22) {
    case 0...4: drop()
    case 5...8: move()
    case 9: remove()
    case 10: touch()
    case 11: overwriteSource()
    case 12: hold()
    default: drop()
    }
  }

  /// A job's text; now and then one that is none.
  private func text() -> (bytes: [UInt8], files: Int, dedupe: String?, isMalformed: Bool) {
    if world.chance(25) {
      return (Array(world.pick(["{", "", "[]", "{\"to\": 1}"]).utf8), 1, nil, true)
    }
    let files = world.chance(3) ? 1 + world.below(3) : 1
    let to = world.chance(2) ? "a" : "b"
    let start = world.below(4)
    let paths = (0..<files).map { "\"/src/\((start + $0) % 4)\"" }.joined(separator: ", ")
    var extra = ""
    if world.chance(6) { extra += ", \"priority\": \(world.below(10))" }
    if files > 1 && world.chance(2) { extra += ", \"parallel\": 2" }
    if world.chance(6) { extra += ", \"onError\": \"continue\"" }
    let key = world.usesKeys && world.chance(3) ? "k\(world.below(2))" : nil
    if let key { extra += ", \"dedupe\": \"\(key)\"" }
    drafts += 1
    return (
      Array("{\"to\": \"\(to):x\(drafts)/\", \"files\": [\(paths)]\(extra)}".utf8), files, key,
      false
    )
  }

  private func drop() {
    if world.lives.count(where: { !$0.isRemoved }) >= world.mostJobs { return }
    let name = world.pick(names)
    let (bytes, files, dedupe, isMalformed) = text()
    let life = world.newLife(bytes, files: files, dedupe: dedupe)
    life.isMalformed = isMalformed
    let place: Place = world.chance(8) ? .paused : .pending
    let directory = fd(place)
    let temporary = Name(".drop\(life.number).tmp")
    do throws(Errno) {
      switch world.below(3) {
      case 0:
        // As `submit` does.
        let file = try calls.open(temporary, in: directory, O_WRONLY | O_CREAT | O_EXCL)
        try calls.write(file.raw, bytes)
        try calls.sync(file.raw)
        adopt(file.raw, life)
        try calls.move(temporary, from: directory, to: directory, as: name)
        try calls.sync(directory)
        life.isDurable = true
        world.say("job \(life.number) is submitted to \(place)/\(name)")
      case 1:
        // As `mv` of a finished file does.
        let file = try calls.open(temporary, in: directory, O_WRONLY | O_CREAT | O_EXCL)
        try calls.write(file.raw, bytes)
        adopt(file.raw, life)
        try calls.move(temporary, from: directory, to: directory, as: name)
        world.say("job \(life.number) is moved to \(place)/\(name)")
      default: try write(slowly: bytes, life, name, directory)
      }
    } catch {
      // The name is in use.
      try? calls.unlink(temporary, in: directory)
      life.isRemoved = true
    }
  }

  private func adopt(_ fd: Int32, _ life: Life) { world.adopt(fd, life) }

  /// As `cp` over a slow line does: the file grows under its own name.
  private func write(slowly bytes: [UInt8], _ life: Life, _ name: Name, _ directory: Int32)
    throws(Errno)
  {
    let file = Held(try calls.open(name, in: directory, O_WRONLY | O_CREAT | O_EXCL))
    adopt(file.file.raw, life)
    life.text = []
    life.isBeingWritten = true
    world.say("job \(life.number) is being written to \(name)")
    let half = bytes.count / 2
    grow(life, file, bytes[..<half])
    let process = Loop.shared.process
    Loop.shared.process = 0
    let rest = Int64(world.below(Int(2 * second)))
    Loop.shared.after(Clock.monotonic() + rest) {
      // A power cut ends the writer, too.
      guard self.world.isOpen(file.file.raw) else {
        return
      }
      life.isBeingWritten = false
      self.grow(life, file, bytes[half...])
      file.close()
    }
    Loop.shared.process = process
  }

  private func grow(_ life: Life, _ file: Held, _ bytes: ArraySlice<UInt8>) {
    life.text += bytes
    try? calls.write(file.file.raw, Array(bytes))
  }

  final class Held {
    private(set) var file: Descriptor
    init(_ file: consuming Descriptor) { self.file = file }
    func close() { file = Descriptor(owning: SimulatedKernel.firstDescriptor) }
  }

  private func move() {
    let from = world.pick(Place.allCases)
    let to = world.pick(Place.allCases)
    guard from != to, let name = anyName(from) else { return }
    // As `mv -n`: it looks, then renames.
    let life = world.places[from]!.entries[name]?.life
    // What isn't done by its own record keeps the parts that are.
    let word = life.flatMap { world.word(of: $0) }
    guard (try? calls.move(name, from: fd(from), to: fd(to))) != nil else { return }
    world.count("moves by hand")
    guard let life else { return }
    if to == .pending {
      life.isHopeless = false
      // What had come to its end begins afresh; what had not goes on counting.
      if let word, word.isFinal { (life.troubles, life.crashes) = (0, 0) }
    }
    if from == .done && to == .pending && life.sending.isEmpty && world.whereabouts(life).count == 1
    {
      life.isCalledDone = false
      // A worker that is still ending it takes it for one that came from active/.
      let isHeld = world.places[to]!.entries[name]?.lock != nil
      if !isHeld && (word == .done || word == .cancelled) { life.acknowledged = [] }
    }
    // In active/ its last word counts as if its worker had died before the last rename.
    if to == .active, let word {
      if word == .done { life.isCalledDone = true }
      if word == .failed { life.isHopeless = true }
    }
  }

  private func remove() {
    let place = world.pick(Place.allCases)
    if let name = anyName(place) {
      try? calls.unlink(name, in: fd(place))
      world.count("removals by hand")
    }
  }

  private func anyName(_ place: Place) -> Name? {
    let all = world.places[place]!.entries.filter { $0.value.life != nil }.keys.sorted()
    return all.isEmpty ? nil : world.pick(all)
  }

  private func touch() {
    guard let name = anyName(.pending), let inode = world.places[.pending]!.entries[name] else {
      return
    }
    inode.modified = world.pick([0, world.disk.now, world.disk.now + 2 * second])
    inode.changed = world.disk.now
    world.tell(world.places[.pending]!, UInt32(IN_ATTRIB), name)
  }

  private func overwriteSource() {
    guard let inode = world.sources.randomElement(using: &world.random) else { return }
    inode.content = [UInt8](repeating: UInt8(world.below(256)), count: 1 + world.below(3000))
    inode.durable = inode.content
    (inode.modified, inode.changed) = (world.disk.now, world.disk.now)
    world.count("sources written to")
  }

  private func hold() {
    let root = world.rootFD
    if world.places[.pending] != nil, (try? calls.facts(of: Name("hold"), in: root)) != nil {
      try? calls.unlink(Name("hold"), in: root)
    } else {
      _ = try? calls.open(Name("hold"), in: root, O_WRONLY | O_CREAT)
    }
  }

  func release() { try? calls.unlink(Name("hold"), in: world.rootFD) }

  /// Everything may go on at once.
  func touchAll() {
    for (name, inode) in world.places[.pending]!.entries {
      inode.modified = world.disk.now
      inode.changed = world.disk.now
      world.tell(world.places[.pending]!, UInt32(IN_ATTRIB), name)
    }
  }
}
