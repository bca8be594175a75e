import StallMonitor
import StallReport

/// What became of a reload of the settings.
enum ReloadOutcome: Sendable, Equatable {
  /// The new settings are in force, but for the keys that need a restart.
  case done(needsRestart: [String])
  /// The old settings are in force; the reason has a line for each mistake.
  case refused(String)

  /// The answer of the control socket, one JSON object.
  var json: String {
    var line = JSONWriter()
    switch self {
    case .done(let keys):
      line.object("reload", required: true) {
        $0.member("needs_restart", keys.isEmpty ? nil : keys.joined(separator: ", "))
      }
    case .refused(let reason): line.member("error", reason)
    }
    return "{\(String(decoding: line.bytes, as: UTF8.self))}"
  }
}
