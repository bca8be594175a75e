import StallReport

/// A table for people.
enum TableFormat: ReportFormat {
  private static let framesShown = 24

  static func text(of summary: ReportSummary, _ view: ReportView) -> String {
    let screen = view.screen
    let since = summary.since.map { " since " + moment($0) } ?? ""
    let unread = self.unread(summary.unreadable.count)
    guard !summary.groups.isEmpty else { return "no stalls\(since)\n" + (unread.isEmpty ? "" : unread + "\n") }
    var lines: [String] = []
    if view.showsGraphs {
      let width = screen.width > 0 ? screen.width : 80
      if let spark = Sparkline.lines(summary.stalls, width: width)?.map({ TerminalText.cut($0, to: width) }) {
        lines += [screen.styled(spark[0], .faint), spark[1], screen.styled(spark[2], .faint), ""]
      }
      let histogram = DurationChart(summary.stalls).lines(width: width).map { TerminalText.cut($0, to: width) }
      if !histogram.isEmpty { lines += [screen.styled("durations", .faint)] + histogram + [""] }
    }
    let shown = Array(summary.groups.prefix(view.limit))
    let columns = GroupColumn.table(summary.grouping)
    var table = TextTableLayout(
      columns: columns.map {
        TextTableLayout.Column(title: $0.heading.title, isText: $0.column.isText, yields: $0.heading.yields)
      })
    let names = view.showsAll ? ShortNames() : ShortNames(summary)
    table.rows = shown.map { group in columns.map { $0.column.tableText(of: group, names) } }
    let rows = table.lines(width: screen.width) { text, row in row == nil ? screen.styled(text, .heading) : text }
    lines.append(rows[0])
    for (group, row) in zip(shown, rows.dropFirst()) {
      lines.append(row)
      if view.showsStacks { lines += stack(of: group, summary, view) }
    }
    let milliseconds = summary.groups.reduce(0) { $0 + $1.milliseconds }
    let count = summary.groups.reduce(0) { $0 + $1.count }
    let more = summary.groups.count - shown.count
    lines.append("")
    let total = "\(Quantity.count(count, "stall")), \(Quantity.duration(milliseconds)) in total\(since)"
    lines += screen.wrapped(total + (more > 0 ? "; \(Quantity.count(more, "more row")) (--limit)" : ""), .faint)
    if !unread.isEmpty { lines += screen.wrapped(unread, .bad) }
    return lines.joined(separator: "\n") + "\n"
  }

  private static func moment(_ seconds: Double) -> String {
    Timestamp(secondsSince1970: seconds, rounded: .down)?.text(fractionDigits: 0) ?? "–"
  }

  /// What is wrong with the numbers if files could not be read; empty if all could.
  private static func unread(_ files: Int) -> String {
    files == 0 ? "" : "\(Quantity.count(files, "input")) could not be read to the end: the numbers may be too low"
  }

  private static func name(_ text: String) -> String { text.isEmpty ? "(unknown)" : text.printable }

  private static func stack(of group: StallGroup, _ summary: ReportSummary, _ view: ReportView) -> [String] {
    guard let number = group.stack else { return ["    (no stack)"] }
    let screen = view.screen
    let frames = summary.frames(of: summary.stacks[number])
    var texts = frames.map { text(of: $0, summary, view) }
    if !view.showsAll {
      let stack = frames.map { (summary.text($0.symbol), summary.text($0.module)) }
      for fold in FoldedFrames.inside(stack, responsible: group.culprit).reversed() {
        texts.replaceSubrange(fold.range, with: ["    … " + fold.text])
      }
    }
    let limit = view.showsAll ? texts.count : framesShown
    var lines = texts.prefix(limit).map { text in
      screen.styled(screen.width > 0 ? TerminalText.cut(text, to: screen.width) : text, .faint)
    }
    if texts.count > limit { lines.append(screen.styled("    … \(texts.count - limit) more", .faint)) }
    return lines
  }

  private static func text(of frame: ReportFrame, _ summary: ReportSummary, _ view: ReportView) -> String {
    let file = summary.text(frame.file).lastPathPart ?? ""
    let line = frame.line > 0 ? ":\(frame.line)" : ""
    let place = file.isEmpty ? "" : " (\(file.printable)\(line))"
    let name = summary.name(of: frame)
    return "    " + (frame.isInlined ? "↳ " : frame.isAsync ? "async " : "")
      + (view.showsAll ? name : ShortSymbol.shorten(name)).printable + place
  }

  static func text(of comparison: ReportComparison, _ view: ReportView) -> String {
    let screen = view.screen
    var lines: [String] = []
    for side in [comparison.old, comparison.new] {
      let span = side.span.map { " in " + Quantity.duration($0) } ?? ""
      let text = "\(Quantity.count(side.count, "stall")), \(Quantity.duration(side.milliseconds))\(span)"
      lines += screen.wrapped("\(side.name.printable): \(text), \(Quantity.count(side.hosts, "host"))")
      if side.unreadable > 0 { lines += screen.wrapped("\(side.name.printable): " + unread(side.unreadable), .bad) }
    }
    if let since = comparison.since { lines.append("since " + moment(since)) }
    if !comparison.hasRates { lines += screen.wrapped("a period is shorter than a day: totals are compared") }
    lines.append("")
    let columns = ComparisonColumn.all.filter { comparison.hasRates || !$0.isRate }
    var table = TextTableLayout(
      columns: columns.map { TextTableLayout.Column(title: $0.title, isText: $0.isText, yields: $0.yields) } + [
        TextTableLayout.Column(title: comparison.grouping.rawValue, isText: true)
      ])
    let shown = Array(comparison.changes.prefix(view.limit))
    let isNamed = comparison.grouping == .culprit && !view.showsAll
    let names = ShortNames(isNamed ? comparison.changes.map(\.key) : [])
    table.rows = shown.map { change in
      columns.map { $0.tableText(of: change) } + [name(names[change.key])]
    }
    lines += table.lines(width: screen.width) { text, row in
      guard let row else { return screen.styled(text, .heading) }
      return switch shown[row].kind {
      case .new, .worse: screen.styled(text, .bad)
      case .gone, .better: screen.styled(text, .good)
      case .same: text
      }
    }
    let more = comparison.changes.count - shown.count
    if more > 0 { lines += ["", screen.styled("\(Quantity.count(more)) more rows (--limit)", .faint)] }
    return lines.joined(separator: "\n") + "\n"
  }
}
