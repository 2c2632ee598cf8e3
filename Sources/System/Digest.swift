internal import CCrypto

/// A running message digest, by libcrypto's EVP.
@safe package final class Digest {
  package enum Kind: String, Sendable, CaseIterable { case md5, sha1, sha256, sha512 }

  private let context: OpaquePointer

  package init(_ kind: Kind) {
    unsafe context = unsafe EVP_MD_CTX_new()!
    let digest: OpaquePointer? =
      switch kind {
      case .md5: unsafe EVP_md5()
      case .sha1: unsafe EVP_sha1()
      case .sha256: unsafe EVP_sha256()
      case .sha512: unsafe EVP_sha512()
      }
    unsafe EVP_DigestInit_ex(context, digest, nil)
  }
  deinit { unsafe EVP_MD_CTX_free(context) }

  package func update(_ bytes: UnsafeRawBufferPointer) {
    unsafe EVP_DigestUpdate(context, bytes.baseAddress, bytes.count)
  }
  /// The digest's bytes; ends this object's use.
  package func finish() -> [UInt8] {
    var out = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
    var count: UInt32 = 0
    unsafe EVP_DigestFinal_ex(context, &out, &count)
    return Array(out.prefix(Int(count)))
  }

  package static func of(_ bytes: [UInt8], _ kind: Kind) -> [UInt8] {
    let digest = Digest(kind)
    unsafe bytes.withUnsafeBytes { unsafe digest.update($0) }
    return digest.finish()
  }
}

extension Sequence<UInt8> {
  /// Lower-case hexadecimal, two digits a byte.
  package var hex: String {
    let digits = Array("0123456789abcdef".utf8)
    var out: [UInt8] = []
    for byte in self {
      out.append(digits[Int(byte >> 4)])
      out.append(digits[Int(byte & 15)])
    }
    return String(decoding: out, as: UTF8.self)
  }
}

/// `count` random bytes from libcrypto's generator.
package func randomBytes(_ count: Int) -> [UInt8] {
  var bytes = [UInt8](repeating: 0, count: count)
  unsafe RAND_bytes(&bytes, Int32(count))
  return bytes
}
