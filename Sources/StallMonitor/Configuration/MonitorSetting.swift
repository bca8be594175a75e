import StallReport

/// One setting of the monitor: its names in code, environment and configuration, its default, and
/// its allowed values.
///
/// The readers of variables and of a `ConfigReader` use this table. Configuration.md, the doc comments and the options in C are checked against it
/// by a test.
package struct MonitorSetting: Sendable {
  /// What a `ConfigReader` calls it.
  let key: String
  /// The environment variable.
  let variable: String
  /// How ``StallMonitorConfiguration`` spells it in code.
  let property: String
  /// The member of `stallmonitor_options`; nil if a service in C has the variable alone.
  let option: String?
  /// The default as the variable spells it; nil if it comes from elsewhere.
  let standard: String?
  /// The allowed values of the variable, in words.
  package let allowed: String
  /// Applies a text to a configuration.
  ///
  /// Returns false, and changes nothing, if the text is invalid.
  let apply: @Sendable (String, inout StallMonitorConfiguration) -> Bool

  private init<Value>(
    _ key: String, _ variable: String, property: String, option: String? = nil, standard: String?, allowed: String,
    _ path: WritableKeyPath<StallMonitorConfiguration, Value> & Sendable,
    parse: @escaping @Sendable (String) -> Value?
  ) {
    self.init(key, variable, property: property, option: option, standard: standard, allowed: allowed) { text, target in
      guard let value = parse(text) else { return false }
      target[keyPath: path] = value
      return true
    }
  }

  private init(
    _ key: String, _ variable: String, property: String, option: String? = nil, standard: String?, allowed: String,
    apply: @escaping @Sendable (String, inout StallMonitorConfiguration) -> Bool
  ) {
    self.key = key
    self.variable = variable
    self.property = property
    self.option = option
    self.standard = standard
    self.allowed = allowed
    self.apply = apply
  }

  /// Has an action take the place of the same one in code.
  private static func action(
    _ key: String, _ variable: String, property: String, _ make: @escaping @Sendable (Duration) -> StallAction
  ) -> MonitorSetting {
    MonitorSetting(
      key, variable, property: property, standard: "off",
      allowed: "\(units), up to \(StallMonitorConfiguration.allowedActionTime.spelledUpperBound), such as 30s; or off"
    ) { text, configuration in
      guard let time = Environment.parseActionTime(text) else { return false }
      let kind = make(.zero).kind
      configuration.actions.removeAll { $0.kind == kind }
      if case .after(let duration) = time { configuration.actions.append(make(duration)) }
      return true
    }
  }

  private static let units = "a number with a unit (\(DurationText.unitNames))"
  private static let budgetLimit = StallMonitorConfiguration.allowedBudget
  /// What a budget may be.
  static let budgetWords =
    "a whole number of stalls a minute, \(budgetLimit.lowerBound) (no limit) to \(budgetLimit.upperBound)"
  /// What a selection of threads may be.
  static let threadWords = StallMonitorConfiguration.ThreadSelection.Value.allCases.map(\.rawValue).joined(
    separator: ", ")
  private static let truth = "true or false (also 1/0, yes/no, on/off)"

  static let abortVariable = "STALLMONITOR_ABORT_AFTER"
  static let serviceManagerVariable = "STALLMONITOR_SYSTEMD_WATCHDOG"
  static let thresholdVariable = "STALLMONITOR_THRESHOLD"
  static let sinkVariable = "STALLMONITOR_SINK"

  package static let sink = MonitorSetting(
    "sink", sinkVariable, property: "sink", option: "sink", standard: "stdout",
    allowed: StallMonitorConfiguration.Sink.allowed, \.sink, parse: { StallMonitorConfiguration.Sink($0) })
  package static let stateDirectory = MonitorSetting(
    "stateDirectory", "STALLMONITOR_STATE_DIRECTORY", property: "stateDirectory", option: "state_directory",
    standard: nil, allowed: "an absolute path, such as /run/app", \.stateDirectory,
    // The property is optional: without the type, a path that cannot be used would be a property that is nil.
    parse: { path -> String?? in path.hasPrefix("/") ? .some(path) : .none })

  /// All settings, in the order in which variables are read and problems are named.
  static let all: [MonitorSetting] = [
    MonitorSetting(
      "enabled", "STALLMONITOR_ENABLED", property: "isEnabled", standard: "true", allowed: truth, \.isEnabled,
      parse: BooleanText.parse),
    MonitorSetting(
      "cooperativePool", "STALLMONITOR_COOPERATIVE_POOL", property: "watchesCooperativePool", standard: "true",
      allowed: truth, \.watchesCooperativePool, parse: BooleanText.parse),
    MonitorSetting(
      "backgroundTaskThreshold", "STALLMONITOR_BACKGROUND_TASK_THRESHOLD", property: "backgroundTaskThreshold",
      standard: "1s", allowed: "\(units), from \(StallMonitorConfiguration.allowedThreshold.spelled), such as 1s",
      \.backgroundTaskThreshold, parse: Environment.parseThreshold),
    MonitorSetting(
      "threshold", thresholdVariable, property: "threshold", option: "threshold_ms", standard: "250ms",
      allowed: "\(units), from \(StallMonitorConfiguration.allowedThreshold.spelled), such as 250ms or 1.5s",
      \.threshold, parse: Environment.parseThreshold),
    sink,
    MonitorSetting(
      "repeatWindow", "STALLMONITOR_REPEAT_WINDOW", property: "repeatWindow", standard: "30s",
      allowed:
        "\(units), up to \(StallMonitorConfiguration.allowedRepeatWindow.spelledUpperBound), such as 30s; 0s reports every stall",
      \.repeatWindow, parse: Environment.parseRepeatWindow),
    MonitorSetting(
      "budget", "STALLMONITOR_BUDGET", property: "maximumReportsPerMinute", standard: "60",
      allowed: budgetWords, \.maximumReportsPerMinute,
      parse: { Int($0).flatMap { StallMonitorConfiguration.allowedBudget.contains($0) ? $0 : nil } }),
    MonitorSetting(
      "sampling", "STALLMONITOR_SAMPLING", property: "resampleInterval", standard: "100ms",
      allowed: "\(units), from \(StallMonitorConfiguration.allowedSampling.spelled), such as 100ms", \.resampleInterval,
      parse: Environment.parseSampling),
    stateDirectory,
    MonitorSetting(
      "threads", "STALLMONITOR_THREADS", property: "captureThreads", standard: "lock-holder",
      allowed: threadWords,
      \.captureThreads, parse: StallMonitorConfiguration.ThreadSelection.init(_:)),
    MonitorSetting(
      "serviceName", "STALLMONITOR_SERVICE_NAME", property: "serviceName", option: "service_name", standard: nil,
      allowed: "any text", \.serviceName, parse: { $0 }),
    MonitorSetting(
      "systemdWatchdog", serviceManagerVariable, property: "notifiesServiceManager", standard: "false", allowed: truth,
      \.notifiesServiceManager, parse: BooleanText.parse),
    action(
      "detailAfter", "STALLMONITOR_DETAIL_AFTER", property: "actions: [.writeDetailFile(after:)]",
      StallAction.writeDetailFile(after:)),
    action("abortAfter", abortVariable, property: "actions: [.abort(after:)]", StallAction.abort(after:)),
  ]
}
