internal import CJansson

/// A value in a JSON text (RFC 8259) as jansson read it; the text's tree lives as long as any value
/// of it.
///
/// Members keep their order, integers are `Int64`, strings hold no NUL (unless asked for). Depth is
/// bounded by jansson (2,048), size by whoever hands in the bytes.
@safe package struct JSON {
  /// What kind of value it is; a number without fraction and exponent is an integer.
  package enum Kind: String, Sendable {
    case object, array, string, integer, real, boolean, null

    /// With its article, for "must be a string, not …".
    package var words: String {
      switch self {
      case .object: "an object"
      case .array: "a list"
      case .string: "a string"
      case .integer, .real: "a number"
      case .boolean: "true or false"
      case .null: "null"
      }
    }
  }

  /// Why a text was refused.
  package enum Failure: Error, Equatable, Sendable {
    /// More bytes, or other ones, might make it JSON.
    case syntax(Malformed)
    /// Well-formed as far as it goes, yet never acceptable: a duplicate key, a number out of range,
    /// nesting without end, an escaped NUL.
    case forbidden(Malformed)

    /// Where and what.
    package var malformed: Malformed {
      switch self {
      case .syntax(let what), .forbidden(let what): what
      }
    }
  }

  @safe private final class Root {
    let raw: UnsafeMutablePointer<json_t>
    init(_ raw: UnsafeMutablePointer<json_t>) { unsafe self.raw = unsafe raw }
    deinit { unsafe json_decref(raw) }
  }

  private let raw: UnsafeMutablePointer<json_t>
  private let root: Root

  /// Reads a whole text; a byte-order mark before it is skipped.
  ///
  /// `quoting`: whether an error may repeat a piece of the text (not where it may hold secrets).
  /// `lenient`: duplicate keys are accepted, the last one counts, and strings may hold NUL: for
  /// text that we wrote.
  package init(
    parsing bytes: [UInt8], quoting: Bool = true, lenient: Bool = false
  ) throws(Failure) {
    var error = json_error_t()
    let mark = bytes.starts(with: [0xef, 0xbb, 0xbf]) ? 3 : 0
    let parsed = unsafe bytes.withUnsafeBytes { buffer in
      // An empty array has no address, and jansson wants one.
      unsafe buffer.count == mark
        ? cjansson_parse("", 0, 1, 0, &error)
        : cjansson_parse(
          buffer.baseAddress!.assumingMemoryBound(to: CChar.self) + mark, buffer.count - mark,
          lenient ? 0 : 1, lenient ? 1 : 0, &error)
    }
    guard let parsed = unsafe parsed else {
      throw unsafe Self.failure(&error, bytes.dropFirst(mark), quoting: quoting)
    }
    unsafe raw = unsafe parsed
    root = unsafe Root(parsed)
  }

  private init(_ raw: UnsafeMutablePointer<json_t>, in root: Root) {
    unsafe self.raw = unsafe raw
    self.root = root
  }

  private static func failure(
    _ error: UnsafePointer<json_error_t>, _ bytes: ArraySlice<UInt8>, quoting: Bool
  ) -> Failure {
    if bytes.allSatisfy({ [0x20, 0x09, 0x0a, 0x0d].contains($0) }) {
      return .syntax(Malformed(line: 1, column: 1, reason: "the file is empty"))
    }
    var text = unsafe String(cString: cjansson_error_text(error))
    if !quoting, let near = text.firstRange(of: " near ") {
      text = String(text[..<near.lowerBound])
    }
    let (line, column) = unsafe (Int(error.pointee.line), Int(error.pointee.column))
    let code = Int(unsafe cjansson_error_code(error))
    func at(_ reason: String) -> Malformed {
      Malformed(line: max(line, 1), column: max(column, 0), reason: reason)
    }
    switch code {
    case Int(CJANSSON_DUPLICATE_KEY), Int(CJANSSON_NUMERIC_OVERFLOW), Int(CJANSSON_TOO_DEEP),
      Int(CJANSSON_NUL_IN_KEY):
      return .forbidden(at(text.printable()))
    case Int(CJANSSON_NUL): return .forbidden(at("\\u0000 is not allowed"))
    case Int(CJANSSON_INPUT_ENDS): return .syntax(at("the text ends too early"))
    default: return .syntax(at(text.printable()))
    }
  }

  /// Which of the kinds.
  package var kind: Kind {
    switch Int(unsafe cjansson_type(raw)) {
    case Int(CJANSSON_OBJECT): .object
    case Int(CJANSSON_ARRAY): .array
    case Int(CJANSSON_STRING): .string
    case Int(CJANSSON_INTEGER): .integer
    case Int(CJANSSON_REAL): .real
    case Int(CJANSSON_TRUE), Int(CJANSSON_FALSE): .boolean
    default: .null
    }
  }

  /// Nil for any other kind; so are all the getters below.
  package var string: String? {
    guard let start = unsafe json_string_value(raw) else { return nil }
    return unsafe String(
      decoding: UnsafeRawBufferPointer(start: start, count: json_string_length(raw)), as: UTF8.self)
  }
  /// Nil for a real, even a whole one.
  package var integer: Int64? {
    kind == .integer ? Int64(unsafe json_integer_value(raw)) : nil
  }
  /// An integer or a real; always finite.
  package var number: Double? {
    switch kind {
    case .integer: Double(unsafe json_integer_value(raw))
    case .real: unsafe json_real_value(raw)
    default: nil
    }
  }
  /// True or false.
  package var boolean: Bool? {
    kind == .boolean ? Int(unsafe cjansson_type(raw)) == Int(CJANSSON_TRUE) : nil
  }

  /// How many elements or members; 0 for other kinds.
  package var count: Int {
    kind == .object ? unsafe json_object_size(raw) : unsafe json_array_size(raw)
  }
  /// The element at an index of an array; nil beyond its end.
  package func element(_ index: Int) -> JSON? {
    guard index >= 0, let value = unsafe json_array_get(raw, index) else { return nil }
    return unsafe JSON(value, in: root)
  }
  /// The member of that name of an object.
  package func member(_ key: String) -> JSON? {
    guard let value = unsafe json_object_get(raw, key) else { return nil }
    return unsafe JSON(value, in: root)
  }
  /// An object's members as they stand in the text; empty for other kinds.
  package var members: [(key: String, value: JSON)] {
    var all: [(key: String, value: JSON)] = []
    var next = unsafe json_object_iter(raw)
    while let here = unsafe next {
      if let key = unsafe json_object_iter_key(here),
        let value = unsafe json_object_iter_value(here)
      {
        unsafe all.append((String(cString: key), JSON(value, in: root)))
      }
      unsafe next = unsafe json_object_iter_next(raw, here)
    }
    return all
  }

  /// Puts `transform(text)` in the place of every string value in it (not of keys); all values of
  /// the same text see that. An error's path is the place below this value.
  package func replaceStrings(
    _ transform: (String) throws(Malformed) -> String
  ) throws(Malformed) {
    if let string {
      let text = try transform(string)
      guard !text.hasSameBytes(as: string) else { return }
      _ = unsafe json_string_setn(raw, Array(text.utf8CString), text.utf8.count)
      return
    }
    for (key, value) in members {
      do throws(Malformed) {
        try value.replaceStrings(transform)
      } catch {
        throw error.within(pathElement(key))
      }
    }
    guard kind == .array else { return }
    for index in 0..<count {
      do throws(Malformed) {
        try element(index)?.replaceStrings(transform)
      } catch {
        throw error.within("[\(index)]")
      }
    }
  }
}
