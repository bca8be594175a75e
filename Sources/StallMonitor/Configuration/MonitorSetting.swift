import StallReport

/// One setting of the monitor: its name in code, environment and configuration, its default, and its
/// allowed values.
///
/// The readers of variables and of a `ConfigReader` use this table. Configuration.md, the doc comments and the options in C are checked against it
/// by a test.
package struct MonitorSetting: Sendable {
  /// The key of a `ConfigReader`: the property, without the `is` of a Boolean.
  let name: String
  /// Names of earlier builds, which are still read.
  let earlierNames: [String]
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

  /// The environment variable.
  let variable: String

  /// The name and the earlier names; of those that are set, the first counts.
  var names: [String] { [name] + earlierNames }

  /// What all variables begin with.
  static let prefix = "STALLMONITOR_"

  /// The variable of a name: `repeatWindow` has `STALLMONITOR_REPEAT_WINDOW`.
  static func variable(of name: String) -> String {
    name.reduce(into: prefix) { $0 += $1.isUppercase ? "_\($1)" : $1.uppercased() }
  }

  private init<Value>(
    _ name: String, earlier: String? = nil, property: String? = nil, option: String? = nil, standard: String?,
    allowed: String, _ path: WritableKeyPath<StallMonitorConfiguration, Value> & Sendable,
    parse: @escaping @Sendable (String) -> Value?
  ) {
    self.init(name, earlier: earlier, property: property, option: option, standard: standard, allowed: allowed) {
      text, target in
      guard let value = parse(text) else { return false }
      target[keyPath: path] = value
      return true
    }
  }

  private init(
    _ name: String, earlier: String? = nil, property: String? = nil, option: String? = nil, standard: String?,
    allowed: String, apply: @escaping @Sendable (String, inout StallMonitorConfiguration) -> Bool
  ) {
    self.name = name
    earlierNames = earlier.map { [$0] } ?? []
    self.property = property ?? name
    self.option = option
    self.standard = standard
    self.allowed = allowed
    self.apply = apply
    variable = Self.variable(of: name)
  }

  /// Has an action take the place of the same one in code.
  private static func action(
    _ name: String, earlier: String? = nil, property: String, _ make: @escaping @Sendable (Duration) -> StallAction
  ) -> MonitorSetting {
    MonitorSetting(
      name, earlier: earlier, property: property, standard: "off",
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

  static let enabled = MonitorSetting(
    "enabled", property: "isEnabled", standard: "true", allowed: truth, \.isEnabled, parse: BooleanText.parse)
  static let threshold = MonitorSetting(
    "threshold", option: "threshold_ms", standard: "250ms",
    allowed: "\(units), from \(StallMonitorConfiguration.allowedThreshold.spelled), such as 250ms or 1.5s",
    \.threshold, parse: Environment.parseThreshold)
  package static let sink = MonitorSetting(
    "sink", option: "sink", standard: "stdout", allowed: StallMonitorConfiguration.Sink.allowed, \.sink,
    parse: { StallMonitorConfiguration.Sink($0) })
  package static let stateDirectory = MonitorSetting(
    "stateDirectory", option: "state_directory", standard: nil, allowed: "an absolute path, such as /run/app",
    \.stateDirectory,
    // The property is optional: without the type, a path that cannot be used would be a property that is nil.
    parse: { path -> String?? in path.hasPrefix("/") ? .some(path) : .none })
  static let systemdWatchdog = MonitorSetting(
    "notifiesSystemdWatchdog", earlier: "systemdWatchdog", standard: "false", allowed: truth,
    \.notifiesSystemdWatchdog, parse: BooleanText.parse)
  static let abortAfter = action("abortAfter", property: "actions: [.abort(after:)]", StallAction.abort(after:))

  /// All settings, in the order in which variables are read and problems are named.
  static let all: [MonitorSetting] = [
    enabled,
    MonitorSetting(
      "watchesTaskPool", earlier: "cooperativePool", standard: "true", allowed: truth, \.watchesTaskPool,
      parse: BooleanText.parse),
    MonitorSetting(
      "backgroundTaskThreshold", standard: "1s",
      allowed: "\(units), from \(StallMonitorConfiguration.allowedThreshold.spelled), such as 1s",
      \.backgroundTaskThreshold, parse: Environment.parseThreshold),
    threshold,
    sink,
    MonitorSetting(
      "repeatWindow", standard: "30s",
      allowed:
        "\(units), up to \(StallMonitorConfiguration.allowedRepeatWindow.spelledUpperBound), such as 30s; 0s reports every stall",
      \.repeatWindow, parse: Environment.parseRepeatWindow),
    MonitorSetting(
      "maximumReportsPerMinute", earlier: "budget", standard: "60", allowed: budgetWords, \.maximumReportsPerMinute,
      parse: { Int($0).flatMap { StallMonitorConfiguration.allowedBudget.contains($0) ? $0 : nil } }),
    MonitorSetting(
      "resampleInterval", earlier: "sampling", standard: "100ms",
      allowed: "\(units), from \(StallMonitorConfiguration.allowedSampling.spelled), such as 100ms",
      \.resampleInterval, parse: Environment.parseSampling),
    stateDirectory,
    MonitorSetting(
      "otherThreads", earlier: "threads", standard: "lock-holder", allowed: threadWords, \.otherThreads,
      parse: StallMonitorConfiguration.ThreadSelection.init(_:)),
    MonitorSetting(
      "serviceName", option: "service_name", standard: nil, allowed: "any text", \.serviceName, parse: { $0 }),
    MonitorSetting(
      "serviceVersion", option: "service_version", standard: nil, allowed: "any text", \.serviceVersion,
      parse: { $0 }),
    systemdWatchdog,
    action(
      "writeDetailFileAfter", earlier: "detailAfter", property: "actions: [.writeDetailFile(after:)]",
      StallAction.writeDetailFile(after:)),
    abortAfter,
  ]
}
