internal import CLinux
internal import Glibc
internal import Jobs
internal import System

/// A call of a command, taken apart.
struct Invocation: Sendable {
  /// The command's name, for messages.
  var command = ""
  /// Operands as the kernel gave them: bytes.
  var operands: [Name] = []
  private var given: [OptionName: [Name]] = [:]

  mutating func add(_ name: OptionName, _ argument: Name?) {
    given[name, default: []].append(argument ?? Name(""))
  }

  /// Whether it was given at all.
  func has(_ name: OptionName) -> Bool { given[name] != nil }
  /// The argument, the last one when there are several; it must be UTF-8.
  func text(_ name: OptionName) throws -> String? { try texts(name).last }
  /// All arguments in their order.
  func texts(_ name: OptionName) throws -> [String] {
    try (given[name] ?? []).map { bytes in
      guard let text = String(validating: bytes.bytes, as: UTF8.self) else {
        throw UsageError("--\(name.rawValue): \(bytes.description.quoted) is not UTF-8")
      }
      return text
    }
  }
  /// A whole number within a range.
  func integer(_ name: OptionName, _ range: ClosedRange<Int>) throws -> Int? {
    guard let text = try text(name) else { return nil }
    guard let number = Int(text), range ~= number else {
      throw UsageError(
        "--\(name.rawValue): must be a whole number from \(range.lowerBound) to "
          + "\(range.upperBound), not \(text.quoted)")
    }
    return number
  }
  /// Nanoseconds from a number of seconds, or a span as "30m".
  func span(_ name: OptionName) throws -> Int64? {
    guard let text = try text(name) else { return nil }
    guard let span = Quantity.duration(text) else {
      throw UsageError(
        "--\(name.rawValue): must be a number of seconds or a span as 500ms, 30m, 12h or 7d, not "
          + text.quoted)
    }
    return span
  }
  /// One of an enumeration's words.
  func word<Word: RawRepresentable & CaseIterable>(_ name: OptionName) throws -> Word?
  where Word.RawValue == String {
    guard let text = try text(name) else { return nil }
    guard let word = Word(rawValue: text) else {
      let words = Word.allCases.map(\.rawValue).joined(separator: " or ")
      throw UsageError("--\(name.rawValue): must be \(words), not \(text.quoted)")
    }
    return word
  }
}

/// Takes the words behind a command's name apart, by getopt_long(3): options and operands in any
/// order, `--option=value`, `--` ends the options. Long names are never abbreviated.
///
/// `arguments` are without the program's and the command's name. `stopsAtOperand`: what comes behind
/// the first operand isn't looked at.
func parse(
  _ arguments: [Name], _ options: [Option], stopsAtOperand: Bool = false
) throws(UsageError) -> Invocation {
  var argv = unsafe ([Name("upspool")] + arguments).map { word in unsafe strdup(word.cString) }
  unsafe argv.append(nil)
  let all = unsafe argv
  defer { for i in unsafe all.indices { unsafe free(all[i]) } }
  let count = Int32(arguments.count + 1)
  let names = options.map { $0.name.rawValue + ($0.argument == nil ? "" : ":") }
    .joined(separator: " ")
  // The colon before all: a missing argument is told apart from an unknown option.
  var letters = stopsAtOperand ? "+:" : ":"
  for option in options {
    if let letter = option.letter { letters += "\(letter)" + (option.argument == nil ? "" : ":") }
  }
  var invocation = Invocation()
  var step = unsafe clinux_option()
  var isFirst: Int32 = 1
  while true {
    unsafe clinux_getopt(count, &argv, letters, names, isFirst, &step)
    isFirst = 0
    let word = unsafe Name(cString: step.word)
    let letter = unsafe Character(Unicode.Scalar(UInt8(truncatingIfNeeded: step.letter)))
    var option: Option?
    switch unsafe Int(step.kind) {
    case Int(CLINUX_END):
      for i in unsafe Int(step.next)..<Int(count) {
        if let operand = unsafe argv[i] {
          unsafe invocation.operands.append(Name(cString: operand))
        }
      }
      return invocation
    case Int(CLINUX_LONG): option = options[unsafe Int(step.index)]
    case Int(CLINUX_LETTER): option = options.first { $0.letter == letter }
    case Int(CLINUX_MISSING_ARGUMENT):
      throw UsageError("\(word.description.quoted) needs an argument")
    case Int(CLINUX_SURPLUS_ARGUMENT):
      let name = word.description.prefix { $0 != "=" }
      throw UsageError("\(name) takes no argument; leave \"=\" and what follows out")
    default:
      throw unknown(unsafe step.letter == 0 ? nil : letter, word, options)
    }
    guard let option else { continue }
    if option.isLater {
      throw UsageError("--\(option.name.rawValue): this version doesn't know this option yet")
    }
    unsafe invocation.add(option.name, step.argument.map { unsafe Name(cString: $0) })
  }
}

private func unknown(_ letter: Character?, _ word: Name, _ options: [Option]) -> UsageError {
  if let letter {
    let shown =
      letter.isASCII
      ? String(letter) : "\\x" + String(letter.unicodeScalars.first!.value, radix: 16)
    return UsageError("unknown option -\(shown.printable())")
  }
  let name = word.description.prefix { $0 != "=" }
  let known = options.map { "--" + $0.name.rawValue }
  let hint = nearest(String(name), among: known).map { "; the nearest known one is \($0)" } ?? ""
  return UsageError("unknown option \(String(name).printable(limit: 80))\(hint)")
}
