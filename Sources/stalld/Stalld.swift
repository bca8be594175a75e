import ArgumentParser
import FoundationEssentials
import Glibc
import StallReport

/// The command line.
@main
struct Stalld: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "stalld",
    abstract: "Finds the code that blocks the event loops of this machine's services.",
    discussion: """
      Examples:
        stalld demo
        stalld tail --service 'web*' --stack
        stalld report --html report.html /var/log/stalld/stalls.jsonl

      Data goes to standard output, messages go to standard error. Exit codes: 0 success, 1 failure, 64 usage error.
      """,
    version: stalldVersion,
    subcommands: [
      RunCommand.self, CheckCommand.self, ReloadCommand.self, StatusCommand.self, TailCommand.self, DemoCommand.self,
      SymbolicateCommand.self, ReportCommand.self, SettingsReferenceCommand.self, NameWorkerCommand.self,
    ])

  static func main() {
    // A reader that has gone away is an error of a write, and no signal that ends the process.
    signal(SIGPIPE, SIG_IGN)
    // And so is the process's limit for files (RLIMIT_FSIZE).
    signal(SIGXFSZ, SIG_IGN)
    occupyStandardDescriptors()
    guard !arguments.isEmpty else {
      StandardError.say("Error: the arguments cannot be read from /proc/self/cmdline; mount /proc")
      exit(withError: ExitCode.failure)
    }
    if let word = arguments.dropFirst().first, let advice = advice(on: word) {
      StandardError.say("Error: Unexpected argument '\(word.printable)'; \(advice)")
      exit(withError: ExitCode(64))
    }
    main(Array(arguments.dropFirst()))
  }

  /// The name of the program, and its arguments.
  ///
  /// Swift's runtime finds none if a preloaded library, such as libfaketime, has moved the environment (setenv(3)).
  static let arguments: [String] = {
    guard CommandLine.arguments.isEmpty else { return CommandLine.arguments }
    let line = FileManager.default.contents(atPath: "/proc/self/cmdline") ?? Data()
    return line.split(separator: 0, omittingEmptySubsequences: false).dropLast().map {
      String(decoding: $0, as: UTF8.self)
    }
  }()

  /// Keeps files and sockets of this process from becoming its standard input or output, if it was started without.
  ///
  /// Reading and writing fail there with `EBADF`, as they would without a descriptor.
  private static func occupyStandardDescriptors() {
    for (descriptor, mode) in [(STDIN_FILENO, O_WRONLY), (STDOUT_FILENO, O_RDONLY), (STDERR_FILENO, O_RDONLY)]
    where fcntl(descriptor, F_GETFD) < 0 { _ = open("/dev/null", mode) }
  }

  /// What to type instead of the first argument, if it is no subcommand; nil if it may be one.
  private static func advice(on word: String) -> String? {
    let shown = configuration.subcommands.filter { $0.configuration.shouldDisplay }
    let names = shown.compactMap { $0.configuration.commandName } + ["help"]
    let isKnown = configuration.subcommands.contains { $0.configuration.commandName == word } || word == "help"
    guard !word.hasPrefix("-"), !isKnown else { return nil }
    if word == "version" { return "stalld --version prints the version" }
    if let nearest = Suggestion.nearest(to: word, among: names) { return "did you mean \(nearest)?" }
    return "subcommands: \(names.joined(separator: ", "))"
  }
}
