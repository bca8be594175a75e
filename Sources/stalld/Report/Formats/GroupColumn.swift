import StallReport

/// A column of a report's groups.
///
/// CSV, JSON, the table and the data of the page derive from ``all``. `Page/ranking.js` and `Page/model.js` show that data; a test compares
/// them with the list.
struct GroupColumn: Sendable {
  /// What of a group it shows.
  enum Content: Sendable {
    /// A name, and what represents none in a table; JSON leaves such a one out.
    case name(KeyPath<StallGroup, String> & Sendable, whenUnknown: String)
    case text(KeyPath<StallGroup, String> & Sendable)
    case count(KeyPath<StallGroup, Int> & Sendable)
    case milliseconds(@Sendable (StallGroup) -> Double?)
    /// Seconds since 1970.
    case time(KeyPath<StallGroup, Double> & Sendable)
  }

  /// A column of the table for people.
  struct Heading {
    var title: String
    /// As of ``TextTableLayout/Column/yields``.
    var yields: Int
  }

  /// The name in JSON, and in CSV but for ``csvName(_:)``.
  let name: String
  let content: Content
  /// The name in the data of the page; nil if it has no such column.
  let pageName: String?
  /// Nil if the table does not have it.
  let heading: (@Sendable (Grouping) -> Heading?)?

  private init(
    _ name: String, _ content: Content, page: String?, heading: (@Sendable (Grouping) -> Heading?)? = nil
  ) {
    (self.name, self.content, pageName, self.heading) = (name, content, page, heading)
  }

  /// In the order of CSV, JSON and the page.
  static let all: [GroupColumn] = [
    key, culprit, cause, count, suppressed, fatal, hosts, total, p50, p95, p99, longest, first, last,
  ]

  /// Those of the table, in its order.
  static func table(_ grouping: Grouping) -> [(column: GroupColumn, heading: Heading)] {
    [total, count, hosts, p50, p95, p99, longest, first, last, cause, key, culprit].compactMap { column in
      column.heading?(grouping).map { (column, $0) }
    }
  }

  private static let unknownName = "(unknown)"

  private static let key = GroupColumn(
    "key", .name(\.key, whenUnknown: unknownName), page: "key", heading: { Heading(title: $0.rawValue, yields: 0) })
  private static let culprit = GroupColumn(
    "culprit", .name(\.culprit, whenUnknown: unknownName), page: nil,
    heading: { $0 == .culprit ? nil : Heading(title: "culprit", yields: 1) })
  private static let cause = GroupColumn(
    "cause", .text(\.cause), page: "cause", heading: { $0 == .cause ? nil : Heading(title: "cause", yields: 0) })
  private static let count = GroupColumn(
    "count", .count(\.count), page: "count", heading: { _ in Heading(title: "stalls", yields: 0) })
  private static let suppressed = GroupColumn("suppressed", .count(\.suppressed), page: "suppressed")
  private static let fatal = GroupColumn("fatal", .count(\.fatal), page: "fatal")
  private static let hosts = GroupColumn(
    "hosts", .count(\.hosts), page: "hosts", heading: { _ in Heading(title: "hosts", yields: 3) })
  private static let total = GroupColumn(
    "total_ms", .milliseconds { $0.milliseconds }, page: "ms", heading: { _ in Heading(title: "total", yields: 0) })
  private static let p50 = GroupColumn(
    "p50_ms", .milliseconds { $0.percentiles?.p50 }, page: "p50", heading: { _ in Heading(title: "p50", yields: 4) })
  private static let p95 = GroupColumn(
    "p95_ms", .milliseconds { $0.percentiles?.p95 }, page: "p95", heading: { _ in Heading(title: "p95", yields: 12) })
  private static let p99 = GroupColumn(
    "p99_ms", .milliseconds { $0.percentiles?.p99 }, page: "p99", heading: { _ in Heading(title: "p99", yields: 10) })
  private static let longest = GroupColumn(
    "max_ms", .milliseconds { $0.longest }, page: "max", heading: { _ in Heading(title: "max", yields: 2) })
  private static let first = GroupColumn(
    "first_seen", .time(\.first), page: "first", heading: { _ in Heading(title: "first seen (UTC)", yields: 13) })
  private static let last = GroupColumn(
    "last_seen", .time(\.last), page: "last", heading: { _ in Heading(title: "last seen (UTC)", yields: 11) })
}

// MARK: - Formats

extension GroupColumn {
  static func timeText(_ seconds: Double) -> String {
    Timestamp(secondsSince1970: seconds, rounded: .toNearestOrEven)?.text(fractionDigits: 3) ?? ""
  }

  /// The name in CSV: a table may be joined with others, and says what its key is.
  func csvName(_ grouping: Grouping) -> String {
    name == "key" ? grouping.rawValue : name == "culprit" ? "example_culprit" : name
  }

  func csvText(of group: StallGroup) -> String {
    switch content {
    case .name(let path, _), .text(let path): group[keyPath: path]
    case .count(let path): String(group[keyPath: path])
    case .milliseconds(let value): value(group).map { Quantity.fixed($0, places: 3) } ?? ""
    case .time(let path): Self.timeText(group[keyPath: path])
    }
  }

  /// Adds the member to a JSON object, unless the value is unknown.
  func write(_ group: StallGroup, to object: inout JSONWriter) {
    switch content {
    case .name(let path, _):
      guard !group[keyPath: path].isEmpty else { return }
      object.key(name)
      object.value(group[keyPath: path])
    case .text(let path):
      object.key(name)
      object.value(group[keyPath: path])
    case .count(let path):
      object.key(name)
      object.value(group[keyPath: path])
    case .milliseconds(let value):
      guard let nanoseconds = JSONFormat.nanoseconds(value(group)) else { return }
      object.key(name)
      object.value(milliseconds: nanoseconds)
    case .time(let path):
      object.key(name)
      object.value(Self.timeText(group[keyPath: path]))
    }
  }

  /// Whether a table has it at the left of its column.
  var isText: Bool {
    switch content {
    case .name, .text, .time: true
    case .count, .milliseconds: false
    }
  }

  func tableText(of group: StallGroup, _ names: ShortNames) -> String {
    switch content {
    case .name(let path, let unknown):
      group[keyPath: path].isEmpty ? unknown : names[group[keyPath: path]].printable
    case .text(let path): group[keyPath: path].printable
    case .count(let path): Quantity.count(group[keyPath: path])
    case .milliseconds(let value): value(group).map { Quantity.duration($0) } ?? "–"
    case .time(let path): Quantity.minute(group[keyPath: path])
    }
  }
}
