internal import Commands
internal import Glibc

@main struct Main {
  static func main() {
    exit(runCommandLine(arguments()))
  }
}
