/// What a simulated kernel does in the place of the machine's own, as one process sees it.
///
/// Each call gives its result, or -errno; EINTR is repeated by the caller. Its descriptors begin at
/// `SimulatedKernel.firstDescriptor`. A program that runs against it must not use any call that isn't here.
package protocol Kernel: AnyObject, Sendable {
  func open(_ name: Name, in directory: Int32, _ flags: Int32) -> Int
  /// Of the name below a directory, or of the descriptor itself when the name is empty.
  func facts(_ fd: Int32, _ name: Name, _ facts: inout Facts?) -> Int
  func read(_ fd: Int32, _ buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> Int
  /// At an offset, or where the descriptor stands.
  func write(_ fd: Int32, _ bytes: ArraySlice<UInt8>, at offset: Int64?) -> Int
  func truncate(_ fd: Int32, to size: Int64) -> Int
  func sync(_ fd: Int32) -> Int
  func syncAll() -> Int
  func rename(_ name: Name, _ from: Int32, _ other: Name, _ to: Int32, replacing: Bool) -> Int
  func link(_ name: Name, _ from: Int32, _ other: Name, _ to: Int32) -> Int
  func unlink(_ name: Name, in directory: Int32) -> Int
  func makeDirectory(_ name: Name, in directory: Int32) -> Int
  func entries(_ fd: Int32, _ entries: inout [(UInt64, Name)]) -> Int
  /// flock(2), exclusive, without waiting.
  func lock(_ fd: Int32) -> Int
  func hasNoWriter(_ fd: Int32) -> Bool?
  func space() -> Space
  func touch(_ fd: Int32)
  /// inotify(7) on a directory; false when it can't be had.
  func watch(_ path: String, _ mask: UInt32, _ tell: @escaping @Sendable (UInt32, Name?) -> Void)
    -> Bool
}

/// What closes the descriptors of simulated kernels.
package enum SimulatedKernel {
  /// No machine gives such a number.
  package static let firstDescriptor: Int32 = 1 << 30
  private static let closer = Locked(Closer { _ in })
  /// A closure that is passed through a generic call as such grows by a wrapper each time.
  private struct Closer: Sendable {
    var close: @Sendable (Int32) -> Void
  }
  /// Says who closes them.
  package static func closes(_ close: @escaping @Sendable (Int32) -> Void) {
    closer.with { $0 = Closer(close: close) }
  }
  static func close(_ fd: Int32) { closer.with { $0 }.close(fd) }
}
