import StallReport

/// Comma-separated values (RFC 4180) with a row of names.
enum CSVFormat: ReportFormat {
  static func text(of summary: ReportSummary, _ view: ReportView) -> String {
    var rows = [GroupColumn.all.map { $0.csvName(summary.grouping) } + (view.showsStacks ? ["stack"] : [])]
    for group in summary.groups.prefix(view.limit) {
      var row = GroupColumn.all.map { $0.csvText(of: group) }
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
    var rows = [[comparison.grouping.rawValue] + ComparisonColumn.all.map(\.name)]
    for change in comparison.changes.prefix(view.limit) {
      rows.append([change.key] + ComparisonColumn.all.map { $0.csvText(of: change) })
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
