import StallMonitor
import StallReport

/// What a process of a later minor version may say that this one does not know (`Documentation/AgentProtocol.md`, Versions).
extension Ingest {
  /// Whether an event is one that a later minor version may have: such a report is written, and says nothing of open stalls.
  static func isOfLaterVersion(event: String, schema: String?) -> Bool {
    guard let schema, ReportSchema.isLater(schema), event.hasPrefix("stall."), event.utf8.count <= 40 else {
      return false
    }
    let word = event.utf8.dropFirst("stall.".utf8.count)
    return !word.isEmpty && word.allSatisfy { (0x61...0x7a).contains($0) || $0 == 0x5f }
  }
}

extension LineScanner.Parts {
  /// Whether a line that is no hello, detail or goodbye has nothing of a report, either: a kind of line that only later versions have.
  var isOfAnotherKind: Bool {
    eventName == nil && schema == nil && stall == nil && time == nil && message == nil && process == nil
      && service == nil
  }
}
