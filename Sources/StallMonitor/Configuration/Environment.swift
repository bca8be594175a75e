import CLinux
import PlatformLibc
import StallReport

/// Reads the monitor's settings from environment variables.
///
/// A bad value is never fatal for the service: it gives a problem in words, and the service runs and is not watched.
struct Environment {
  /// The variables that concern the monitor, by name.
  private(set) var variables: [String: String]
  /// The monitor's own variables that are not trusted, sorted.
  private let untrusted: [String]

  /// Takes the variables that concern the monitor.
  ///
  /// A program that has more rights than its caller (`hasMoreRights`) trusts none of them but the service manager's, which lead to no file.
  init(_ all: [String: String], hasMoreRights: Bool = false) {
    let own = all.filter { $0.key.hasPrefix(MonitorSetting.prefix) }
    let described = all.filter { name, _ in
      name.hasPrefix("OTEL_") || ["STATE_DIRECTORY", "JOURNAL_STREAM"].contains(name)
    }
    variables = all.filter { name, _ in name.hasPrefix("WATCHDOG_") || name == "NOTIFY_SOCKET" }
    untrusted = hasMoreRights ? own.keys.sorted() : []
    if !hasMoreRights { variables.merge(own.merging(described) { $1 }) { $1 } }
  }

  /// The environment of this process, as it is now.
  static func current() -> Environment {
    var variables: [String: String] = [:]
    guard var entry = clinux_environment() else { return Environment([:]) }
    while let text = entry.pointee {
      let pair = String(cString: text)
      if let equals = pair.firstIndex(of: "=") {
        variables[String(pair[..<equals])] = String(pair[pair.index(after: equals)...])
      }
      entry += 1
    }
    return Environment(variables, hasMoreRights: clinux_has_more_rights())
  }

  /// A variable whose value cannot be used.
  struct Problem: Equatable, CustomStringConvertible {
    /// The setting's name in the table, or one of its earlier names.
    var name: String
    var value: String
    var allowed: String

    var variable: String { MonitorSetting.variable(of: name) }

    var description: String { "\(variable)=\(value) is invalid; allowed: \(allowed)" }
  }

  /// Names that begin with `STALLMONITOR_`, as this version knows them.
  static let known = MonitorSetting.all.flatMap(\.names).map(MonitorSetting.variable(of:)).sorted()

  /// The names of a setting that have a value; the first counts.
  ///
  /// An empty value is an unset one: that is how unit files and compose files blank a variable.
  private func namesInUse(of setting: MonitorSetting) -> [String] {
    setting.names.filter { variables[MonitorSetting.variable(of: $0)]?.isEmpty == false }
  }

  /// Earlier names that are not read because the setting's name is set, too, each with that name.
  func replacedNames() -> [String: String] {
    MonitorSetting.all.reduce(into: [:]) { result, setting in
      let names = namesInUse(of: setting)
      for earlier in names.dropFirst() { result[earlier] = names[0] }
    }
  }

  /// Lays the variables over `configuration`.
  ///
  /// Returns all that cannot be used; then the configuration is incomplete.
  func apply(to configuration: inout StallMonitorConfiguration) -> [Problem] {
    var problems: [Problem] = []
    for setting in MonitorSetting.all {
      guard let name = namesInUse(of: setting).first, let text = variables[MonitorSetting.variable(of: name)] else {
        continue
      }
      if !setting.apply(text, &configuration) {
        problems.append(Problem(name: name, value: text, allowed: setting.allowed))
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
    if let text = variables[MonitorSetting.abortAfter.variable], !text.isEmpty {
      return Problem(
        name: MonitorSetting.abortAfter.name, value: text,
        allowed:
          "from the threshold (\(configuration.threshold)) to \(StallMonitorConfiguration.allowedActionTime.spelledUpperBound); or off"
      )
    }
    return Problem(
      name: MonitorSetting.threshold.name, value: variables[MonitorSetting.threshold.variable] ?? "",
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
  var setsSink: Bool { variables[MonitorSetting.sink.variable]?.isEmpty == false }

  /// What has disabled the monitor, in words.
  var whatDisables: String {
    guard let text = variables[MonitorSetting.enabled.variable], !text.isEmpty else {
      return "StallMonitorConfiguration.isEnabled is false"
    }
    return "\(MonitorSetting.enabled.variable)=\(text) disables the monitor"
  }

  /// Variables with our prefix and an unknown name: most likely misspelled.
  func unknownVariables() -> [String] {
    variables.keys.filter { $0.hasPrefix(MonitorSetting.prefix) && !Self.known.contains($0) }.sorted()
  }

  /// The names that are set and not read, each in a line with the reason.
  ///
  /// - Parameter replacedKeys: Those of a `ConfigReader`, which may have read the same variables.
  /// - Returns: The lines; none is about a value.
  func notes(replacedKeys: [String: String]) -> [String] {
    let unknown = unknownVariables().map { name in
      let nearest = Self.known.min { $0.distance(to: name) < $1.distance(to: name) }
      return "\(name) is ignored: this version has no such variable; did you mean \(nearest ?? "")?"
    }
    let replaced = replacedNames()
    let variables = replaced.map { earlier, name in
      let names = [earlier, name].map(MonitorSetting.variable(of:))
      return "\(names[0]) is ignored: \(names[1]), which replaces it, is set, too"
    }
    let keys = replacedKeys.filter { replaced[$0.key] == nil }.map { earlier, name in
      "the key \(earlier) is ignored: \(name), which replaces it, is set, too"
    }
    let ignored = untrusted.map {
      "\($0) is ignored: the program has more rights than who started it (set-user-ID or file capabilities)"
    }
    return ignored + unknown + variables.sorted() + keys.sorted()
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
