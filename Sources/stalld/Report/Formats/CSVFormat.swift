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
    var rows = [
      [
        comparison.grouping.rawValue, "change", "old_count", "new_count", "old_total_ms", "new_total_ms",
        "old_ms_per_day",
        "new_ms_per_day", "factor",
      ]
    ]
    for change in comparison.changes.prefix(view.limit) {
      var row = [change.key, change.kind.rawValue, "\(change.old?.count ?? 0)", "\(change.new?.count ?? 0)"]
      row += [
        change.old?.milliseconds ?? 0, change.new?.milliseconds ?? 0, change.oldRate, change.newRate, change.factor,
      ].map { $0.map { Quantity.fixed($0, places: 3) } ?? "" }
      rows.append(row)
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
