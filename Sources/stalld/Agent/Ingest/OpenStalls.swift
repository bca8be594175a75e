import StallReport

/// The reported stalls of one process that have not ended, and the bytes of their lines.
struct OpenStalls {
  /// Stalls of one process at a time: it has fewer loops.
  private static let limit = 256

  private var stalls: [String: OpenStall] = [:]
  /// The bytes of their lines.
  private(set) var bytes = 0

  var isEmpty: Bool { stalls.isEmpty }
  var count: Int { stalls.count }
  /// Where the process notes that they are over.
  var recoveries: [RecoveryMemory] { stalls.values.compactMap(\.recovery) }

  /// Follows what a report says of its stall; false if that would need more than `room` bytes for
  /// all of them.
  mutating func follow(_ line: ReportLine, sequence: UInt64, room: Int, recovery: RecoveryMemory?) -> Bool {
    let old = stalls[line.stallID]
    let oldBytes = old?.line.bytes.count ?? 0
    switch Report.Event(rawValue: line.event) {
    case .started, .ongoing:
      // What is known already is worth more than nothing.
      guard bytes - oldBytes + line.bytes.count <= room, old != nil || stalls.count < Self.limit else {
        return false
      }
      stalls[line.stallID] = OpenStall(line: line, sequence: sequence, recovery: recovery ?? old?.recovery)
      bytes += line.bytes.count - oldBytes
    case .ended, .fatal:
      end(line.stallID)
    // The last: of a later version.
    case .suppressed, nil: break
    }
    return true
  }

  /// Follows a stall no longer.
  mutating func end(_ stallID: String) {
    guard let stall = stalls.removeValue(forKey: stallID) else { return }
    bytes -= stall.line.bytes.count
  }

  /// The stalls, in the order of their last lines; they are forgotten.
  mutating func takeAll() -> [OpenStall] {
    defer { self = OpenStalls() }
    return stalls.values.sorted { $0.sequence < $1.sequence }
  }
}
