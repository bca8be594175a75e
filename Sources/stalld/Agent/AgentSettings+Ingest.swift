import StallMonitor
import StallReport

extension AgentSettings {
  /// Who may connect, and send how much.
  var policy: Ingest.Policy {
    Ingest.Policy(
      limits: limits, userBytesPerDay: dailyQuota, allowedUsers: Set(socket.allow.users.map(\.id)),
      allowedGroups: Set(socket.allow.groups.map(\.id)))
  }

  /// What one user may add to the files in a day, so that a few days of everybody's reports are kept; nil for any number.
  private var dailyQuota: Int? {
    guard let limit = limits.userBytesPerDay else { return nil }
    let kept = outputs.compactMap { output -> Int? in
      guard case .file(let file) = output, let size = file.maxSize else { return nil }
      return size * (file.keep + 1)
    }
    // Files of a few hundred lines have no space to be shared.
    return min(limit, max((kept.min() ?? .max) / 4, Self.leastQuota))
  }

  private static let leastQuota = 1 << 20
}

extension AgentSettings.ServiceOverride {
  /// What a service is handed (Documentation/AgentProtocol.md).
  var json: String {
    var line = JSONWriter()
    line.member("enabled", bool: isEnabled)
    line.member("captures", captures?.rawValue)
    line.member("threshold", threshold.map(DurationText.text))
    line.member("repeat_window", repeatWindow.map(DurationText.text))
    line.member("budget", budget)
    line.member("sampling", sampling.map(DurationText.text))
    line.member("threads", threads?.rawValue)
    line.member("symbolication", symbolication?.rawValue)
    return "{\(String(decoding: line.bytes, as: UTF8.self))}"
  }
}
