import LoopEngine

/// Builds for which no file was found recently.
///
/// Lines of the same process with only these builds need no look-up.
struct MissingBuilds {
  private struct Key: Hashable {
    var process: Int32
    var builds: UInt64
  }

  private static let limit = 4096
  private static let time: Duration = .seconds(60)

  private var times: [Key: Loop.Instant] = [:]

  /// Whether no file was found for any of the line's builds.
  func contains(_ line: ReportLine) -> Bool {
    guard line.unnamedBuilds != 0, line.bytes.count <= Ingest.longestReport, !times.isEmpty,
      let time = times[Key(process: line.processID, builds: line.unnamedBuilds)]
    else { return false }
    return time.duration(to: .now) < Self.time
  }

  mutating func insert(_ line: ReportLine) {
    guard line.unnamedBuilds != 0 else { return }
    if times.count >= Self.limit { times = [:] }
    times[Key(process: line.processID, builds: line.unnamedBuilds)] = .now
  }
}
