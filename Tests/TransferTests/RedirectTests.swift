internal import Loop
internal import System
internal import TestKit
internal import Testing
internal import Transfer

extension Transfers {
  @Suite(.timeLimit(.minutes(1))) struct RedirectTests {
    let folder = Folder()

    private func put(_ path: String, _ size: Int) throws -> Request {
      let source = try Source.open(folder.write("a", noise(size)))
      return Request("PUT", nginx.url + path, body: .file(source))
    }

    @Test(arguments: [10, 500_000], [307, 308])
    func theBodyGoesToTheNewPlaceOfTheSameOrigin(_ size: Int, _ status: Int) async throws {
      let name = "redirected-\(size)-\(status)"
      let response = try await perform(put("/redirect/\(status)/\(name)", size))
      #expect(response.status == 201)
      #expect(response.finalURL == "\(nginx.url)/put/\(name)")
      #expect(nginx.stored(name) == noise(size))
    }
    @Test(arguments: [301, 302, 303]) func othersAreNotFollowed(_ status: Int) async throws {
      #expect(
        try await failure(put("/redirect/\(status)/other", 10))
          == .redirected(to: "\(nginx.url)/put/other"))
      #expect(nginx.stored("other") == nil)
    }
    @Test func anotherOriginIsNotFollowed() async throws {
      let error = try await failure(put("/away/secret", 10))
      #expect(error == .redirected(to: "\(nginx.secureURL)/put/secret"))
      #expect(nginx.stored("secret") == nil)
    }
    @Test func aCircleEndsAfterFive() async throws {
      let error = try await failure(put("/round/x", 10))
      #expect(error == .redirected(to: "\(nginx.url)/round/"))
      #expect(await eventually { nginx.log.count { $0.path.hasPrefix("/round/") } == 6 })
    }
    @Test func noneIsFollowedWhenToldNotTo() async throws {
      var request = try put("/redirect/307/not", 10)
      request.followSafeRedirects = false
      #expect(try await failure(request) == .redirected(to: "\(nginx.url)/put/not"))
    }
    /// A signature in the target must not get into logs.
    @Test func theErrorShowsNoQuery() {
      let error = TransferError.redirected(to: "https://u:p@h/x?sig=secret")
      #expect(error.description.contains("https://h/x?…"))
      #expect(!error.description.contains("secret") && !error.description.contains("u:p"))
    }
  }
}

extension Transfers {
  @Suite(.timeLimit(.minutes(1))) struct TLSTests {
    private func get(_ url: String, ca: Bool) -> Request {
      var request = Request("GET", url)
      if ca { request.tls.caFile = nginx.caFile }
      return request
    }
    private func refusal(_ request: Request) async throws -> String {
      guard case .tls(let why)? = try await failure(request) else { return "not refused" }
      return why
    }

    @Test func aKnownServerIsTrusted() async throws {
      let bytes = noise(300_000)
      let folder = Folder()
      var request = get("\(nginx.secureURL)/put/tls", ca: true)
      request.method = "PUT"
      request.body = .file(try Source.open(folder.write("a", bytes)))
      #expect(try await perform(request).status == 201)
      #expect(nginx.stored("tls") == bytes)
    }
    @Test func anUnknownServerIsNot() async throws {
      #expect(try await refusal(get(nginx.secureURL, ca: false)).contains("certificate"))
    }
    @Test func theNameMustMatch() async throws {
      let request = get("https://127.0.0.1:\(nginx.securePort)/", ca: true)
      #expect(try await refusal(request).contains("127.0.0.1"))
    }
    @Test func aMissingAuthorityFileIsNamed() async throws {
      var request = get(nginx.secureURL, ca: false)
      request.tls.caFile = "/nowhere/ca.pem"
      #expect(try await refusal(request).contains("/nowhere/ca.pem"))
    }
    @Test func plainHTTPOnATLSPortIsNoAnswer() async throws {
      let server = FaultServer { connection in connection.send("HTTP/1.1 200 OK\r\n\r\n") }
      #expect(
        try await refusal(get("https://localhost:\(server.port)/", ca: true)) != "not refused")
    }
    @Test func theClientShowsItsCertificate() async throws {
      var request = get("\(nginx.secureURL)/client/", ca: true)
      #expect(try await perform(request).status == 403)
      request.tls.certificate = nginx.clientCertificate
      request.tls.key = nginx.clientKey
      #expect(try await perform(request).status == 200)
      request.tls.certificate = "/nowhere/client.pem"
      #expect(try await refusal(request).contains("/nowhere/client.pem"))
    }
    @Test func aPasswordOpensADoor() async throws {
      var request = Request("PUT", "\(nginx.url)/auth/x", body: .bytes([1]))
      #expect(try await perform(request).status == 401)
      (request.user, request.password) = ("user", "secret")
      #expect(try await perform(request).status == 201)
      request.password = "wrong"
      #expect(try await perform(request).status == 401)
      request = Request(
        "PUT", "http://user:secret@127.0.0.1:\(nginx.port)/auth/y", body: .bytes([1]))
      #expect(try await perform(request).status == 201)
    }
  }
}
