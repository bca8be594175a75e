/// Columns of text that are as wide as what is in them; the last takes what is left.
struct TextTableLayout {
  struct Column {
    var title: String
    /// Text, and no number.
    var isText = false
    /// If there is no space for all columns, those with the highest value are omitted first; 0 is never omitted.
    ///
    /// From ``TextTableLayout/optional`` on, a column is omitted before texts are cut much; below, only if too little of them would remain.
    var yields = 0
  }

  /// See ``Column/yields``.
  static let optional = 10

  var columns: [Column]
  /// Printable text; a row has one for each column.
  var rows: [[String]] = []

  /// The lines; `width` is what one may take, 0 for any.
  func lines(width: Int, style: (String, Int?) -> String = { text, _ in text }) -> [String] {
    var widths = columns.map { TerminalText.width($0.title) }
    for row in rows {
      for (index, cell) in row.enumerated() { widths[index] = max(widths[index], TerminalText.width(cell)) }
    }
    let shown = width > 0 ? fit(&widths, into: width) : Array(columns.indices)
    func line(_ cells: [String]) -> String {
      let texts = shown.map { index in
        let cell = TerminalText.cut(cells[index], to: widths[index])
        let isText = columns[index].isText
        return isText && index == shown.last ? cell : TerminalText.padded(cell, to: widths[index], onTheRight: isText)
      }
      let line = texts.joined(separator: "  ")
      return width > 0 ? TerminalText.cut(line, to: width) : line
    }
    return [style(line(columns.map(\.title)), nil)] + rows.enumerated().map { style(line($1), $0) }
  }

  /// The columns that are shown in so much space; texts may get less of it than they want.
  private func fit(_ widths: inout [Int], into width: Int) -> [Int] {
    var shown = Array(columns.indices)
    func space(_ widths: [Int], texts: Int, last: Int) -> Int {
      shown.reduce(-2) { sum, index in
        let most = columns[index].isText ? (index == shown.last ? last : texts) : Int.max
        return sum + min(widths[index], most) + 2
      }
    }
    while let next = shown.lazy.map({ columns[$0].yields }).max(), next > 0 {
      let isOptional = next >= Self.optional
      if space(widths, texts: isOptional ? 20 : 16, last: isOptional ? 44 : 16) <= width { break }
      shown.removeAll { columns[$0].yields == next }
    }
    while space(widths, texts: .max, last: .max) > width,
      let widest = shown.filter({ columns[$0].isText }).max(by: { widths[$0] < widths[$1] }), widths[widest] > 4
    {
      widths[widest] -= 1
    }
    return shown
  }
}
