internal import Jobs
internal import System
internal import Testing

@Suite struct JobNameTests {
  private func x(_ count: Int) -> String { String(repeating: "x", count: count) }

  @Test(arguments: ["a.json", "~.json", "a b.json", "ü.json", "a~1.json", "a.b.json", "~1.json"])
  func namesOfJobs(name: String) {
    #expect(JobName.isJob(Name(name)))
    #expect(JobName.looksLikeAJob(Name(name)) == nil)
  }

  @Test(arguments: ["a", "a.txt", ".a.tmp", "a.JSON", "a.json~", "a.json.swp", "", "json"])
  func othersAreLeftAlone(name: String) {
    #expect(!JobName.isJob(Name(name)))
    #expect(JobName.looksLikeAJob(Name(name)) == nil)
  }

  @Test func aNameThatBreaksARuleIsReported() {
    let cases = [
      (".json", "a job's name doesn't begin with \".\""),
      (".a.json", "a job's name doesn't begin with \".\""),
      ("a\nb.json", "a job's name has no control characters"),
      ("a\u{7f}.json", "a job's name has no control characters"),
      (x(196) + ".json", "a job's name has at most 200 bytes, this one 201"),
    ]
    for (name, words) in cases {
      #expect(!JobName.isJob(Name(name)))
      #expect(JobName.looksLikeAJob(Name(name)) == words)
    }
  }

  @Test func namesAreBytesAndNeedNotBeText() {
    let name = Name(bytes: [0xff, 0xfe] + Array(".json".utf8))
    #expect(JobName.isJob(name))
    #expect(JobName.stem(name) == "\u{fffd}\u{fffd}")
    #expect(Array(JobName.stepAside(name, 3).bytes) == [0xff, 0xfe] + Array("~3.json".utf8))
  }

  @Test func theWorkersSuffixDoesNotCount() {
    #expect(JobName.isJob(Name(x(195) + ".json")))
    #expect(JobName.isJob(Name(x(195) + "~1.json")))
    #expect(JobName.isJob(Name(x(195) + "~1~22.json")))
    #expect(!JobName.isJob(Name(x(196) + "~1.json")))
    #expect(!JobName.isJob(Name(x(195) + "~a.json")))
    #expect(!JobName.isJob(Name(x(195) + String(repeating: "~1", count: 20) + ".json")))
  }

  @Test func olderJobsStepAside() {
    #expect(JobName.stem(Name("nightly.json")) == "nightly")
    #expect(JobName.stepAside(Name("nightly.json"), 1) == Name("nightly~1.json"))
    #expect(JobName.stepAside(Name("nightly~1.json"), 2) == Name("nightly~1~2.json"))
    #expect(JobName.keyed(Name("nightly.json"), id: "i7-9f") == Name("nightly~i7-9f.json"))
  }

  @Test func steppingAsideAgainAndAgainStaysAJobsName() {
    var name = Name(x(195) + ".json")
    for n in 1...200 {
      let next = JobName.stepAside(name, n)
      #expect(JobName.isJob(next) && next != name, "\(next)")
      #expect(JobName.keyed(next, id: x(54)).count <= 255)
      name = next
    }
  }
}
