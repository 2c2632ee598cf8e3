internal import Glibc
internal import Jobs
package import System

/// Putting a job into the spool, the way any producer may.
extension Spool {
  /// Writes a job file into `place` so that it appears whole or not at all, under the first free
  /// one of `name`, `name~1` … when `mayRename`, and is durable (file and directory synced) on return.
  ///
  /// Throws EEXIST when the name is taken and may not be changed.
  package func submit(_ bytes: [UInt8], as name: Name, in place: Place, mayRename: Bool)
    throws(Errno) -> Name
  {
    let temporary = temporary()
    let target = directory(place)
    let file = try calls.open(temporary, in: target, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW)
    do throws(Errno) {
      try calls.write(file.raw, bytes)
      try calls.sync(file.raw)
      var chosen = name
      while true {
        do throws(Errno) {
          try calls.move(temporary, from: target, to: target, as: chosen)
          break
        } catch {
          guard error == .exists, mayRename else { throw error }
          chosen = try freeName(for: name)
        }
      }
      try calls.sync(target)
      return chosen
    } catch {
      discard(temporary, in: target)
      throw error
    }
  }
}
