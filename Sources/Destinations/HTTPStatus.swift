internal import System
package import Transfer

/// What an HTTP answer or its absence means: one table for all destinations that speak HTTP.
package enum HTTPStatus {
  /// Whose trouble a status is that isn't 2xx. `ownCredentials`: the job brought them itself.
  package static func trouble(_ response: Response, ownCredentials: Bool, now: Int64) -> SendError {
    let status = response.status
    let words = words(response)
    let retryAt = response.header("retry-after").flatMap { retryAfter($0, now: now) }
    func make(
      _ blame: SendError.Blame, _ kind: String, _ text: String, _ advice: String? = nil
    ) -> SendError {
      SendError(
        blame, kind, "the server answered \(status)\(text)\(words.isEmpty ? "" : ": \(words)")",
        advice: advice, status: status, retryAt: retryAt)
    }
    switch status {
    case 401, 407:
      if ownCredentials && status == 401 {
        return make(
          .jobForGood, "credentials", " (not signed in)",
          "correct the user, password or Authorization header that the job itself carries")
      }
      return make(
        .destination(.signIn), "credentials", " (not signed in)",
        "correct the destination's token, user or password in the configuration; its jobs wait")
    case 403:
      return make(
        .jobForGood, "forbidden", " (forbidden)",
        "the server knows who asks and refuses: check the rights there, then move the job back to "
          + "pending/")
    case 404, 410:
      return make(
        .jobForGood, "notFound", " (no such place)", "check the path in \"to\"")
    case 405, 501:
      return make(
        .jobForGood, "method", " (method not supported)",
        "the server takes no uploads at this address: check \"to\", or set \"method\" to \"POST\" or "
          + "use a \"form\"")
    case 408, 425, 423, 500:
      return make(.jobForNow, "server", "", "it is tried again")
    case 409:
      return make(
        .jobForGood, "conflict", " (conflict)",
        "on WebDAV servers the directory is missing: create it there")
    case 411, 415, 400, 422:
      return make(
        .jobForGood, "refused", "", "the server doesn't accept this request; its words say why")
    case 413:
      return make(
        .jobForGood, "tooLarge", " (too large)",
        "the server's limit for one upload is lower than this file: raise it there")
    case 429:
      return make(.destination(.throttled), "throttled", " (too many requests)", "it waits")
    case 507:
      return make(
        .destination(.full), "full", " (no space left there)",
        "make room at the receiver; its jobs wait and go on by themselves")
    case 502...504, 509, 520...524, 529, 530, 598, 599:
      return make(.destination(.throttled), "unavailable", " (unavailable)", "its jobs wait")
    case 505...599:
      return make(.jobForNow, "server", "", "it is tried again")
    case 300...399:
      return make(
        .jobForGood, "redirect", " (a redirect)", "use the address that the server really takes")
    default:
      return make(.jobForGood, "refused", "", "the server's words say why")
    }
  }

  /// Whose trouble it is when there was no answer.
  package static func trouble(_ error: TransferError) -> SendError {
    let text = error.description
    switch error {
    case .unreachable:
      return SendError(
        .destination(.unreachable), "unreachable", text,
        advice: "check the address and that the server runs; its jobs wait and go on by themselves")
    case .tls:
      return SendError(
        .destination(.unreachable), "tls", text,
        advice: "check that the name in the URL is the one in the server's certificate, and name "
          + "the authority with \"ca\" if it is your own; its jobs wait")
    case .cut:
      return SendError(.cut, "cut", text, advice: "it is tried again")
    case .stalled, .noAnswer:
      return SendError(
        .jobForNow, "timeout", text,
        advice: "it is tried again; if the server needs longer, raise the destination's "
          + "\"stallTimeout\" or \"timeout\"")
    case .sourceChanged:
      return SendError(.jobForNow, "sourceChanged", text, advice: "it is tried again")
    case .sourceUnreadable(let errno):
      return SendError(
        errno == .timedOut ? .jobForNow : .jobForGood, "source", text,
        advice: "check the disk or mount that the file is on")
    case .redirected:
      return SendError(.jobForGood, "redirect", text)
    case .invalid:
      return SendError(.jobForGood, "invalid", text)
    case .cancelled:
      return SendError(.cancelled, "cancelled", text)
    }
  }

  /// Retry-After (RFC 9110, 10.2.3) as nanoseconds since 1970: seconds or an HTTP date; what is
  /// past means now, more than a day is capped to a day. Nil when it is neither.
  package static func retryAfter(_ text: String, now: Int64) -> Int64? {
    let text = text.trimmingBlanks
    let day = 86400 * second
    if !text.isEmpty, text.utf8.allSatisfy({ 0x30...0x39 ~= $0 }) {
      return now + min(Int64(text) ?? .max, 86400) * second
    }
    guard let date = httpDate(text) else { return nil }
    return min(max(now, date), now + day)
  }

  /// A date in one of the three forms that must be read (RFC 9110, 5.6.7): `Sun, 06 Nov 1994
  /// 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT`, `Sun Nov  6 08:49:37 1994`. One that is too far
  /// off for nanoseconds is the last that isn't.
  package static func httpDate(_ text: String) -> Int64? {
    var words = text.split(separator: " ").map(String.init)
    if words.count == 5 {
      words = [words[0], words[2], words[1], words[4], words[3], "GMT"]
    } else if words.count == 4 {
      let date = words[1].split(separator: "-").map(String.init)
      guard date.count == 3, date[2].utf8.count == 2, let year = Int(date[2]) else { return nil }
      words =
        [words[0], date[0], date[1], String(year < 70 ? 2000 + year : 1900 + year)] + words[2...]
    }
    let months = [
      "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]
    guard words.count == 6, words[5] == "GMT", let day = Int64(words[1]),
      let month = months.firstIndex(of: String(words[2])), let year = Int64(words[3]),
      1970...9999 ~= year, 1...31 ~= day
    else { return nil }
    let clock = words[4].split(separator: ":").compactMap { Int64($0) }
    guard clock.count == 3, 0..<24 ~= clock[0], 0..<60 ~= clock[1], 0...60 ~= clock[2] else {
      return nil
    }
    // Days from the civil date, counting years from March.
    let m = Int64(month + 1)
    let y = m <= 2 ? year - 1 : year
    let era = y / 400
    let yearOfEra = y - era * 400
    let dayOfYear = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + day - 1
    let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
    let days = era * 146_097 + dayOfEra - 719_468
    let seconds = days * 86400 + clock[0] * 3600 + clock[1] * 60 + clock[2]
    let (time, overflow) = seconds.multipliedReportingOverflow(by: second)
    return overflow ? .max : time
  }

  /// The server's own words: the body when it is text, without tags, at most 300 characters.
  static func words(_ response: Response) -> String {
    let type = response.header("content-type") ?? "text/plain"
    guard type.hasPrefix("text/") || type.contains("json") || type.contains("xml") else {
      return ""
    }
    var out = ""
    var inTag = false
    let isMarkup = type.contains("html") || type.contains("xml")
    for scalar in String(decoding: response.body.prefix(4096), as: UTF8.self).unicodeScalars {
      if isMarkup && scalar == "<" { inTag = true }
      if !inTag {
        if scalar.properties.isWhitespace || scalar.value < 0x20 || scalar.value == 0x7f {
          if !out.isEmpty && !out.hasSuffix(" ") { out += " " }
        } else {
          out.unicodeScalars.append(scalar)
        }
      }
      if isMarkup && scalar == ">" {
        inTag = false
        if !out.isEmpty && !out.hasSuffix(" ") { out += " " }
      }
      if out.unicodeScalars.count >= 300 { return out + "…" }
    }
    return out.trimmingBlanks
  }
}

extension String {
  /// Without blanks and tabs at either end.
  var trimmingBlanks: String {
    let isBlank: (Character) -> Bool = { $0 == " " || $0 == "\t" }
    var text = self[...]
    while let first = text.first, isBlank(first) { text.removeFirst() }
    while let last = text.last, isBlank(last) { text.removeLast() }
    return String(text)
  }
}
