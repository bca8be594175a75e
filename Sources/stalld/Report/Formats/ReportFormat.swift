import ArgumentParser

/// A form that the summary of many reports is written in: one file each, conforming to this.
protocol ReportFormat {
  /// The whole text, with its last newline.
  static func text(of summary: ReportSummary, _ view: ReportView) -> String

  /// Two summaries compared.
  static func text(of comparison: ReportComparison, _ view: ReportView) -> String
}

/// The options of the output: how many groups, with which stacks, and with which charts.
struct ReportView {
  /// Groups.
  var limit = 20
  /// With an example stack of each group.
  var showsStacks = false
  /// With all frames of stacks, and with names in full.
  var showsAll = false
  /// With pictures above the table.
  var showsGraphs = false
  var screen = Screen(isTerminal: false, width: 0, hasColours: false)
}

/// The formats by name.
enum ReportFormatName: String, CaseIterable, ExpressibleByArgument {
  case table, json, csv, folded, pprof, speedscope, firefox, otlp

  /// Nil of what is for other programs: see ``export(_:)``.
  var format: (any ReportFormat.Type)? {
    switch self {
    case .table: TableFormat.self
    case .json: JSONFormat.self
    case .csv: CSVFormat.self
    case .folded, .pprof, .speedscope, .firefox, .otlp: nil
    }
  }
}
