/// What the agent counts of itself and of the stalls it hears of.
///
/// On the main loop's thread only.
final class AgentMetrics {
  /// Why a line was refused.
  enum LineRefusal: String, CaseIterable {
    case notJSON = "not_json"
    case notAReport = "not_a_report"
    case tooLong = "too_long"
    case incomplete
    case overQuota = "over_quota"
  }

  /// Why a connection was refused, or ended by the agent.
  enum ConnectionRefusal: String, CaseIterable {
    case notAllowed = "not_allowed"
    case tooMany = "too_many"
    case tooManyOfUser = "too_many_of_user"
    case tooOften = "too_often"
    case noDescriptors = "no_descriptors"
    case unknownProcess = "unknown_process"
    case misbehaved
  }

  let version: String
  /// Called when a number has changed that is worth a new text.
  var didChange: (() -> Void)?

  private(set) var stalls = StallCounts()
  private(set) var ingestedLines: UInt64 = 0
  private(set) var duplicateLines: UInt64 = 0
  private(set) var claims = HostClaims()
  private(set) var refusedLines: [LineRefusal: UInt64] = [:]
  private(set) var acceptedConnections: UInt64 = 0
  private(set) var refusedConnections: [ConnectionRefusal: UInt64] = [:]
  private(set) var failedReloads: UInt64 = 0
  private(set) var turns = TurnBuckets()

  init(version: String) { self.version = version }

  /// Counts the stall of a line that goes to the outputs.
  func record(_ line: ReportLine) {
    if stalls.record(line) { didChange?() }
  }

  /// Lines that came, of any kind, also those that are refused.
  func linesIngested(_ count: Int = 1) { add(count, to: \.ingestedLines) }

  func linesDuplicate(_ count: Int = 1) { add(count, to: \.duplicateLines) }

  /// What a service's `hello` says it has kept.
  func linesSpooled(_ count: Int, of peer: Peer) { add(HostClaims.Counts(spooled: UInt64(max(0, count))), of: peer) }

  /// What a service's `event.dropped` says.
  func linesDroppedByHost(_ count: Int, of peer: Peer) {
    add(HostClaims.Counts(dropped: UInt64(max(0, count))), of: peer)
  }

  private func add(_ claim: HostClaims.Counts, of peer: Peer) {
    claims.add(claim, of: peer)
    didChange?()
  }

  func lineRefused(_ reason: LineRefusal, _ count: Int = 1) {
    refusedLines[reason, default: 0] &+= UInt64(max(0, count))
    didChange?()
  }

  func connectionAccepted(of peer: Peer) {
    claims.add(HostClaims.Counts(), of: peer)
    add(1, to: \.acceptedConnections)
  }

  func connectionEnded() { didChange?() }

  func connectionRefused(_ reason: ConnectionRefusal) {
    refusedConnections[reason, default: 0] &+= 1
    didChange?()
  }

  func reloadFailed() { add(1, to: \.failedReloads) }

  /// Reads the loop's histogram; see ``TurnBuckets``.
  func takeTurns(_ sample: MetricsSample) {
    if let statistics = sample.loop { turns.take(statistics) }
  }

  // A service may claim any number: it must not trap.
  private func add(_ count: Int, to counter: ReferenceWritableKeyPath<AgentMetrics, UInt64>) {
    self[keyPath: counter] &+= UInt64(max(0, min(count, 1 << 40)))
    didChange?()
  }
}
