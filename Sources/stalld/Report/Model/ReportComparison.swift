/// What changed between two summaries: before and after a release.
struct ReportComparison {
  /// One of the two.
  struct Side {
    var name: String
    var count: Int
    var milliseconds: Double
    var hosts: Int
    /// Files that could not be read, or not to their end.
    var unreadable: Int
    /// From the first stall to the end of the last, in milliseconds; nil if that is less than a minute.
    var span: Double?
    /// The same in days; nil if that is less than one, from which nothing follows for a day.
    var days: Double? { span.map { $0 / 86_400_000 }.flatMap { $0 >= 1 ? $0 : nil } }

    init(_ summary: ReportSummary, name: String) {
      self.name = name
      count = summary.groups.reduce(0) { $0 + $1.count }
      milliseconds = summary.groups.reduce(0) { $0 + $1.milliseconds }
      hosts = Set(summary.stalls.lazy.map(\.host)).count
      unreadable = summary.unreadable.count
      let first = summary.groups.lazy.map(\.first).min() ?? 0
      let last = summary.groups.lazy.map(\.last).max() ?? 0
      span = last - first >= 60 ? (last - first) * 1000 : nil
    }
  }

  enum Kind: String, CaseIterable {
    case new, worse, same, better, gone
  }

  /// What became of one key.
  struct Change {
    var key: String
    var kind: Kind
    var old: StallGroup?
    var new: StallGroup?
    /// Stalled milliseconds a day; nil if a side covers less than a day.
    var oldRate: Double?
    var newRate: Double?
    /// How many times as much as before; nil for what is new.
    var factor: Double?

    /// How much there is of it now less what there was before, by rate or in all.
    fileprivate var growth: Double
  }

  /// By so much a rate has to change to be called so.
  private static let noticed = 1.2

  let grouping: Grouping
  /// Lines made before are left out, in seconds since 1970; nil if none are.
  let since: Double?
  let old: Side
  let new: Side
  /// First what is new or worse, then what is better or gone, then what is the same; in each part, the largest change first.
  let changes: [Change]

  /// Rates are compared, and not totals.
  var hasRates: Bool { old.days != nil && new.days != nil }

  init(old: ReportSummary, named oldName: String, new: ReportSummary, named newName: String) {
    grouping = old.grouping
    since = old.since
    let (before, after) = (Side(old, name: oldName), Side(new, name: newName))
    (self.old, self.new) = (before, after)
    let oldGroups = Dictionary(old.groups.map { ($0.key, $0) }, uniquingKeysWith: { first, _ in first })
    let newGroups = Dictionary(new.groups.map { ($0.key, $0) }, uniquingKeysWith: { first, _ in first })
    let hasRates = before.days != nil && after.days != nil
    var changes: [Change] = []
    for key in Set(oldGroups.keys).union(newGroups.keys) {
      let (from, to) = (oldGroups[key], newGroups[key])
      let oldRate = hasRates ? before.days.map { (from?.milliseconds ?? 0) / $0 } : nil
      let newRate = hasRates ? after.days.map { (to?.milliseconds ?? 0) / $0 } : nil
      let first = oldRate ?? from?.milliseconds ?? 0
      let second = newRate ?? to?.milliseconds ?? 0
      let factor = first > 0 ? second / first : nil
      let kind: Kind =
        from == nil
        ? .new
        : to == nil
          ? .gone
          : (factor ?? 1) >= Self.noticed ? .worse : (factor ?? 1) <= 1 / Self.noticed ? .better : .same
      changes.append(
        Change(
          key: key, kind: kind, old: from, new: to, oldRate: oldRate, newRate: newRate, factor: factor,
          growth: second - first))
    }
    let order = Dictionary(zip(Kind.allCases, [0, 0, 2, 1, 1]), uniquingKeysWith: { first, _ in first })
    self.changes = changes.sorted {
      let (left, right) = (order[$0.kind] ?? 0, order[$1.kind] ?? 0)
      return (left, -abs($0.growth), $0.key) < (right, -abs($1.growth), $1.key)
    }
  }
}
