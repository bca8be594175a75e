import ArgumentParser

/// The command line.
@main
struct Stalld: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "stalld",
    abstract: "Finds out what blocks the main loops of this machine's services.",
    discussion: """
      Data goes to standard output, talk to standard error. Exit codes: 0 done, 1 failed, 64 wrong use.
      """,
    version: stalldVersion,
    subcommands: [
      RunCommand.self, CheckCommand.self, ReloadCommand.self, StatusCommand.self, TailCommand.self, DemoCommand.self,
      SymbolicateCommand.self, ReportCommand.self, SettingsReferenceCommand.self, NameWorkerCommand.self,
    ])
}
