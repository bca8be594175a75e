import StallReport
import Synchronization

/// What an agent says of how this process is to be watched.
///
/// Nil is the process's own configuration.
package struct Tuning: Sendable, Equatable {
  /// Who names the frames of a report.
  package enum Symbolication: String, Sendable, CaseIterable {
    case agent
    case host
  }

  /// Which threads' stacks are taken.
  package enum Captures: String, Sendable, CaseIterable {
    case all
    case blockedOnly = "blocked-only"
  }

  /// False: the process is not watched until an agent says otherwise.
  var isEnabled: Bool?
  var captures: Captures?
  var threshold: Duration?
  var repeatWindow: Duration?
  var budget: Int?
  var sampling: Duration?
  var otherThreads: StallMonitorConfiguration.ThreadSelection?
  var symbolication: Symbolication?
}

extension Tuning {
  /// Lays what an agent's `settings` say over `current`.
  ///
  /// A key that is not there has the process's own value. One that cannot be used keeps the value in force, and is added to `problems`.
  init(
    _ settings: JSONText.Value, of text: JSONText, current: Tuning, configuration: StallMonitorConfiguration,
    problems: inout [String]
  ) {
    func read<T>(_ key: String, _ current: T?, allowed: String, _ parse: (JSONText.Value) -> T?) -> T? {
      guard let value = settings[key] else { return nil }
      if let result = parse(value) { return result }
      let shown = String(decoding: text.bytes[value.range].prefix(60), as: UTF8.self)
      problems.append("\(key): \(shown.printable) is invalid; allowed: \(allowed)")
      return current
    }
    isEnabled = read("enabled", current.isEnabled, allowed: "true, false") { text.boolean($0) }
    captures = read(
      "captures", current.captures, allowed: Self.words(Captures.self)
    ) { text.string($0).flatMap(Captures.init(rawValue:)) }
    let longest = configuration.actions.filter { $0.kind == .abort }.map(\.after).min()
    threshold = read(
      "threshold", current.threshold,
      allowed: "from \(StallMonitorConfiguration.allowedThreshold.quoted)"
        + (longest.map { ", and at most the time of the abort action (\($0))" } ?? "")
    ) { value in
      text.string(value).flatMap(Environment.parseThreshold).flatMap { $0 <= longest ?? $0 ? $0 : nil }
    }
    repeatWindow = read(
      "repeat_window", current.repeatWindow, allowed: StallMonitorConfiguration.allowedRepeatWindow.quoted
    ) {
      text.string($0).flatMap(Environment.parseRepeatWindow)
    }
    budget = read("budget", current.budget, allowed: MonitorSetting.budgetWords) {
      text.integer($0).flatMap { StallMonitorConfiguration.allowedBudget.contains($0) ? $0 : nil }
    }
    sampling = read("sampling", current.sampling, allowed: StallMonitorConfiguration.allowedSampling.quoted) {
      text.string($0).flatMap(Environment.parseSampling)
    }
    otherThreads = read(
      "threads", current.otherThreads,
      allowed: MonitorSetting.threadWords
    ) { text.string($0).flatMap(StallMonitorConfiguration.ThreadSelection.init(_:)) }
    symbolication = read("symbolication", current.symbolication, allowed: Self.words(Symbolication.self)) {
      text.string($0).flatMap(Symbolication.init(rawValue:))
    }
  }
}

extension Tuning {
  private static func words<Choice: CaseIterable & RawRepresentable<String>>(_: Choice.Type) -> String {
    Choice.allCases.map(\.rawValue).joined(separator: ", ")
  }
}

/// Brings what an agent has said to the watchdog.
final class TuningBox: Sendable {
  private let news = Mutex<Tuning?>(nil)
  private let hasNews = Atomic<Bool>(false)

  /// Says it; the watchdog is to be woken afterwards.
  func put(_ tuning: Tuning) {
    news.withLock { $0 = tuning }
    hasNews.store(true, ordering: .releasing)
  }

  /// What has been said since the last call; nil for nothing.
  func take() -> Tuning? {
    guard hasNews.exchange(false, ordering: .acquiring) else { return nil }
    return news.withLock { news in
      defer { news = nil }
      return news
    }
  }
}
