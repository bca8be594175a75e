import StallReport

extension AgentSettings.ServiceOverride {
  /// What a service is handed (Documentation/AgentProtocol.md).
  var json: String {
    var line = JSONWriter()
    line.member("enabled", bool: isEnabled)
    line.member("captures", captures?.rawValue)
    line.member("threshold", threshold.map(text))
    line.member("repeat_window", repeatWindow.map(text))
    line.member("budget", budget)
    line.member("sampling", sampling.map(text))
    line.member("threads", threads?.rawValue)
    line.member("symbolication", symbolication?.rawValue)
    return "{\(String(decoding: line.bytes, as: UTF8.self))}"
  }

  private func text(_ duration: Duration) -> String {
    DurationText.text(duration, units: DurationText.sentUnits)
  }
}
