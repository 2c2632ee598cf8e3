internal import Glibc
internal import Jobs
internal import Spool
internal import System
internal import TestKit
internal import Testing

@testable internal import Commands

@Suite struct SubmitTests {
  /// Submits one file of the test's folder and gives the job that lies in pending/.
  private func submitted(_ test: TestSpool, _ words: [String]) throws -> Job {
    let result = test.run(["submit"] + words)
    #expect(result.code == 0 && result.err.isEmpty, "\(result.err)")
    let name = Name(String(result.out.dropLast()) + ".json")
    return try #require(try test.spool.peek(name))
  }

  @Test func theJobsNameIsAllThatIsPrinted() throws {
    let test = try TestSpool()
    let file = test.folder.write("a.jpg", "x")
    let names = (0..<3).map { _ in test.run(["submit", file, "--to", "x:"]).out }
    for name in names {
      let stem = name.dropLast()
      #expect(name.hasSuffix("\n") && stem.utf8.count == 22, "\(name)")
      #expect(test.names(.pending).contains("\(stem).json"))
    }
    #expect(Set(names).count == 3 && test.names(.pending).count == 3)
    #expect(test.folder.names("spool/progress").isEmpty)
  }

  @Test func everyOptionIsInTheJob() throws {
    let test = try TestSpool()
    let file = test.folder.write("a.jpg", "x")
    let before = Clock.wall()
    let job = try submitted(
      test,
      [
        file, "--to", "photos:2026/", "--title", "Sité \"visit\"\n2", "--priority", "2",
        "--not-before", "+2h", "--expires", "2199-01-01T00:00:00+01:00", "--attempts", "3",
        "--parallel", "4", "--on-error", "continue", "--header", "X-One: a: b", "--header",
        "X-Two:", "--form-field", "photo", "--field", "order=4=2", "--field", "empty=", "--as",
        "in/b.jpg", "--x", "user=7", "--x", "x-tag=é",
      ])
    #expect(job.to == "photos:2026/" && job.title == "Sité \"visit\"\n2" && job.priority == 2)
    #expect(job.files == [Job.File(path: file, remoteName: "in/b.jpg")])
    let notBefore = try #require(job.notBefore) - 7200 * second
    #expect(before - second...Clock.wall() ~= notBefore)
    #expect(job.expires == Times.parse("2198-12-31T23:00:00Z"))
    #expect(job.attempts == 3 && job.parallel == 4 && job.onError == .continue)
    #expect(job.method == .post)
    #expect(job.headers == [.init(name: "X-One", value: "a: b"), .init(name: "X-Two", value: "")])
    #expect(
      job.form
        == .init(
          field: "photo",
          fields: [.init(name: "order", value: "4=2"), .init(name: "empty", value: "")]))
    #expect(
      job.extra == [.init(key: "x-user", json: "\"7\""), .init(key: "x-tag", json: "\"é\"")])
  }

  @Test func severalFilesKeepTheirOrder() throws {
    let test = try TestSpool()
    let files = (0..<5).map { test.folder.write("f\(9 - $0)", "x") }
    let job = try submitted(
      test, files + ["--to", "https://files.example.com/in/", "--method", "PUT"])
    #expect(job.files.map(\.path) == files && job.method == .put)
  }

  @Test func pathsMayBeRelativeAndLinksStay() throws {
    let test = try TestSpool()
    test.folder.makeDirectory("d/e")
    test.folder.write("d/a", "x")
    #expect(unsafe symlink("d", test.folder.at("link")) == 0)
    let path = test.folder.path
    for (directory, given, expected) in [
      (path, "d/a", "\(path)/d/a"), (path, "./link//a", "\(path)/link/a"),
      ("\(path)/d/e", "../a", "\(path)/d/a"), ("\(path)/d/e", "../../link/./a", "\(path)/link/a"),
    ] {
      let result = upspool(
        ["submit", "--spool", test.path, given, "--to", "x:", "--name", "n"], directory: directory)
      #expect(result.code == 0, "\(result.err)")
      #expect(try test.spool.peek(Name("n.json"))?.files.map(\.path) == [expected])
      #expect(test.folder.remove("spool/pending/n.json"))
    }
  }

  @Test func namesHoldEveryByteThatJSONCanHold() throws {
    let test = try TestSpool()
    let folder = test.folder.makeDirectory("bytes")
    var good: [String] = []
    for byte in UInt8(1)...127 where byte != UInt8(ascii: "/") {
      let name = "a" + String(UnicodeScalar(byte)) + "b"
      test.folder.write("bytes/\(name)", "x")
      if byte >= 0x20, byte < 127 {
        good.append("\(folder)/\(name)")
      } else {
        let result = test.run(["submit", "\(folder)/\(name)", "--to", "x:"])
        #expect(result.code == 2 && result.err.contains("FILE: the file's name has a control"))
        #expect(result.lines.isEmpty)
        // Under another name it may go.
        let job = try submitted(test, ["\(folder)/\(name)", "--to", "x:", "--as", "plain"])
        #expect(job.files[0].path == "\(folder)/\(name)")
      }
    }
    let long = String(repeating: "x", count: 200)
    for name in ["写真 集.jpg", "e\u{301}", long, "'\"\\`$"] {
      test.folder.write("bytes/\(name)", "x")
      good.append("\(folder)/\(name)")
    }
    let job = try submitted(test, good + ["--to", "x:"])
    #expect(job.files.count == good.count)
    for (file, path) in zip(job.files, good) { #expect(file.path.hasSameBytes(as: path)) }
    // Bytes that are no UTF-8: JSON has no place for them.
    let odd = shell(
      "f=$(printf '\(folder)/a\\377b'); echo x > \"$f\"; \"$0\" submit --spool \(test.path) \"$f\" --to x:"
    )
    #expect(
      odd.code == 2 && odd.out.isEmpty && odd.err.contains("is not UTF-8, which JSON can't hold"))
  }

  @Test func whatIsWrongIsToldInTheWordsOfTheCommandAndNothingIsWritten() throws {
    let test = try TestSpool()
    let file = test.folder.write("a.jpg", "x")
    for (words, text) in [
      ([], "--to DEST is missing"),
      (["--to", ""], "--to: must not be empty"),
      (["--to", "ftp://x/"], "--to: this version sends to"),
      (["--to", "x:", "--priority", "10"], "--priority: must be a whole number from 0 to 9"),
      (["--to", "x:", "--not-before", "soon"], "--not-before: must be a time"),
      (
        ["--to", "x:", "--expires", "2020-01-01T00:00:00Z"],
        "--expires: \"2020-01-01T00:00:00Z\" is over"
      ),
      (["--to", "x:", "--not-before", "+2h", "--expires", "+1h"], "--expires: is not after"),
      (["--to", "x:", "--method", "GET"], "--method: must be PUT or POST"),
      (["--to", "x:", "--on-error", "x"], "--on-error: must be stop or continue"),
      (["--to", "x:", "--header", "Host: x"], "--header Host: is set by the transfer itself"),
      (["--to", "x:", "--header", "a b: x"], "is no header's name"),
      (["--to", "x:", "--header", "none"], "--header: must be 'K: V'"),
      (["--to", "x:", "--header", "A: 1", "--header", "a: 2"], "is there twice"),
      (["--to", "x:", "--header", "A: 1", "--header", "A: 2"], "\"A\" is given twice"),
      (["--to", "x:", "--field", "a=b"], "--field: needs --form-field"),
      (["--to", "x:", "--form-field", ""], "--form-field: a form field's name"),
      (["--to", "x:", "--form-field", "f", "--field", "=b"], "--field: must be K=V"),
      (["--to", "x:", "--form-field", "f", "--method", "PUT"], "--method: a \"form\" is always"),
      (["--to", "x:", "--as", "../b"], "--as: must not have"),
      (["--to", "x:", "--as", "b", file], "--as: names one file, but there are 2"),
      (["--to", "x:", file], "FILE: "),
      (["--to", "x:", "--title", String(repeating: "t", count: 1001)], "--title: is longer"),
      (["--to", "x:", "--x", "k"], "--x: must be K=V"),
      (["--to", "x:", "--name", "a/b"], "--name: must be a name without \"/\""),
      (["--to", "x:", "--name", ""], "--name: must be a name"),
      (["--to", "x:", "--name", ".a"], "--name: a job's name doesn't begin with"),
      (["--to", "x:", "--name", "a\nb"], "--name: a job's name has no control"),
      (["--to", "x:", "--name", String(repeating: "n", count: 196)], "at most 200 bytes"),
      (["--to", "x:", "--notify", "u"], "--notify: this version doesn't know"),
    ] as [([String], String)] {
      let result = test.run(["submit", file] + words)
      #expect(result.code == 2 && result.out.isEmpty, "\(words)")
      #expect(result.err.contains(text), "\(words): \(result.err)")
      #expect(result.err.hasSuffix("try: upspool submit --help\n"), "\(words)")
    }
    #expect(test.names(.pending).isEmpty && test.names(.paused).isEmpty)
  }

  @Test func eachFileMustBeThereRegularAndReadable() throws {
    let test = try TestSpool()
    let good = test.folder.write("good", "x")
    #expect(unsafe mkfifo(test.folder.at("pipe"), 0o600) == 0)
    let result = test.run([
      "submit", good, test.folder.at("none"), test.folder.path, test.folder.at("pipe"), "--to",
      "x:",
    ])
    #expect(result.code == 1 && result.out.isEmpty)
    #expect(
      result.err == """
        \(test.folder.at("none")): cannot read the file: No such file or directory
        \(test.folder.path): is a directory, not a regular file
        \(test.folder.at("pipe")): is a named pipe, not a regular file
        nothing was submitted

        """)
    #expect(test.names(.pending).isEmpty)
  }

  @Test func heldJobsLieInPausedAndNamesMayHaveTheirSuffix() throws {
    let test = try TestSpool()
    let file = test.folder.write("a", "x")
    #expect(test.run(["submit", file, "--to", "x:", "--hold", "--name", "h.json"]).out == "h\n")
    #expect(test.run(["submit", file, "--to", "x:", "--name", "写真 集"]).out == "写真 集\n")
    let long = String(repeating: "n", count: 195)
    #expect(test.run(["submit", file, "--to", "x:", "--name", long]).out == long + "\n")
    #expect(test.names(.paused) == ["h.json"])
    #expect(test.names(.pending) == [long + ".json", "写真 集.json"])
  }

  @Test func aTakenNameIsRefusedAndTheOlderJobStays() throws {
    let test = try TestSpool()
    let file = test.folder.write("a", "x")
    test.job("n", in: .pending)
    let before = test.folder.read("spool/pending/n.json")
    let result = test.run(["submit", file, "--to", "x:", "--name", "n"])
    #expect(result.code == 1 && result.out.isEmpty)
    #expect(
      result.err.contains(
        "pending/n.json: there is a job of that name already; choose another --name"))
    #expect(test.folder.read("spool/pending/n.json") == before)
    #expect(test.folder.names("spool/pending") == ["n.json"])
  }

  @Test func theSpoolComesFromTheOptionTheEnvironmentOrTheDirectory() throws {
    let test = try TestSpool()
    let file = test.folder.write("a", "x")
    let other = try TestSpool()
    let words = ["submit", file, "--to", "x:"]
    let path = test.path
    #expect(upspool(words, environment: ["UPSPOOL": path]).code == 0)
    #expect(upspool(words, directory: test.folder.path).code == 0)
    #expect(upspool(words, environment: ["UPSPOOL": ""], directory: test.folder.path).code == 0)
    #expect(upspool(words + ["--spool", path], environment: ["UPSPOOL": other.path]).code == 0)
    #expect(test.names(.pending).count == 4 && other.names(.pending).isEmpty)
    let none = upspool(words, environment: ["UPSPOOL": test.folder.at("no spool")])
    #expect(none.code == 1)
    #expect(
      none.err
        == "\(test.folder.at("no spool")): cannot open the directory: No such file or directory; start a "
        + "worker there (upspool run --spool '\(test.folder.at("no spool"))'), or name the spool with "
        + "--spool DIR or $UPSPOOL\n")
  }

  @Test(.enabled(if: !asNobody.isEmpty))
  func aProducerNeedsToWriteToPendingOnly() throws {
    let test = try TestSpool()
    let file = test.folder.write("a", "x")
    let words = ["submit", "--spool", test.path, file, "--to", "x:"]
    let refused = upspool(words, prefix: asNobody)
    #expect(refused.code == 1)
    #expect(
      refused.err
        == "\(test.path)/pending: cannot write the job: Permission denied; this user must be able to "
        + "write there\n")
    #expect(unsafe chmod("\(test.path)/pending", 0o1777) == 0)
    let result = upspool(words, prefix: asNobody)
    #expect(result.code == 0, "\(result.err)")
    let name = String(result.out.dropLast()) + ".json"
    #expect(test.names(.pending) == [name])
    #expect(test.folder.facts("spool/pending/\(name)")?.owner == 65534)
    #expect(upspool(words + ["--hold"], prefix: asNobody).code == 1)
    // A file that the producer may not read.
    let secret = test.folder.write("secret", "x")
    #expect(unsafe chmod(secret, 0o600) == 0)
    let hidden = upspool(
      ["submit", "--spool", test.path, secret, "--to", "x:"], prefix: asNobody)
    #expect(
      hidden.code == 1 && hidden.err.contains("secret: cannot read the file: Permission denied"))
  }

  @Test func whatIsSubmittedIsUploaded() throws {
    let test = try TestSpool()
    let bytes = noise(100_000)
    let file = test.folder.write("写真 1.bin", bytes)
    test.folder.makeDirectory("out")
    let target = "file://\(test.folder.at("out"))/"
    let name = test.run(["submit", file, "--to", target, "--x", "user=7"]).out.dropLast()
    let worker = test.run(["run", "--drain"])
    #expect(worker.code == 0, "\(worker.err)")
    #expect(test.folder.read("out/写真 1.bin") == bytes)
    let status = test.run(["status", "--json", String(name)])
    #expect(status.code == 0)
    let json = try JSON(parsing: Array(status.out.utf8))
    #expect(json.member("state")?.string == "done" && json.member("x-user")?.string == "7")
  }
}
