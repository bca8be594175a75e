/// The reports that were taken last, so that one which comes again is known.
struct RecentReports {
  /// At ten thousand a second, six seconds: a process repeats what was written and not yet acknowledged.
  static let limit = 1 << 16

  private var known: Set<ReportIdentity> = []
  private var order: [ReportIdentity] = []
  private var oldest = 0

  /// Whether it is new; then it is remembered.
  ///
  /// A report from root is known, whichever user sends it again: a service may have dropped its privileges meanwhile.
  mutating func insert(_ identity: ReportIdentity?) -> Bool {
    guard let identity else { return false }
    guard identity.user == 0 || !known.contains(identity.ofRoot), known.insert(identity).inserted else { return false }
    if order.count < Self.limit {
      order.append(identity)
    } else {
      known.remove(order[oldest])
      order[oldest] = identity
      oldest = (oldest + 1) % Self.limit
    }
    return true
  }
}
