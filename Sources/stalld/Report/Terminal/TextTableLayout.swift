/// Columns of text that are as wide as what is in them; the last takes what is left.
struct TextTableLayout {
  struct Column {
    var title: String
    /// Text, and no number.
    var isText = false
    /// If there is no space for all columns, the column with the highest value is omitted first; 0
    /// is never omitted.
    var yields = 0
  }

  var columns: [Column]
  /// Printable text; a row has one for each column.
  var rows: [[String]] = []

  /// The width that the last column needs before others are omitted for it.
  private static let lastWidth = 44

  /// The lines; `width` is what one may take, 0 for any.
  func lines(width: Int, style: (String, Int?) -> String = { text, _ in text }) -> [String] {
    var widths = columns.map { TerminalText.width($0.title) }
    for row in rows {
      for (index, cell) in row.enumerated() { widths[index] = max(widths[index], TerminalText.width(cell)) }
    }
    var shown = Array(columns.indices)
    func room() -> Int { width - shown.dropLast().reduce(0) { $0 + widths[$1] + 2 } }
    let wanted = min(Self.lastWidth, widths.last ?? 0)
    while width > 0, room() < wanted, let next = shown.max(by: { columns[$0].yields < columns[$1].yields }),
      columns[next].yields > 0
    {
      shown.removeAll { $0 == next }
    }
    let last = width > 0 ? max(20, room()) : Int.max
    func line(_ cells: [String]) -> String {
      var line = ""
      for index in shown {
        if index == cells.count - 1 {
          line += TerminalText.cut(cells[index], to: last)
        } else {
          line += TerminalText.padded(cells[index], to: widths[index], onTheRight: columns[index].isText) + "  "
        }
      }
      return line
    }
    return [style(line(columns.map(\.title)), nil)] + rows.enumerated().map { style(line($1), $0) }
  }
}
