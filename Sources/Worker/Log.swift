package import Configuration
internal import Glibc
internal import Jobs
internal import System

/// One line for each event that matters, on standard error: text for people or JSON for programs.
package struct Log: Sendable {
  package enum Format: String, Sendable, CaseIterable { case text, json }

  let format: Format
  /// No known secret leaves through here.
  let redactor: Redactor
  let now: @Sendable () -> Int64
  let write: @Sendable ([UInt8]) -> Void

  package init(
    _ format: Format, redactor: Redactor = Redactor([]),
    now: @escaping @Sendable () -> Int64 = { Clock.wall() },
    write: @escaping @Sendable ([UInt8]) -> Void = { writeToStandardError($0) }
  ) {
    (self.format, self.redactor, self.now, self.write) = (format, redactor, now, write)
  }

  func with(_ redactor: Redactor) -> Log { Log(format, redactor: redactor, now: now, write: write) }

  /// - `event`: a word that stays the same for programs.
  /// - `job`: the job's name without `.json`.
  /// - `text`: for people; not repeated in JSON where `fields` say it all.
  func say(
    _ event: String, job: String? = nil, _ text: String = "",
    _ fields: [(String, LogValue)] = []
  ) {
    var out: [UInt8] = []
    switch format {
    case .text:
      out += Times.format(now()).utf8
      out += " \(event)".utf8
      if let job { out += " \(job.printable(limit: 240))".utf8 }
      if !text.isEmpty { out += ": \(redactor.redact(text).printable(limit: 2000))".utf8 }
    case .json:
      var all: [(String, LogValue)] = [
        ("time", .text(Times.format(now()))), ("event", .text(event)),
      ]
      if let job { all.append(("job", .text(job))) }
      if !text.isEmpty { all.append(("message", .text(redactor.redact(text)))) }
      out.append(UInt8(ascii: "{"))
      for (i, (key, value)) in (all + fields).enumerated() {
        if i > 0 { out += ", ".utf8 }
        out.append(string: key)
        out += ": ".utf8
        switch value {
        case .text(let text): out.append(string: redactor.redact(text))
        case .number(let number): out += String(number).utf8
        }
      }
      out.append(UInt8(ascii: "}"))
    }
    out.append(UInt8(ascii: "\n"))
    write(out)
  }
}

enum LogValue: Sendable {
  case text(String)
  case number(Int64)
}

/// write(2), whatever comes of it: a log that can't be written stops nobody.
package func writeToStandardError(_ bytes: [UInt8]) {
  var done = 0
  while done < bytes.count {
    let n = unsafe bytes.withUnsafeBytes { buffer in
      unsafe Glibc.write(2, buffer.baseAddress! + done, buffer.count - done)
    }
    if n <= 0 { return }
    done += n
  }
}

/// "12.3 MB": decimal units for people.
package func formatBytes(_ bytes: Int64) -> String {
  var value = Double(bytes)
  for unit in ["B", "kB", "MB", "GB", "TB"] {
    if value < 999.95 || unit == "TB" {
      if unit == "B" { return "\(bytes) B" }
      let tenths = Int64((value * 10).rounded())
      return "\(tenths / 10).\(tenths % 10) \(unit)"
    }
    value /= 1000
  }
  return "\(bytes) B"
}

/// "340 ms", "12 s", "4 min 5 s".
package func formatSpan(_ nanoseconds: Int64) -> String {
  let ms = nanoseconds / millisecond
  if ms < 10_000 { return ms < 1000 ? "\(ms) ms" : "\(ms / 1000).\(ms % 1000 / 100) s" }
  let s = ms / 1000
  if s < 120 { return "\(s) s" }
  if s < 7200 { return "\(s / 60) min \(s % 60) s" }
  return "\(s / 3600) h \(s % 3600 / 60) min"
}
