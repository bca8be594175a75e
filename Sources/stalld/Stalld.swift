import ArgumentParser

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
}
