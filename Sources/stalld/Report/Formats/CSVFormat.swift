import StallReport

/// Comma-separated values (RFC 4180) with a row of names.
enum CSVFormat: ReportFormat {
  /// The column with the number of files that could not be read, or not to their end: the same in each row.
  private static let unreadable = "unreadable_inputs"

  static func text(of summary: ReportSummary, _ view: ReportView) -> String {
    let names = GroupColumn.all.map { $0.csvName(summary.grouping) } + [unreadable]
    var rows = [names + (view.showsStacks ? ["stack"] : [])]
    for group in summary.groups.prefix(view.limit) {
      var row = GroupColumn.all.map { $0.csvText(of: group) } + [String(summary.unreadable.count)]
      if view.showsStacks {
        // Outermost first, as folded stacks are.
        let frames = group.stack.map { summary.frames(of: summary.stacks[$0]) } ?? []
        row.append(frames.reversed().map(summary.name).joined(separator: ";"))
      }
      rows.append(row)
    }
    return text(rows, view)
  }

  static func text(of comparison: ReportComparison, _ view: ReportView) -> String {
    let names = ["old_\(unreadable)", "new_\(unreadable)"]
    var rows = [[comparison.grouping.rawValue] + ComparisonColumn.all.map(\.name) + names]
    let failures = [comparison.old, comparison.new].map { String($0.unreadable) }
    for change in comparison.changes.prefix(view.limit) {
      rows.append([change.key] + ComparisonColumn.all.map { $0.csvText(of: change) } + failures)
    }
    return text(rows, view)
  }

  private static func text(_ rows: [[String]], _ view: ReportView) -> String {
    rows.map { row in
      row.map { cell in
        let cell = view.screen.isTerminal ? cell.printable : cell
        guard cell.utf8.contains(where: { ",\"\r\n".utf8.contains($0) }) else { return cell }
        return "\"" + cell.replacing("\"", with: "\"\"") + "\""
      }.joined(separator: ",") + "\r\n"
    }.joined()
  }
}
