import ArgumentParser
import Glibc

/// `stalld report`: what stalls most, out of many report lines.
struct ReportCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "report",
    abstract: "Ranks what stalls most, out of report lines.",
    discussion: """
      Reads report lines in any order from files, also such as gzip made, and ranks them by total stalled time × distinct hosts. \
      All lines of one stall count once, with its last duration; stalls that were counted instead of told (stall.suppressed) \
      count in, but have no part in p50, p95 and p99. A line that is no report is skipped, counted, and named on standard error.

      With --diff two files are compared (stalld report --diff OLD NEW), or two releases in the same files \
      (stalld report --diff release:1.0 release:1.1 FILE…): what is new, worse, better or gone. Rates are stalled time by the day \
      from the first stall of a side to its last.

      Examples:
        stalld report /var/log/stalld/*.jsonl*
        stalld report --by service --since 7d --format csv reports.jsonl > week.csv
        stalld report --service 'web-*' --min 1s --stacks reports.jsonl.gz
        stalld report --diff release:1.0 release:1.1 --by fingerprint reports.jsonl
        journalctl -o cat -u web | stalld report -

      Exit code: 0; 1 if nothing could be read; 64 wrong use.
      """)

  @Option(help: ArgumentHelp("What stalls are put together by.", valueName: "key"))
  var by = Grouping.culprit

  @Option(help: ArgumentHelp("Lines made since then alone: \(SinceArgument.allowed).", valueName: "time"))
  var since: SinceArgument?

  @Option(help: ArgumentHelp("Services whose name matches alone.", valueName: "glob"))
  var service: String?

  @Option(
    help: ArgumentHelp(
      "Stalls that lasted so long alone: \(DurationArgument.allowed). Such as were only counted are left out.",
      valueName: "duration"))
  var min: DurationArgument?

  @Option(help: ArgumentHelp("How many rows.", valueName: "number"))
  var limit = 20

  @Option(help: ArgumentHelp("How it is written.", valueName: "format"))
  var format = ReportFormatName.table

  @Flag(help: "Compares the first two arguments: files, or release:VERSION of the files behind them.")
  var diff = false

  @Flag(help: "With an example stack of each row: the one with the most time.")
  var stacks = false

  @Flag(inversion: .prefixedNo, help: "Pictures above the table. (default: on a terminal)")
  var graphs: Bool?

  @Argument(help: "Files of report lines, or quoted patterns; none, or -, is standard input.", completion: .file())
  var files: [String] = []

  func validate() throws {
    guard limit > 0 else { throw ValidationError("--limit \(limit): at least 1 is needed.") }
    guard diff else { return }
    let sides = files.prefix(2).map(DiffArgument.init)
    guard sides.count == 2 else {
      throw ValidationError("--diff: two files are needed, or release:VERSION twice and files.")
    }
    switch (sides[0], sides[1]) {
    case (.file, .file):
      guard files.count == 2 else { throw ValidationError("--diff: two files are compared; \(files.count) are given.") }
    case (.release, .release):
      guard by != .release else { throw ValidationError("--diff of releases: --by release compares nothing.") }
    default: throw ValidationError("--diff: two files, or release:VERSION twice; not one of each.")
    }
  }

  func run() throws {
    let screen = Screen.current()
    let view = ReportView(
      limit: limit, showsStacks: stacks, showsGraphs: graphs ?? screen.isTerminal, screen: screen)
    let text = diff ? try comparison(view) : try summary(view)
    StandardOutput.write(text)
  }

  private func summary(_ view: ReportView) throws -> String {
    let summary = ReportSummary(try read(files), grouping: by, shortest: min?.milliseconds ?? 0)
    note(summary)
    return format.format.text(of: summary, view)
  }

  private func comparison(_ view: ReportView) throws -> String {
    let shortest = min?.milliseconds ?? 0
    let (old, new): (ReportSummary, ReportSummary)
    if case .release(let before) = DiffArgument(files[0]), case .release(let after) = DiffArgument(files[1]) {
      let pass = try read(Array(files.dropFirst(2)))
      old = ReportSummary(pass, grouping: by, shortest: shortest, release: before)
      new = ReportSummary(pass, grouping: by, shortest: shortest, release: after)
    } else {
      old = ReportSummary(try read([files[0]]), grouping: by, shortest: shortest)
      new = ReportSummary(try read([files[1]]), grouping: by, shortest: shortest)
    }
    note(new)
    for (side, name) in [(old, files[0]), (new, files[1])] where side.groups.isEmpty {
      StandardError.say("report", "\(name): no stalls")
    }
    let comparison = ReportComparison(old: old, named: files[0], new: new, named: files[1])
    return format.format.text(of: comparison, view)
  }

  /// Says what could not be read; throws if that is all.
  private func read(_ files: [String]) throws -> ReportPass {
    let filter = ReportPass.Filter(since: since?.seconds ?? -.infinity, service: service)
    let outcome = ReportReader(filter: filter).read(files.isEmpty ? ["-"] : files)
    for failure in outcome.failures { StandardError.say("report", "\(failure.file): \(failure.reason)") }
    let skipped = outcome.pass.skipped
    for line in skipped.named { StandardError.say("report", "\(line.file), line \(line.number): \(line.reason)") }
    if skipped.count > 0 {
      StandardError.say(
        "report", "skipped \(skipped.count) of \(outcome.pass.lines) lines")
    }
    if outcome.opened == 0 || (skipped.count > 0 && skipped.count == outcome.pass.lines) { throw ExitCode(1) }
    return outcome.pass
  }

  private func note(_ summary: ReportSummary) {
    if summary.omittedSummaries > 0 {
      StandardError.say(
        "report", "--min leaves out \(summary.omittedSummaries) summaries of stalls whose single durations are not told"
      )
    }
    if summary.omittedStacks > 0 {
      StandardError.say(
        "report", "of \(summary.omittedStacks) lines the stack is left out: there are too many different ones")
    }
  }
}
