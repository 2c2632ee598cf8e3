internal import Glibc
package import Jobs
package import System

/// A pending job that waits for something, and says for what.
extension Spool {
  /// Writes the sidecar of pending/NAME, if it is still the judged file and nobody holds it. False
  /// when it changed, is held, or its name is in use by another job.
  @discardableResult
  package func tellWaiting(_ name: Name, _ judged: Facts, sidecar make: (String) -> Sidecar)
    throws(Errno) -> Bool
  {
    guard let file = try lockPending(name, judged: judged) else { return false }
    let id = try id(of: file.raw, try calls.facts(of: file.raw))
    // A job that runs under this name may have no sidecar yet; the next one is its own.
    if try calls.factsIfThere(of: name, in: active.raw) != nil { return false }
    if try sidecar(name)?.id != id, try hasSidecar(name) {
      guard try makeRoom(for: name) else { return false }
    }
    try publish(make(id), as: name, durable: false)
    return true
  }

  /// pending/NAME, locked for as long as the descriptor lives, if it is still the judged file; nil when
  /// it changed or is held.
  func lockPending(_ name: Name, judged: Facts) throws(Errno) -> Descriptor? {
    let file: Descriptor
    do throws(Errno) {
      file = try calls.open(name, in: pending.raw, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
    } catch {
      if error == .missing || error == .symlink { return nil }
      throw error
    }
    guard try calls.tryLock(file.raw) else { return nil }
    let facts = try calls.facts(of: file.raw)
    guard facts.isUnchanged(since: judged),
      let there = try calls.factsIfThere(of: name, in: pending.raw), there.isSameFile(as: facts)
    else { return nil }
    return file
  }
}
