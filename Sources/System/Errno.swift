internal import CLinux
internal import Glibc

/// What a system call said no with; corresponds to `errno`.
package struct Errno: Error, Equatable, Hashable, Sendable, CustomStringConvertible {
  package let code: Int32
  package init(_ code: Int32) { self.code = code }

  package static let exists = Errno(EEXIST)
  package static let missing = Errno(ENOENT)
  package static let wouldBlock = Errno(EWOULDBLOCK)
  package static let denied = Errno(EACCES)
  package static let notPermitted = Errno(EPERM)
  package static let symlink = Errno(ELOOP)
  package static let isDirectory = Errno(EISDIR)
  package static let notADirectory = Errno(ENOTDIR)
  package static let otherFilesystem = Errno(EXDEV)
  package static let invalid = Errno(EINVAL)
  package static let unsupported = Errno(EOPNOTSUPP)
  package static let noSpace = Errno(ENOSPC)
  package static let overQuota = Errno(EDQUOT)
  package static let readOnly = Errno(EROFS)
  package static let noDevice = Errno(ENXIO)
  package static let tooLong = Errno(ENAMETOOLONG)
  package static let tooManyOpenFiles = Errno(EMFILE)
  package static let stale = Errno(ESTALE)
  package static let timedOut = Errno(ETIMEDOUT)

  /// The disk, the inodes or the quota are used up: it may work again later.
  package var isFull: Bool { self == .noSpace || self == .overQuota }

  /// The C library's words, such as "No such file or directory".
  package var description: String {
    unsafe clinux_errno_text(code).map { unsafe String(cString: $0) } ?? "error \(code)"
  }
}
