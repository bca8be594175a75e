/// Reports that one output has from an earlier run, and another one lacks: they come again, and are not written again there.
struct KnownReports: Sendable {
  /// As many as the agent knows of those that it has taken.
  static let limit = RecentReports.limit

  private var identities: Set<ReportIdentity>

  /// The last ones of a sequence.
  init(_ identities: some BidirectionalCollection<ReportIdentity> = []) {
    self.identities = Set(identities.suffix(Self.limit))
  }

  var isEmpty: Bool { identities.isEmpty }

  /// A report from root is known, whichever user sends it again.
  func contains(_ identity: ReportIdentity?) -> Bool { identity.flatMap(match) != nil }

  /// Whether it was known; it comes once.
  mutating func remove(_ identity: ReportIdentity?) -> Bool {
    guard let known = identity.flatMap(match) else { return false }
    identities.remove(known)
    return true
  }

  private func match(_ identity: ReportIdentity) -> ReportIdentity? {
    [identity, identity.ofRoot].first(where: identities.contains)
  }
}
