internal import Jobs

/// The texts of `--help`, made from the table; at most 80 columns wide.
enum Help {
  private static let width = 80

  /// What the program is and which commands it has.
  static var overview: String {
    var lines = ["Usage: upspool COMMAND [OPTION]…", ""]
    lines += wrap(
      "Uploads files reliably: a job is a JSON file, the directory that it lies in is its state. "
        + "Every command does what could be done by hand with cp, mv, rm and cat.")
    lines += ["", "Commands:"]
    lines += columns(commands.filter { !$0.isLater }.map { ($0.name, $0.summary) })
    lines += ["", "By hand in this version (each says how):"]
    lines += columns(commands.filter { $0.isLater }.map { ($0.name, $0.summary) })
    lines += ["", "Options:"]
    lines += columns([helpOption, versionOption].map { (left($0), $0.help) })
    lines += [""]
    lines += wrap("Exit codes: 0 fine, 1 the work failed, 2 the call was wrong.")
    lines += ["Help on a command: upspool COMMAND --help"]
    return lines.joined(separator: "\n")
  }

  /// One command's.
  static func text(_ command: Command) -> String {
    let operands = command.operands.isEmpty ? "" : " \(command.operands)"
    let needed = command.name == "submit" ? " --to DEST" : ""
    var lines = ["Usage: upspool \(command.name)\(operands)\(needed) [OPTION]…", ""]
    lines += wrap(command.summary)
    if command.isLater {
      lines += ["", "This version doesn't know it yet; call it to see how it is done by hand."]
    }
    lines += ["", "Options:"]
    let options = command.options.filter { !$0.isLater } + [helpOption]
    lines += columns(options.map { (left($0), $0.help) })
    for note in command.notes { lines += [""] + wrap(note) }
    return lines.joined(separator: "\n")
  }

  private static func left(_ option: Option) -> String {
    (option.letter.map { "-\($0), " } ?? "    ") + option.usage
  }

  /// Two columns, the right one wrapped; a left side that is too long stands on a line of its own.
  private static func columns(_ rows: [(left: String, right: String)]) -> [String] {
    let fitting = rows.map { $0.left.displayWidth }.filter { $0 <= 26 }
    let indent = 2 + (fitting.max() ?? 0) + 2
    var lines: [String] = []
    for (left, right) in rows {
      var right = wrap(right, width - indent)
      let room = indent - 4
      if left.displayWidth <= room, !right.isEmpty {
        lines.append("  " + left.padded(to: room) + "  " + right.removeFirst())
      } else {
        lines.append("  " + left)
      }
      lines += right.map { String(repeating: " ", count: indent) + $0 }
    }
    return lines
  }

  /// Lines of at most `width` columns, broken at spaces; a longer word stands alone.
  static func wrap(_ text: String, _ width: Int = width) -> [String] {
    var lines: [String] = []
    var line = ""
    for word in text.split(separator: " ") {
      if !line.isEmpty, line.displayWidth + 1 + word.displayWidth > width {
        lines.append(line)
        line = ""
      }
      line += (line.isEmpty ? "" : " ") + word
    }
    return line.isEmpty ? lines : lines + [line]
  }
}
