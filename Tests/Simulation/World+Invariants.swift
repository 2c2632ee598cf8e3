internal import Glibc
internal import Jobs
internal import Loop
internal import Spool
internal import System

/// What must hold, looked at with each change of a name, each word of a sidecar, and after each step.
extension World {
  /// Does it, and looks at what it means for jobs.
  func change(_ parts: [(directory: Inode, name: Name, inode: Inode?)], by process: Process) {
    let replaced = parts.compactMap { part in
      part.inode == nil ? nil : part.directory.entries[part.name]
    }
    let removed = parts.compactMap { part in
      part.inode == nil ? part.directory.entries[part.name] : nil
    }
    disk.change(parts)
    for part in parts
    where part.directory === progress && part.name.bytes.first != UInt8(ascii: ".") {
      say("\(process.number): progress/\(part.name) is \(part.inode == nil ? "gone" : "there")")
    }
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
    if all.count > 1 { life.lastWord = nil }
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
