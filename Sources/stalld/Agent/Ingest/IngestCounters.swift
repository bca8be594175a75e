/// What has come in, and what was not let in, since the agent started.
struct IngestCounters: Sendable, Equatable {
  /// Lines of any kind.
  var lines: UInt64 = 0
  var bytes: UInt64 = 0
  var reports: UInt64 = 0
  var details: UInt64 = 0
  var duplicates: UInt64 = 0
  /// `stall.fatal` that the agent has told of processes that ended.
  var fatal: UInt64 = 0
  /// Lines that hosts had to drop, as they say.
  var droppedByHosts: UInt64 = 0
  var refusedLines: [RefusalReason: UInt64] = [:]
  var connections: UInt64 = 0
  var refusedConnections: [ConnectionRefusal: UInt64] = [:]

  enum RefusalReason: String, Sendable, CaseIterable {
    case notJSON = "not_json"
    case notAReport = "not_a_report"
    case tooLong = "too_long"
  }

  enum ConnectionRefusal: String, Sendable, CaseIterable {
    case notAllowed = "not_allowed"
    case limit
    case limitOfUser = "limit_of_user"
    case unknownProcess = "unknown_process"
  }
}
