import StallReport

/// The short names of functions in a list, each unlike the others: two functions that would have the same keep their full ones.
struct ShortNames {
  private var names: [String: String] = [:]

  init(_ symbols: some Sequence<String> = []) {
    var owners: [String: Set<String>] = [:]
    for symbol in symbols { owners[ShortSymbol.shorten(symbol), default: []].insert(symbol) }
    for (short, symbols) in owners where symbols.count == 1 {
      for symbol in symbols where symbol != short { names[symbol] = short }
    }
  }

  /// The responsible functions of a summary's groups.
  init(_ summary: ReportSummary) {
    self.init(summary.groups.map { summary.grouping == .culprit ? $0.key : $0.culprit })
  }

  /// The short name of a symbol in the list; any other text stays.
  subscript(_ symbol: String) -> String { names[symbol] ?? symbol }
}
