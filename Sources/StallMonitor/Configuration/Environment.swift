import CLinux
import Glibc
import StallReport

/// Reads the monitor's settings from environment variables.
///
/// A bad value is never fatal for the service: it gives a problem in words, and the service runs and is not watched.
struct Environment {
  /// All variables, by name.
  var variables: [String: String]

  init(_ variables: [String: String]) { self.variables = variables }

  private static func isRelevant(_ pair: String) -> Bool {
    pair.hasPrefix("STALLMONITOR_") || pair.hasPrefix("OTEL_") || pair.hasPrefix("STATE_DIRECTORY=")
      || pair.hasPrefix("WATCHDOG_") || pair.hasPrefix("NOTIFY_SOCKET=")
      || pair.hasPrefix("JOURNAL_STREAM=")
  }

  /// The environment of this process, as it is now.
  static func current() -> Environment {
    var variables: [String: String] = [:]
    guard var entry = clinux_environment() else { return Environment([:]) }
    while let text = entry.pointee {
      let pair = String(cString: text)
      if let equals = pair.firstIndex(of: "="), isRelevant(pair) {
        variables[String(pair[..<equals])] = String(pair[pair.index(after: equals)...])
      }
      entry += 1
    }
    return Environment(variables)
  }

  /// A variable whose value cannot be used.
  struct Problem: Equatable, CustomStringConvertible {
    var variable: String
    var value: String
    var allowed: String

    var description: String { "\(variable)=\(value) is invalid; allowed: \(allowed)" }
  }

  /// Names that begin with `STALLMONITOR_`, as this version knows them.
  static let known = MonitorSetting.all.map(\.variable).sorted()

  /// Lays the variables over `configuration`.
  ///
  /// Returns all that cannot be used; then the configuration is incomplete.
  func apply(to configuration: inout StallMonitorConfiguration) -> [Problem] {
    var problems: [Problem] = []
    for setting in MonitorSetting.all {
      // An empty value is an unset one: that is how unit files and compose files blank a variable.
      guard let text = variables[setting.variable], !text.isEmpty else { continue }
      if !setting.apply(text, &configuration) {
        problems.append(Problem(variable: setting.variable, value: text, allowed: setting.allowed))
      }
    }
    if problems.isEmpty, let early = configuration.earlyAbort { problems.append(conflict(early, configuration)) }

    let attributes = Self.resourceAttributes(variables["OTEL_RESOURCE_ATTRIBUTES"] ?? "")
    if configuration.serviceName == nil {
      let name = variables["OTEL_SERVICE_NAME"] ?? ""
      configuration.serviceName = name.isEmpty ? attributes["service.name"] : name
    }
    if configuration.serviceVersion == nil { configuration.serviceVersion = attributes["service.version"] }
    return problems
  }

  /// An abort that comes before a stall is one: by its own variable, or by a threshold that is too long for it.
  private func conflict(_ early: StallAction, _ configuration: StallMonitorConfiguration) -> Problem {
    if let text = variables[MonitorSetting.abortVariable], !text.isEmpty {
      return Problem(
        variable: MonitorSetting.abortVariable, value: text,
        allowed:
          "from the threshold (\(configuration.threshold)) to \(StallMonitorConfiguration.allowedActionTime.spelledUpperBound); or off"
      )
    }
    return Problem(
      variable: MonitorSetting.thresholdVariable, value: variables[MonitorSetting.thresholdVariable] ?? "",
      allowed: "at most the time of the action in code: \(early)")
  }

  /// What an action's variable says.
  enum ActionTime: Equatable {
    case after(Duration)
    case off
  }

  static func parseActionTime(_ text: String) -> ActionTime? {
    if text.lowercased() == "off" { return .off }
    guard let time = parseDuration(text), StallMonitorConfiguration.allowedActionTime.contains(time) else { return nil }
    return .after(time)
  }

  /// The directory that systemd made for the service (systemd.exec(5), `StateDirectory=`); of several the first.
  var serviceStateDirectory: String? {
    variables["STATE_DIRECTORY"]?.split(separator: ":").first.map(String.init)
  }

  /// Whether the sink is the operator's choice, and not the code's.
  var setsSink: Bool { variables[MonitorSetting.sinkVariable]?.isEmpty == false }

  /// Variables with our prefix and an unknown name: most likely misspelled.
  func unknownVariables() -> [String] {
    variables.keys.filter { $0.hasPrefix("STALLMONITOR_") && !Self.known.contains($0) }.sorted()
  }

  static func parseThreshold(_ text: String) -> Duration? {
    guard let duration = parseDuration(text), StallMonitorConfiguration.allowedThreshold.contains(duration) else {
      return nil
    }
    return duration
  }

  static func parseSampling(_ text: String) -> Duration? {
    parseDuration(text).flatMap { StallMonitorConfiguration.allowedSampling.contains($0) ? $0 : nil }
  }

  static func parseRepeatWindow(_ text: String) -> Duration? {
    parseDuration(text).flatMap { StallMonitorConfiguration.allowedRepeatWindow.contains($0) ? $0 : nil }
  }

  /// A decimal number and a unit: `250ms`, `1.5s`, `2 min`, `1h`.
  static func parseDuration(_ text: String) -> Duration? {
    DurationText.parse(text)
  }

  /// `key=value` pairs separated by commas, percent-encoded (OpenTelemetry specification, "Specifying resource
  /// information via an environment variable").
  static func resourceAttributes(_ text: String) -> [String: String] {
    var attributes: [String: String] = [:]
    for pair in text.split(separator: ",") {
      guard let equals = pair.firstIndex(of: "=") else { continue }
      let key = pair[..<equals].drop { $0 == " " }
      attributes[String(key)] = percentDecoded(pair[pair.index(after: equals)...])
    }
    return attributes
  }

  private static func percentDecoded(_ text: Substring) -> String {
    var bytes: [UInt8] = []
    var rest = text.utf8[...]
    while let byte = rest.first {
      if byte == UInt8(ascii: "%"), rest.count >= 3,
        let value = UInt8(String(decoding: rest.dropFirst().prefix(2), as: UTF8.self), radix: 16)
      {
        bytes.append(value)
        rest = rest.dropFirst(3)
      } else {
        bytes.append(byte)
        rest = rest.dropFirst()
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}
