extension ReportFormatName {
  /// What other programs read of the summary; nothing of a format that is for people.
  func export(_ summary: ReportSummary) -> [UInt8] {
    switch self {
    case .table, .json, .csv, .otlp: return []
    case .folded: return FoldedExport(summary: summary).bytes()
    case .pprof: return PprofExport(summary).bytes()
    case .speedscope: return SpeedscopeExport(summary: summary).bytes()
    case .firefox:
      let export = FirefoxExport(summary)
      if export.omitted > 0 {
        StandardError.say(
          "report",
          "\(export.omitted) stalls are omitted: the profile has the longest \(FirefoxExport.stallLimit) stalls in at most \(FirefoxExport.trackLimit) tracks"
        )
      }
      return export.bytes()
    }
  }
}
