internal import Glibc
internal import Jobs
internal import Spool
internal import System

/// `upspool submit`: writes a job into pending/ (or paused/) as any producer may, and prints its
/// name.
@Sendable func submit(_ invocation: Invocation, _ console: Console) throws -> ExitCode {
  let now = Clock.wall()
  let bytes = try jobText(invocation, now: now)
  try checkFiles(invocation)
  let spool = try invocation.openSpool(console)
  let place = invocation.has(.hold) ? Place.paused : .pending
  let name = try chosenName(invocation)
  while true {
    let candidate = name ?? Name(defaultName(now) + ".json")
    do throws(Errno) {
      _ = try spool.submit(bytes, as: candidate, in: place, mayRename: false)
      console.out.bytes(candidate.bytes.dropLast(".json".utf8.count))
      console.out.line()
      return .fine
    } catch {
      guard error == .exists else {
        throw SpoolError(
          "\(spool.path)/\(place.rawValue)", error, doing: "write the job",
          advice: error == .denied ? "this user must be able to write there" : nil)
      }
      // 30 random bits met another's within one second: another try.
      if name == nil { continue }
      throw Failure(
        "\(spool.path)/\(place.rawValue)/\(candidate.description.printable()): there is a job of that "
          + "name already; choose another --name, or leave it out to get one that is free")
    }
  }
}

/// `YYYYMMDD-HHMMSS-` in UTC and six random letters and digits: sorted by name is by time.
func defaultName(_ now: Int64) -> String {
  let digits = Times.format(now).utf8.filter { 0x30...0x39 ~= $0 }
  func text(_ range: Range<Int>) -> String { String(decoding: digits[range], as: UTF8.self) }
  // Crockford's base32: nothing that is read for something else.
  let alphabet = Array("0123456789abcdefghjkmnpqrstvwxyz".utf8)
  let random = randomBytes(6).map { alphabet[Int($0 & 31)] }
  return "\(text(0..<8))-\(text(8..<14))-" + String(decoding: random, as: UTF8.self)
}

private func chosenName(_ invocation: Invocation) throws -> Name? {
  guard let text = try invocation.text(.name) else { return nil }
  let name = fileName(of: Name(text))
  if text.isEmpty || text.utf8.contains(UInt8(ascii: "/")) {
    throw UsageError("--name: must be a name without \"/\", not \(text.quoted)")
  }
  if let fault = JobName.looksLikeAJob(name) { throw UsageError("--name: \(fault)") }
  return name
}

private func jobText(_ invocation: Invocation, now: Int64) throws -> [UInt8] {
  guard let to = try invocation.text(.to) else {
    throw UsageError("--to DEST is missing: where the files go, as https://files.example.com/in/")
  }
  let rename = try invocation.text(.as)
  if rename != nil, invocation.operands.count > 1 {
    throw UsageError("--as: names one file, but there are \(invocation.operands.count)")
  }
  var text = JobText()
  text.add("to", to)
  text.add(files: try invocation.operands.map(path), as: rename)
  text.add("title", try invocation.text(.title))
  text.add("priority", try invocation.integer(.priority, 0...9))
  text.add("notBefore", try time(invocation, .notBefore, now))
  text.add("expires", try time(invocation, .expires, now))
  text.add("attempts", try invocation.integer(.attempts, 1...1000))
  text.add("parallel", try invocation.integer(.parallel, 1...64))
  let onError: Job.OnError? = try invocation.word(.onError)
  text.add("onError", onError?.rawValue)
  text.add("group", try invocation.text(.group))
  text.add("dedupe", try invocation.text(.dedupe))
  let method: Job.Method? = try invocation.word(.method)
  text.add("method", method?.rawValue)
  text.add("headers", pairs: try pairs(invocation.texts(.header), of: .header, mark: ":"))
  let fields = try pairs(invocation.texts(.field), of: .field, mark: "=")
  if let field = try invocation.text(.formField) {
    text.add(formField: field, fields: fields)
  } else if !fields.isEmpty {
    throw UsageError("--field: needs --form-field NAME, the field that holds the file")
  }
  for pair in try pairs(invocation.texts(.x), of: .x, mark: "=") {
    text.add(pair.key.hasPrefix("x-") ? pair.key : "x-\(pair.key)", pair.value)
  }
  let bytes = text.finished()
  try judge(bytes)
  return bytes
}

/// What a worker would say of it, in the command's own words.
private func judge(_ bytes: [UInt8]) throws(UsageError) {
  do throws(Refusal) {
    _ = try Job.decode(bytes)
  } catch {
    guard case .invalid(let what) = error, let option = option(for: what.path) else {
      throw UsageError(error.description)
    }
    throw UsageError("\(option): \(what.reason)")
  }
}

/// The option that a key of the job came from; nil when it came from none.
private func option(for path: String) -> String? {
  let key = String(path.prefix { $0 != "." && $0 != "[" })
  switch key {
  case "files": return path.hasSuffix(".as") ? "--as" : "FILE"
  case "form": return path.hasPrefix("form.fields") ? "--field" : "--form-field"
  case "headers": return "--header \(path.dropFirst("headers.".count))"
  case "notBefore": return "--not-before"
  case "onError": return "--on-error"
  case _ where key.hasPrefix("x-") || path.hasPrefix("\"x-"): return "--x"
  default: return OptionName(rawValue: key).map { "--\($0.rawValue)" }
  }
}

private func time(_ invocation: Invocation, _ name: OptionName, _ now: Int64) throws -> String? {
  guard let text = try invocation.text(name) else { return nil }
  guard let time = parseTime(text, now: now) else {
    throw UsageError(
      "--\(name.rawValue): must be a time with date and zone, as 2026-12-01T08:00:00Z, or a span from "
        + "now, as +30m, +2h or +3d, not \(text.quoted)")
  }
  if name == .expires, time <= now { throw UsageError("--expires: \(text.quoted) is over already") }
  return Times.format(time)
}

/// A file's absolute path as JSON can hold it.
private func path(_ operand: Name) throws -> String {
  guard let text = String(validating: operand.bytes, as: UTF8.self) else {
    throw UsageError(
      "\(operand.description.quoted): its name is not UTF-8, which JSON can't hold; rename the file, "
        + "or make a link to it with another name")
  }
  if text.isEmpty { throw UsageError("FILE: must not be empty") }
  return try absolutePath(text)
}

/// Each file must be there, regular and readable, as far as this user can tell.
private func checkFiles(_ invocation: Invocation) throws {
  var faults: [String] = []
  for operand in invocation.operands {
    let shown = operand.description.printable(limit: 4096)
    do throws(Errno) {
      // O_NONBLOCK: a pipe must not hold the command up.
      let file = try Calls.live.open(operand, O_RDONLY | O_NONBLOCK)
      let facts = try Calls.live.facts(of: file.raw)
      if !facts.isRegular { faults.append("\(shown): is \(facts.kind), not a regular file") }
    } catch {
      faults.append("\(shown): cannot read the file: \(error)")
    }
  }
  if faults.isEmpty { return }
  let rest = faults.count > 20 ? "\nand \(faults.count - 20) more" : ""
  throw Failure(faults.prefix(20).joined(separator: "\n") + rest + "\nnothing was submitted")
}
