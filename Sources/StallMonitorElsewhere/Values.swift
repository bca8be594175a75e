// What the shared files use of parts that exist on Linux alone.

struct StallTally {}

struct TurnHistogram {}

struct MonitorSetting {
  let allowed: String
  static let stateDirectory = MonitorSetting(allowed: "an absolute path")
}

extension String {
  /// The beginning of the text, with at most that many bytes of UTF-8.
  func limited(to limit: Int) -> String {
    var text = self
    while text.utf8.count > limit { text.removeLast() }
    return text
  }
}
