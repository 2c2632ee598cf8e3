internal import System

/// A shell that completions are made for.
private enum Shell: String, CaseIterable { case bash, zsh, fish }

/// `upspool completion SHELL`: prints a script that completes commands, options and jobs' names, made
/// from the one table.
@Sendable func completion(_ invocation: Invocation, _ console: Console) throws -> ExitCode {
  guard invocation.operands.count == 1,
    let shell = Shell(rawValue: invocation.operands[0].description)
  else { throw UsageError("names one shell: bash, zsh or fish") }
  switch shell {
  case .bash: console.out.line(Completion.bash)
  case .zsh: console.out.line(Completion.zsh)
  case .fish: console.out.line(Completion.fish)
  }
  return .fine
}

private enum Completion {
  /// What an option's argument is.
  private enum Kind {
    case directory
    case file
    case words(String)
    case other
    init(_ argument: String) {
      switch argument {
      case "DIR": self = .directory
      case "FILE": self = .file
      case _ where argument.utf8.contains(UInt8(ascii: "|")):
        self = .words(argument.split(separator: "|").joined(separator: " "))
      default: self = .other
      }
    }
  }

  private static var known: [Command] { commands.filter { !$0.isLater } }
  private static func options(_ command: Command) -> [Option] {
    command.options.filter { !$0.isLater } + [helpOption]
  }
  /// As they stand in a command line: `--spool -s`.
  private static func spellings(_ option: Option) -> [String] {
    ["--\(option.name.rawValue)"] + (option.letter.map { ["-\($0)"] } ?? [])
  }
  /// The directories whose jobs a command is about.
  private static func places(_ command: Command) -> String? {
    switch command.name {
    case "pause": "pending active"
    case "resume": "paused"
    case "cancel": "pending active paused"
    case "retry": "failed done"
    default: command.operands.contains("JOB") ? "active pending paused failed done" : nil
    }
  }
  private static func words(_ command: Command) -> String? {
    command.operands.contains("|")
      ? command.operands.split(separator: "|").joined(separator: " ") : nil
  }
  private static var names: String { known.map(\.name).joined(separator: " ") }

  // MARK: bash

  static var bash: String {
    var out = """
      # bash completion for upspool
      _upspool() {
        local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
        local spool=${UPSPOOL:-spool} i
        COMPREPLY=()
        for ((i = 2; i < COMP_CWORD; i++)); do
          case ${COMP_WORDS[i]} in
            --spool|-s) spool=${COMP_WORDS[i+1]} ;;
          esac
        done
        if ((COMP_CWORD == 1)); then
          COMPREPLY=($(compgen -W "\(names) help --help --version" -- "$cur"))
          return
        fi
        case ${COMP_WORDS[1]} in

      """
    for command in known {
      out += "    \(command.name))\n      case $prev in\n"
      for option in options(command) {
        guard let argument = option.argument else { continue }
        let action =
          switch Kind(argument) {
          case .directory: "compopt -o filenames; COMPREPLY=($(compgen -d -- \"$cur\"))"
          case .file: "compopt -o filenames; COMPREPLY=($(compgen -f -- \"$cur\"))"
          case .words(let words): "COMPREPLY=($(compgen -W \"\(words)\" -- \"$cur\"))"
          case .other: ":"
          }
        out += "        \(spellings(option).joined(separator: "|"))) \(action); return ;;\n"
      }
      out += "      esac\n      if [[ $cur == -* ]]; then\n"
      out +=
        "        COMPREPLY=($(compgen -W \""
        + options(command).flatMap(spellings).joined(separator: " ") + "\" -- \"$cur\"))\n"
      if let places = places(command) {
        out += "      else\n        _upspool_jobs \(places)\n"
      } else if let words = words(command) {
        out += "      else\n        COMPREPLY=($(compgen -W \"\(words)\" -- \"$cur\"))\n"
      } else if command.operands.contains("FILE") {
        out += "      else\n        compopt -o filenames; COMPREPLY=($(compgen -f -- \"$cur\"))\n"
      }
      out += "      fi ;;\n"
    }
    return out + """
          help) COMPREPLY=($(compgen -W "\(names)" -- "$cur")) ;;
        esac
      }
      _upspool_jobs() {
        local place file
        compopt -o filenames 2>/dev/null
        for place; do
          for file in "$spool/$place/$cur"*.json; do
            [ -e "$file" ] || continue
            file=${file##*/}
            COMPREPLY+=("${file%.json}")
          done
        done
      }
      complete -F _upspool upspool
      """
  }

