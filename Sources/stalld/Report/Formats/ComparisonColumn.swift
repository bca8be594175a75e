import StallReport

/// A column of what changed between two summaries, beside the key.
///
/// CSV, JSON and the table derive from ``all``.
struct ComparisonColumn: Sendable {
  /// What of a change it shows; nil is not known.
  enum Content: Sendable {
    case text(@Sendable (ReportComparison.Change) -> String)
    case count(@Sendable (ReportComparison.Change) -> Int)
    case milliseconds(@Sendable (ReportComparison.Change) -> Double?)
    case factor(@Sendable (ReportComparison.Change) -> Double?)
  }

  /// The name in CSV and JSON.
  let name: String
  /// The title in the table: of a pair, the first has it.
  let title: String
  let content: Content
  /// The second of a pair: before and after.
  let isAfter: Bool
  /// As of ``TextTableLayout/Column/yields``: a pair has one value.
  let yields: Int
  /// It needs periods that are long enough for rates.
  let isRate: Bool

  private init(
    _ name: String, titled title: String = "", _ content: Content, isAfter: Bool = false, yields: Int = 0,
    isRate: Bool = false
  ) {
    (self.name, self.title, self.content, self.isAfter) = (name, title, content, isAfter)
    (self.yields, self.isRate) = (yields, isRate)
  }

  /// In the order of each format.
  static let all = [
    ComparisonColumn("change", .text { $0.kind.rawValue }),
    ComparisonColumn("old_count", titled: "stalls", .count { $0.old?.count ?? 0 }, yields: 3),
    ComparisonColumn("new_count", .count { $0.new?.count ?? 0 }, isAfter: true, yields: 3),
    ComparisonColumn("old_total_ms", titled: "total", .milliseconds { $0.old?.milliseconds ?? 0 }, yields: 2),
    ComparisonColumn("new_total_ms", .milliseconds { $0.new?.milliseconds ?? 0 }, isAfter: true, yields: 2),
    ComparisonColumn("old_ms_per_day", titled: "per day", .milliseconds { $0.oldRate }, yields: 1, isRate: true),
    ComparisonColumn("new_ms_per_day", .milliseconds { $0.newRate }, isAfter: true, yields: 1, isRate: true),
    ComparisonColumn("factor", titled: "change", .factor { $0.factor }),
  ]

  func csvText(of change: ReportComparison.Change) -> String {
    switch content {
    case .text(let value): value(change)
    case .count(let value): String(value(change))
    case .milliseconds(let value), .factor(let value): value(change).map { Quantity.fixed($0, places: 3) } ?? ""
    }
  }

  /// Adds the member to a JSON object, unless the value is unknown.
  func write(_ change: ReportComparison.Change, to object: inout JSONWriter) {
    switch content {
    case .text(let value):
      object.key(name)
      object.value(value(change))
    case .count(let value):
      object.key(name)
      object.value(value(change))
    case .milliseconds(let value):
      guard let nanoseconds = JSONFormat.nanoseconds(value(change)) else { return }
      object.key(name)
      object.value(milliseconds: nanoseconds)
    case .factor(let value):
      guard let factor = value(change) else { return }
      object.key(name)
      object.value(factor)
    }
  }

  /// Whether the table has it at the left of its column.
  var isText: Bool {
    switch content {
    case .text: true
    case .count, .milliseconds, .factor: false
    }
  }

  func tableText(of change: ReportComparison.Change) -> String {
    let text =
      switch content {
      case .text(let value): value(change)
      case .count(let value): Quantity.count(value(change))
      case .milliseconds(let value): value(change).map { Quantity.duration($0) } ?? "–"
      case .factor(let value): value(change).map { "× " + Quantity.number($0, digits: 3) } ?? "–"
      }
    return isAfter ? "→ " + text : text
  }
}
