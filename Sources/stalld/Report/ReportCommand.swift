import ArgumentParser

/// `stalld report`: what stalls most.
struct ReportCommand: ParsableCommand {
  static let configuration = CommandConfiguration(commandName: "report", abstract: "Tells what stalls most.")

  @Argument(help: "Files of report lines.")
  var files: [String] = []

  @Option(help: "What stalls are put together by.")
  var by = Grouping.culprit

  func run() throws {
    let outcome = ReportReader().read(files.isEmpty ? ["-"] : files)
    let summary = ReportSummary(outcome.pass, grouping: by)
    for group in summary.groups.prefix(20) {
      print(group.milliseconds, group.count, group.hosts, group.cause, group.key)
    }
    print(summary.stalls.count, summary.stacks.count, summary.skipped.named, outcome.failures)
  }
}