  // MARK: zsh

  static var zsh: String {
    var out = """
      #compdef upspool
      _upspool() {
        local prev=${words[CURRENT-1]} cur=${words[CURRENT]} spool=${UPSPOOL:-spool} i
        local -a names
        for ((i = 3; i < CURRENT; i++)); do
          case ${words[i]} in
            (--spool|-s) spool=${words[i+1]} ;;
          esac
        done
        if ((CURRENT == 2)); then
          compadd -- \(names) help --help --version
          return
        fi
        case ${words[2]} in

      """
    for command in known {
      out += "    (\(command.name))\n      case $prev in\n"
      for option in options(command) {
        guard let argument = option.argument else { continue }
        let action =
          switch Kind(argument) {
          case .directory: "_files -/"
          case .file: "_files"
          case .words(let words): "compadd -- \(words)"
          case .other: ":"
          }
        out += "        (\(spellings(option).joined(separator: "|"))) \(action); return ;;\n"
      }
      out += "      esac\n      if [[ $cur == -* ]]; then\n"
      out +=
        "        compadd -- " + options(command).flatMap(spellings).joined(separator: " ") + "\n"
      if let places = places(command) {
        let list = places.split(separator: " ").joined(separator: ",")
        let braces = list.contains(",") ? "{\(list)}" : list
        out += "      else\n        names=(\"$spool\"/\(braces)/*.json(N:t:r))\n"
        out += "        compadd -- $names\n"
      } else if let words = words(command) {
        out += "      else\n        compadd -- \(words)\n"
      } else if command.operands.contains("FILE") {
        out += "      else\n        _files\n"
      }
      out += "      fi ;;\n"
    }
    return out + """
          (help) compadd -- \(names) ;;
        esac
      }
      # Read as a function of $fpath, or sourced.
      if [[ ${funcstack[1]} == _upspool ]]; then
        _upspool "$@"
      else
        compdef _upspool upspool
      fi
      """
  }

  // MARK: fish

  static var fish: String {
    var out = """
      # fish completion for upspool
      function __upspool_jobs
          set -l spool spool
          set -q UPSPOOL; and set spool $UPSPOOL
          set -l words (commandline -opc)
          for i in (seq (count $words))
              contains -- $words[$i] --spool -s; and set spool $words[(math $i + 1)]
          end
          for place in $argv
              for file in $spool/$place/*.json
                  string replace -r '.*/(.*)\\.json$' '$1' -- $file
              end
          end
      end
      complete -c upspool -f

      """
    for command in known {
      out +=
        "complete -c upspool -n __fish_use_subcommand -a \(command.name) "
        + "-d \(quoted(command.summary))\n"
      let here = "complete -c upspool -n '__fish_seen_subcommand_from \(command.name)'"
      for option in options(command) {
        var line = "\(here) -l \(option.name.rawValue)"
        if let letter = option.letter { line += " -s \(letter)" }
        if let argument = option.argument {
          switch Kind(argument) {
          case .directory: line += " -x -a '(__fish_complete_directories)'"
          case .file: line += " -r -F"
          case .words(let words): line += " -x -a '\(words)'"
          case .other: line += " -x"
          }
        }
        out += line + " -d \(quoted(option.help))\n"
      }
      if let places = places(command) {
        out += "\(here) -a '(__upspool_jobs \(places))'\n"
      } else if let words = words(command) {
        out += "\(here) -a '\(words)'\n"
      } else if command.operands.contains("FILE") {
        out += "\(here) -F\n"
      }
    }
    out.removeLast()
    return out
  }

  /// For fish: in single quotes, in which only those and backslashes mean something.
  private static func quoted(_ text: String) -> String {
    var out = "'"
    for scalar in text.unicodeScalars {
      if scalar == "'" || scalar == "\\" { out += "\\" }
      out.unicodeScalars.append(scalar)
    }
    return out + "'"
  }
}
