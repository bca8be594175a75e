import StallReport

/// A line from the agent (`Documentation/AgentProtocol.md`).
enum AgentMessage {
  /// The first so many lines of the connection are done with.
  case acknowledged(UInt64)
  /// How this process is to be watched.
  case settings(JSONText.Value, JSONText)
  /// Why a line was refused, or why the connection is closed next.
  case error(String)
  /// With it came memory to note in when a stall is over.
  case recovery
  /// One of a later version.
  case unknown

  /// The longest line that is read.
  static let longestLine = 64 << 10

  /// Reads a line without its newline; nil if it is no message of the protocol.
  init?(_ line: [UInt8]) {
    guard let text = try? JSONText(line), case .object = text.root else { return nil }
    if let value = text.root["acknowledged"] {
      guard let count = text.integer(value), count >= 0 else { return nil }
      self = .acknowledged(UInt64(count))
    } else if let value = text.root["settings"] {
      guard case .object = value else { return nil }
      self = .settings(value, text)
    } else if let value = text.root["error"] {
      guard let reason = text.string(value) else { return nil }
      self = .error(reason)
    } else if let value = text.root["recovery"] {
      self = text.integer(value["version"]) == Int(RecoveryFormat.version) ? .recovery : .unknown
    } else {
      self = .unknown
    }
  }
}
