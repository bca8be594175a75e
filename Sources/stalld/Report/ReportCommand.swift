import ArgumentParser
import Glibc

/// `stalld report`: what stalls most, out of many report lines.
struct ReportCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "report",
    abstract: "Ranks the functions that stall most, from report lines.",
    discussion: """
      Examples:
        stalld report /var/log/stalld/*.jsonl*
        stalld report --by service --since 7d --format csv reports.jsonl > week.csv
        stalld report --service 'web-*' --min 1s --stacks reports.jsonl.gz
        stalld report --diff release:1.0 release:1.1 --by fingerprint reports.jsonl
        journalctl -o cat -u web | stalld report -
        stalld report --html report.html /var/log/stalld/*.jsonl*
        stalld report --format pprof reports.jsonl > stalls.pb.gz

      Reads report lines in any order from files, including gzip files, and ranks groups by total stalled time × distinct machines. \
      All lines of one stall count once, with its last duration. Summaries of repeated stalls (stall.suppressed) count in totals, \
      but not in percentiles. A line that is not a report is skipped and counted; the first ten are listed \
      on standard error.

      With --diff the command compares two files (stalld report --diff OLD NEW) or two releases in the same files \
      (stalld report --diff release:1.0 release:1.1 FILE…) and shows what is new, worse, better or gone. A rate is the stalled \
      time of a row divided by the days from the first to the last stall of all rows of that side. If a side covers less than a \
      day, totals are compared instead.

      Times are UTC. A day of --since begins at 00:00 UTC; 2026-11-21+01:00 is a day of another offset.

      If a file could not be read to its end, the output has what was read, and says so. A file that was compressed or rotated \
      since the command began is read under its new name. The page of --html replaces an earlier page or an empty file, and \
      nothing else.

      Exit code: 0; 1 if an input could not be read to its end, all lines were skipped (except with --format otlp), a release of \
      --diff is not in an input that has stalls, or the output cannot be written; 64 usage error.
      """)

  @Option(help: ArgumentHelp("Group stalls by this key.", valueName: "key"))
  var by = Grouping.culprit

  @Option(help: ArgumentHelp("Only lines since this time: \(SinceArgument.allowed).", valueName: "time"))
  var since: SinceArgument?

  @Option(help: ArgumentHelp("Only services whose name matches the pattern.", valueName: "glob"))
  var service: String?

  @Option(
    help: ArgumentHelp(
      "Only stalls of at least this duration: \(DurationArgument.allowed). Stalls that were only counted (stall.suppressed) are left out.",
      valueName: "duration"))
  var min: DurationArgument?

  @Option(parsing: .unconditional, help: ArgumentHelp("The number of rows.", valueName: "number"))
  var limit = 20

  @Option(help: ArgumentHelp("The output format.", valueName: "format"))
  var format = ReportFormatName.table

  @Option(help: ArgumentHelp("Write one HTML page with charts instead; it works without a network.", valueName: "file"))
  var html: String?

  @Option(
    help: ArgumentHelp(
      "The directory of the stalls' detail files (ID.json, or the agent's ID.USER.json); --html adds their call trees.",
      valueName: "directory"))
  var details: String?

  @Flag(help: "Compare the first two arguments: files, or release:VERSION of the files that follow.")
  var diff = false

  @Flag(
    help:
      "Print the stack with the most time for each row; frames of run loops, thunks and the C library's start are one line."
  )
  var stacks = false

  @Flag(help: "Print stacks with all frames, and function names in full.")
  var allFrames = false

  @Flag(inversion: .prefixedNo, help: "Charts above the table. (default: on a terminal)")
  var graphs: Bool?

  @Argument(help: "Files of report lines, or quoted patterns; default, or -: standard input.", completion: .file())
  var files: [String] = []

  func validate() throws {
    guard limit > 0 else { throw ValidationError("--limit \(limit) is invalid; allowed: 1 or more.") }
    if let details {
      guard html != nil else { throw ValidationError("--details needs --html.") }
      guard access(details + "/.", R_OK) == 0 else {
        throw ValidationError(
          "--details \(details): \(String(cString: strerror(errno))); give the directory of the detail files.")
      }
    }
    if html != nil, format != .table {
      throw ValidationError("--html cannot be combined with --format \(format.rawValue).")
    }
    if format == .pprof, isatty(STDOUT_FILENO) == 1 {
      throw ValidationError("--format pprof writes binary data; redirect standard output to a file or a pipe.")
    }
    if format == .otlp, since != nil || service != nil || min != nil {
      throw ValidationError("--format otlp converts each line; it cannot be combined with --since, --service or --min.")
    }
    guard diff else { return }
    if html != nil { throw ValidationError("--diff cannot be combined with --html.") }
    if format.format == nil {
      throw ValidationError("--diff supports --format table, json and csv, not \(format.rawValue).")
    }
    let sides = files.prefix(2).map(DiffArgument.init)
    guard sides.count == 2 else {
      throw ValidationError(
        "--diff needs two files, such as --diff old.jsonl new.jsonl, or two releases and files, such as --diff release:1.0 release:1.1 *.jsonl."
      )
    }
    switch (sides[0], sides[1]) {
    case (.file, .file):
      guard files.count == 2 else { throw ValidationError("--diff compares two files; \(files.count) are given.") }
    case (.release, .release):
      guard by != .release else { throw ValidationError("--diff of releases cannot be combined with --by release.") }
    default: throw ValidationError("--diff needs two files or release:VERSION twice, not one of each.")
    }
  }

  func run() throws {
    let releases = diff ? files.prefix(2).filter { $0.hasPrefix(DiffArgument.releasePrefix) } : []
    DescriptorLimit.raise()
    // Two if files are compared.
    let sides =
      diff && releases.isEmpty
      ? files.map { InputFiles([$0]) } : [InputFiles(Array(files.dropFirst(releases.count)))]
    for side in sides {
      let output = OutputFile(path: html ?? "-", inputs: side)
      try succeed { () throws(OutputFile.Failure) in try output.check() }
    }
    if sides.contains(where: \.hasStandardInput) { InputAdvice.noteTerminal("report") }
    let inputs = sides[0]
    if format == .otlp { return try OTLPConversion.run(inputs) }
    let screen = Screen.current()
    let view = ReportView(
      limit: limit, showsStacks: stacks || allFrames, showsAll: allFrames, showsGraphs: graphs ?? screen.isTerminal,
      screen: screen)
    if diff {
      let (comparison, isComplete) = try comparison(sides)
      write(format.format?.text(of: comparison, view))
      if !isComplete { throw ExitCode(1) }
      return
    }
    let summary = summary(try read(inputs))
    note(summary)
    let details = details.map(DetailTrees.init(directory:))
    if html != nil || format.format == nil {
      let page = html.map { _ in ReportPage(summary, details: details).html() }
      try succeed { () throws(OutputFile.Failure) in
        try OutputFile(path: html ?? "-", inputs: inputs).write(page ?? TerminalText.json(format.export(summary)))
      }
    } else {
      write(format.format?.text(of: summary, view))
    }
    if let unread = details?.unread { StandardError.say("report", unread) }
    if !summary.unreadable.isEmpty || details?.unread != nil { throw ExitCode(1) }
  }

  /// Runs `body`; on a failure, says why and throws an exit code.
  private func succeed(_ body: () throws(OutputFile.Failure) -> Void) throws {
    do throws(OutputFile.Failure) {
      try body()
    } catch {
      guard !error.isEndOfReader else { return }
      StandardError.say("report", "\(error)")
      throw ExitCode(1)
    }
  }

  private func write(_ text: String?) { StandardOutput.writeOrExit("report", Array((text ?? "").utf8)) }

  private func summary(_ pass: consuming ReportPass, release: String? = nil) -> ReportSummary {
    ReportSummary(pass, grouping: by, shortest: min?.milliseconds ?? 0, release: release)
  }

  /// What changed, and whether all files could be read.
  private func comparison(_ sides: [InputFiles]) throws -> (ReportComparison, isComplete: Bool) {
    let (old, new): (ReportSummary, ReportSummary)
    if case .release(let before) = DiffArgument(files[0]), case .release(let after) = DiffArgument(files[1]) {
      let pass = try read(sides[0])
      try require([before, after], in: pass)
      old = summary(pass, release: before)
      new = summary(pass, release: after)
    } else {
      old = summary(try read(sides[0]))
      new = summary(try read(sides[1]))
    }
    note(new)
    for (side, name) in [(old, files[0]), (new, files[1])] where side.groups.isEmpty {
      StandardError.say("report", "\(name): no stalls")
    }
    let comparison = ReportComparison(old: old, named: files[0], new: new, named: files[1])
    return (comparison, old.unreadable.isEmpty && new.unreadable.isEmpty)
  }

  /// Throws if the stalls are of other releases than the two that are to be compared.
  private func require(_ releases: [String], in pass: borrowing ReportPass) throws {
    let known = pass.releases
    let missing = releases.filter { !known.contains($0) }
    guard pass.stalls.count > 0, let first = missing.first else { return }
    let limit = 20
    let list =
      known.isEmpty
      ? "none" : known.prefix(limit).map(\.printable).joined(separator: ", ") + (known.count > limit ? ", …" : "")
    StandardError.say("report", "no stall is of release \(first.printable); releases in the input: \(list)")
    throw ExitCode(1)
  }

  /// Says what could not be read; throws if that is all.
  private func read(_ inputs: InputFiles) throws -> ReportPass {
    let filter = ReportPass.Filter(since: since?.seconds ?? -.infinity, service: service)
    let outcome = ReportReader(filter: filter).read(inputs)
    let (failures, opened) = (outcome.inputs.failures, outcome.inputs.opened)
    for failure in failures { StandardError.say("report", "\(failure.file): \(failure.reason)") }
    let skipped = outcome.pass.skipped
    for line in skipped.named { StandardError.say("report", "\(line.file), line \(line.number): \(line.reason)") }
    if skipped.count > 0 {
      StandardError.say(
        "report", "skipped \(skipped.count) of \(outcome.pass.lines) lines")
    }
    if opened > 0, outcome.pass.lines == 0, failures.isEmpty {
      StandardError.say("report", InputAdvice.noLines)
    } else if opened > 0, skipped.count == outcome.pass.lines {
      StandardError.say("report", InputAdvice.noReports)
    }
    let isNothingRead = opened == 0 || (outcome.pass.lines == 0 && !failures.isEmpty)
    if isNothingRead || (skipped.count > 0 && skipped.count == outcome.pass.lines) { throw ExitCode(1) }
    return outcome.pass
  }

  private func note(_ summary: ReportSummary) {
    let given = [
      since.map { "--since \($0.text)" }, service.map { "--service \($0.printable)" }, min.map { "--min \($0.text)" },
    ].compactMap(\.self)
    if summary.groups.isEmpty, summary.lines > summary.skipped.count, let last = given.last {
      let others = given.dropLast().joined(separator: ", ")
      let advice = others.isEmpty ? "\(last); remove it" : "\(others) and \(last) together; remove one of them"
      StandardError.say("report", "no stall matches \(advice)")
    }
    if summary.omittedSummaries > 0 {
      StandardError.say(
        "report",
        "--min omits \(summary.omittedSummaries) summaries of repeated stalls: the durations of their stalls are not known"
      )
    }
    if summary.omittedStacks > 0 {
      StandardError.say(
        "report", "the stacks of at least \(summary.omittedStacks) lines are omitted: too many different stacks")
    }
  }
}
