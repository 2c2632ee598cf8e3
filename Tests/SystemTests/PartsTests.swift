internal import Glibc
internal import System
internal import TestKit
internal import Testing

@Suite struct PartsTests {
  @Test(arguments: [
    // RFC 1321, A.5; FIPS 180-4's examples.
    (Digest.Kind.md5, "abc", "900150983cd24fb0d6963f7d28e17f72"),
    (.md5, "", "d41d8cd98f00b204e9800998ecf8427e"),
    (.sha1, "abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
    (.sha256, "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    (.sha256, "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
    (
      .sha512, "abc",
      "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
        + "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
    ),
  ])
  func `digests are the standards'`(_ kind: Digest.Kind, _ text: String, _ hex: String) {
    #expect(Digest.of(Array(text.utf8), kind).hex == hex)
    let digest = Digest(kind)
    for byte in text.utf8 { unsafe [byte].withUnsafeBytes { unsafe digest.update($0) } }
    #expect(digest.finish().hex == hex)
  }

  @Test func `random bytes differ`() {
    #expect(randomBytes(16) != randomBytes(16) && randomBytes(5).count == 5 && randomBytes(0) == [])
    #expect([UInt8]([0, 15, 16, 255]).hex == "000f10ff")
  }

  @Test(arguments: [
    ("/data/a", "/data", "a"), ("/data/a/b", "/data/", "a/b"), ("/data//a", "/data", "a"),
    ("/data", "/data", "."), ("/data/", "/data", "."), ("/data", "/", "data"), ("/", "/", "."),
    ("/database/a", "/data", nil), ("/dat", "/data", nil), ("data/a", "/data", nil),
    ("", "/data", nil), ("/e\u{301}/a", "/é", nil), ("/é/a", "/é", "a"),
    ("/data/../etc", "/data", "../etc"),
  ])
  func `a path below a root is found by bytes`(_ path: String, _ root: String, _ rest: String?) {
    #expect(relativePath(path, below: root) == rest.map { Name($0) })
  }

  @Test func `a wait ends at its deadline, or at once when it is over`() {
    let box = Locked(0)
    let start = Clock.monotonic()
    #expect(box.wait(until: { $0 == 1 }, deadline: start + 30 * millisecond, then: { $0 }) == 0)
    let took = Clock.monotonic() - start
    #expect(took >= 30 * millisecond && took < 5 * second)
    for deadline in [start, 0, -1, Int64.min] {
      #expect(box.wait(until: { $0 == 1 }, deadline: deadline, then: { $0 }) == 0)
    }
    #expect(box.wait(until: { $0 == 0 }, deadline: .max, then: { $0 }) == 0)
  }

  @Test func `a wait is woken by who makes it ready`() async {
    let box = Locked(0)
    let woken = Locked(0)
    for _ in 0..<4 {
      #expect(
        startThread {
          box.wait(until: { $0 == 1 }, then: { _ in })
          woken.with { $0 += 1 }
        })
    }
    usleep(5_000)
    #expect(woken.with { $0 } == 0)
    box.with { $0 = 1 }
    box.broadcast()
    #expect(await eventually { woken.with { $0 } == 4 })
  }

  @Test func `one at a time`() async {
    let box = Locked(0)
    let over = Locked(0)
    for _ in 0..<8 {
      startThread {
        for _ in 0..<10_000 {
          box.with { n in
            let m = n
            n = m + 1
          }
        }
        over.with { $0 += 1 }
      }
    }
    #expect(await eventually { over.with { $0 } == 8 })
    #expect(box.with { $0 } == 80_000)
  }

  @Test func `descriptors are closed with their owner, and not passed on`() throws {
    var number: Int32 = -1
    do {
      let file = try Calls.live.open(Name("/dev/null"), O_RDONLY)
      number = file.raw
      #expect(fcntl(number, F_GETFD) & FD_CLOEXEC != 0)
    }
    #expect(number >= 0)
    let file = try Calls.live.open(Name("/dev/null"), O_RDONLY)
    try file.close()
    #expect(throws: Errno(EBADF)) { try Descriptor(owning: -1).close() }
  }
}
