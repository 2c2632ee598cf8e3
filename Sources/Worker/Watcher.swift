internal import CLinux
internal import Glibc
internal import Loop
internal import System

/// inotify(7) on a few directories: hints that something happened, never the truth.
@OnLoop final class Watcher {
  struct Event {
    /// The directory's number, as given to `add`.
    var directory: Int
    var mask: UInt32
    var name: Name?
    var isOverflow: Bool { mask & UInt32(IN_Q_OVERFLOW) != 0 }
    /// Whole at once: a rename.
    var isMoveIn: Bool { mask & UInt32(IN_MOVED_TO) != 0 }
    var isRemoval: Bool { mask & UInt32(IN_DELETE) != 0 }
  }

  private let descriptor: Descriptor?
  private let fd: Int32
  private let kernel: (any Kernel)?
  private let handle: @OnLoop ([Event]) -> Void
  private var directories: [Int32: Int] = [:]
  private var buffer = [UInt8](repeating: 0, count: 64 << 10)

  /// Nil where the system has no more of them.
  init?(_ calls: Calls, _ handle: @escaping @OnLoop ([Event]) -> Void) {
    (kernel, self.handle) = (calls.kernel, handle)
    if kernel != nil {
      descriptor = nil
      fd = -1
      return
    }
    let fd = clinux_inotify()
    if fd < 0 { return nil }
    self.fd = fd
    descriptor = Descriptor(owning: fd)
    Loop.shared.watch(fd) { handle(self.read(fd)) }
  }

  /// False when the directory can't be watched.
  func add(_ path: String, _ mask: UInt32, as number: Int) -> Bool {
    if let kernel {
      let process = Loop.shared.process
      return kernel.watch(path, mask) { mask, name in
        Loop.shared.post(as: process) {
          self.handle([Event(directory: number, mask: mask, name: name)])
        }
      }
    }
    let wd = unsafe clinux_inotify_add(fd, path, mask | UInt32(IN_ONLYDIR))
    if wd < 0 { return false }
    directories[wd] = number
    return true
  }

  private func read(_ fd: Int32) -> [Event] {
    var events: [Event] = []
    let directories = directories
    unsafe buffer.withUnsafeMutableBytes { buffer in
      let count = unsafe Glibc.read(fd, buffer.baseAddress, buffer.count)
      var at = 0
      while at + 16 <= count {
        // inotify_event: wd 4, mask 4, cookie 4, length 4, name.
        let wd = unsafe buffer.loadUnaligned(fromByteOffset: at, as: Int32.self)
        let mask = unsafe buffer.loadUnaligned(fromByteOffset: at + 4, as: UInt32.self)
        let length = unsafe Int(buffer.loadUnaligned(fromByteOffset: at + 12, as: UInt32.self))
        let start = unsafe (buffer.baseAddress! + at + 16).assumingMemoryBound(to: CChar.self)
        let name = unsafe length > 0 ? Name(cString: start) : nil
        if let number = directories[wd] {
          events.append(Event(directory: number, mask: mask, name: name))
        } else if mask & UInt32(IN_Q_OVERFLOW) != 0 {
          events.append(Event(directory: -1, mask: mask, name: nil))
        }
        at += 16 + length
      }
    }
    return events
  }
}
