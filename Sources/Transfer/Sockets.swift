internal import CCurl
internal import Glibc
internal import Loop

/// The sockets that libcurl has open. It tells a transfer's socket only when the transfer is over
/// (CURLINFO_ACTIVESOCKET), and it opens them without close-on-exec: so we open them for it.
@OnLoop enum Sockets {
  private static var open: Set<Int32> = []

  /// CURLOPT_OPENSOCKETFUNCTION
  static let onOpen: curl_opensocket_callback = { _, _, address in
    let (family, type, `protocol`) = unsafe (
      address!.pointee.family, address!.pointee.socktype, address!.pointee.protocol
    )
    let fd = socket(family, type | Int32(SOCK_CLOEXEC.rawValue), `protocol`)
    if fd >= 0 { OnLoop.assume { _ = open.insert(fd) } }
    return fd
  }
  /// CURLOPT_CLOSESOCKETFUNCTION
  static let onClose: curl_closesocket_callback = { _, fd in
    OnLoop.assume { _ = open.remove(fd) }
    return close(fd)
  }

  /// The socket of a transfer's connection, new or used before; nil while there is none.
  static func find(_ easy: Easy) -> Int32? {
    let here = unsafe ccurl_get_long(easy.raw, CURLINFO_LOCAL_PORT)
    let there = unsafe ccurl_get_long(easy.raw, CURLINFO_PRIMARY_PORT)
    if here <= 0 { return nil }
    return open.first { fd in
      unsafe port { unsafe getsockname(fd, $0, $1) } == here
        && port { unsafe getpeername(fd, $0, $1) } == there
    }
  }
  private static func port(
    _ name: (UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Int32
  ) -> Int? {
    // IPv4 and IPv6 keep the port in the same place (ip(7), ipv6(7)).
    var address = sockaddr_in6()
    var length = socklen_t(MemoryLayout<sockaddr_in6>.size)
    let code = unsafe withUnsafeMutablePointer(to: &address) {
      unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe name($0, &length) }
    }
    return code < 0 ? nil : Int(UInt16(bigEndian: address.sin6_port))
  }
}
