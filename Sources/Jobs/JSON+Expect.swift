internal import System

// What a job and a configuration expect of a value; an error's path is the part below the value.
extension JSON {
  /// A string of any length.
  package func asString() throws(Malformed) -> String {
    guard let string else { throw Malformed("", "must be a string, not \(kind.words)") }
    return string
  }

  /// A whole number, written without fraction or exponent.
  package func asInteger(_ range: ClosedRange<Int64>) throws(Malformed) -> Int64 {
    guard let integer, range ~= integer else {
      throw Malformed("", "must be a whole number from \(range.lowerBound) to \(range.upperBound)")
    }
    return integer
  }

  /// One of an enumeration's words, spelt exactly so.
  package func asCase<Word: RawRepresentable & CaseIterable>() throws(Malformed) -> Word
  where Word.RawValue == String {
    guard let word = string.flatMap(Word.init(rawValue:)) else {
      let words = Word.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: " or ")
      throw Malformed("", "must be \(words)")
    }
    return word
  }

  /// Nanoseconds since 1970 from RFC 3339, years 1970 to 2200.
  package func asTime() throws(Malformed) -> Int64 {
    guard let time = string.flatMap(Times.parse), 0..<7_289_654_400 * second ~= time else {
      throw Malformed(
        "",
        "must be a time with date and zone, as \"2026-12-01T08:00:00Z\" or "
          + "\"2026-12-01T09:00:00+01:00\", from 1970 to 2200")
    }
    return time
  }

  /// `type/subtype`, with parameters if wanted (RFC 9110 8.3.1), at most 255 bytes.
  package func asMediaType() throws(Malformed) -> String {
    let text = try asString()
    let parts = text.prefix { $0 != ";" }.split(separator: "/", omittingEmptySubsequences: false)
    func trimmed(_ part: Substring) -> String {
      String(part.prefix { $0 != " " })
    }
    guard text.utf8.count <= 255, !text.hasControlCharacters, parts.count == 2,
      isToken(String(parts[0])), isToken(trimmed(parts[1]))
    else { throw Malformed("", "must be a media type, as \"image/jpeg\"") }
    return text
  }

  /// `{"field": "file", "fields": {"name": "text or number"}}`; the field is called `file` unless
  /// set. At most 256 fields.
  package func asForm() throws(Malformed) -> Job.Form {
    guard kind == .object else {
      throw Malformed("", "must be {\"field\": …, \"fields\": {…}}, not \(kind.words)")
    }
    var form = Job.Form(field: "file")
    for (key, value) in members {
      do throws(Malformed) {
        switch key {
        case "field":
          form.field = try value.asString()
          try checkField(form.field)
        case "fields": form.fields = try value.asFields()
        default: throw unknownKey(key, known: ["field", "fields"])
        }
      } catch {
        throw error.within(pathElement(key))
      }
    }
    return form
  }

  private func asFields() throws(Malformed) -> [Job.Field] {
    guard kind == .object else { throw Malformed("", "must be an object, not \(kind.words)") }
    if count > 256 { throw Malformed("", "at most 256, not \(count)") }
    var fields: [Job.Field] = []
    for (name, value) in members {
      do throws(Malformed) {
        try checkField(name)
        guard let text = value.string ?? (value.number == nil ? nil : value.compact) else {
          throw Malformed("", "must be a string or a number, not \(value.kind.words)")
        }
        fields.append(Job.Field(name: name, value: text))
      } catch {
        throw error.within(pathElement(name))
      }
    }
    return fields
  }

  private func checkField(_ name: String) throws(Malformed) {
    if name.isEmpty || name.utf8.count > 255 || name.hasControlCharacters {
      throw Malformed(
        "", "a form field's name has 1 to 255 bytes and no control characters")
    }
  }

  /// `{"Name": "value"}`, at most 64; see `headerFault` for what each may be.
  package func asHeaders() throws(Malformed) -> [Job.Header] {
    guard kind == .object else {
      throw Malformed("", "must be an object of names and strings, not \(kind.words)")
    }
    if count > 64 { throw Malformed("", "at most 64, not \(count)") }
    var headers: [Job.Header] = []
    var seen: Set<String> = []
    for (name, value) in members {
      do throws(Malformed) {
        let header = Job.Header(name: name, value: try value.asString())
        if let fault = headerFault(header) { throw Malformed("", fault) }
        if !seen.insert(name.lowercased()).inserted {
          throw Malformed("", "is there twice; upper and lower case make no difference in headers")
        }
        headers.append(header)
      } catch {
        throw error.within(pathElement(name))
      }
    }
    return headers
  }
}

/// What is wrong with a header that somebody sets; nil if it is fine. It never repeats the value.
///
/// The name is a token (RFC 9110 5.6.2) and none that the transfer itself depends on; the value has
/// at most 8 KiB and no control characters but tabs (RFC 9110 5.5).
package func headerFault(_ header: Job.Header) -> String? {
  if !isToken(header.name) { return "is no header's name (letters, digits and !#$%&'*+-.^_`|~)" }
  let name = header.name.lowercased()
  if reserved.contains(name) || name.hasPrefix("proxy-") {
    return "is set by the transfer itself; leave it out"
  }
  if header.value.utf8.count > 8192 { return "is longer than 8,192 bytes" }
  if header.value.utf8.contains(where: { ($0 < 0x20 && $0 != 0x09) || $0 == 0x7f }) {
    return "has a line break or another control character in it"
  }
  return nil
}

private let reserved: Set<String> = [
  "host", "content-length", "transfer-encoding", "connection", "expect", "trailer", "te", "upgrade",
  "idempotency-key",
]

private func isToken(_ text: String) -> Bool {
  !text.isEmpty
    && text.utf8.allSatisfy { isAlphanumeric($0) || "!#$%&'*+-.^_`|~".utf8.contains($0) }
}

/// The error for a key that isn't known: it says which known one is nearest, or that `later`
/// versions know it.
package func unknownKey(_ key: String, known: [String], later: [String] = []) -> Malformed {
  if later.contains(key) { return Malformed("", "this version doesn't know this key yet") }
  let hint = nearest(key, among: known + later).map { "; the nearest known one is \"\($0)\"" }
  return Malformed("", "unknown key\(hint ?? "")")
}

/// A key as part of a path: as it is when it is a plain word, else quoted.
package func pathElement(_ key: String) -> String {
  let isPlain =
    1...64 ~= key.utf8.count
    && key.utf8.allSatisfy { isAlphanumeric($0) || $0 == 0x2d || $0 == 0x5f }
  return isPlain ? key : key.quoted
}
