extension AgentSettings {
  /// The variable of a key: `STALLD_LIMITS_MEMORY` for `limits.memory`.
  static func variable(_ key: String) -> String {
    variablePrefix + key.map { $0 == "." ? "_" : $0.uppercased() }.joined()
  }

  static let variablePrefix = "STALLD_"

  /// Lays the variables over; returns what cannot be used.
  ///
  /// An empty one is an unset one: that is how unit files blank a variable.
  mutating func apply(_ environment: [String: String]) -> [SettingsError] {
    var problems: [SettingsError] = []
    let keys = Self.keys.filter { !$0.isList }
    for (name, text) in environment.sorted(by: { $0.key < $1.key }) where name.hasPrefix(Self.variablePrefix) {
      guard let key = keys.first(where: { Self.variable($0.name) == name }) else {
        let nearest = Suggestion.nearest(to: name, among: keys.map { Self.variable($0.name) })
        let hint = nearest.map { "did you mean \($0)?" } ?? "stalld settings-reference yaml lists all"
        problems.append(SettingsError(location: .variable(name), value: text, reason: "no such variable; \(hint)"))
        continue
      }
      if !text.isEmpty, !key.read([text], &self).isEmpty {
        problems.append(SettingsError(location: .variable(name), value: text, reason: "allowed: \(key.allowed)"))
      }
    }
    return problems
  }

  /// Lays the flags over; returns what cannot be used.
  mutating func apply(_ flags: Flags) -> [SettingsError] {
    var problems: [SettingsError] = []
    for value in flags.values {
      guard let key = Self.keys.first(where: { $0.name == value.key }) else { continue }
      if !key.read([value.text], &self).isEmpty {
        problems.append(
          SettingsError(location: .flag(value.flag), value: value.text, reason: "allowed: \(key.allowed)"))
      }
    }
    let parsed = flags.outputs.map { ($0, Output($0)) }
    for (text, output) in parsed where output == nil {
      problems.append(
        SettingsError(
          location: .flag("--output"), value: text,
          reason: "allowed: \(Output.forms), as in stalld.yaml(5); the path is absolute, without //, . and .. parts"))
    }
    if !parsed.isEmpty { outputs = parsed.compactMap(\.1) }
    return problems
  }

  /// What is allowed by itself, and not together; `location` says where a key has its value from.
  func conflicts(in paths: SettingPaths, location: (String) -> SettingsError.Location) -> [SettingsError] {
    var problems: [SettingsError] = []
    func refuse(_ key: String, _ value: String, _ reason: String) {
      problems.append(SettingsError(location: location(key), key: key, value: value, reason: reason))
    }
    if limits.lineBytes > limits.memory / 4 {
      refuse(
        "limits.line_bytes", ByteSize.text(limits.lineBytes),
        "allowed: at most a quarter of limits.memory (\(ByteSize.text(limits.memory)))")
    }
    for (entry, reason) in paths.conflicts {
      let place = location(entry.key)
      let isInFile = if case .file = place { true } else { false }
      problems.append(
        SettingsError(
          location: place, key: entry.key, value: isInFile ? entry.value : entry.argument,
          reason: isInFile ? reason : "\(entry.key): \(reason)"))
    }
    return problems
  }
}

extension AgentSettings.Output {
  /// An output as `--output` names it, with the defaults for the rest; nil if that is none.
  init?(_ text: String) {
    let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
    guard let kind = Kind(rawValue: String(parts[0])), (parts.count == 2) == (kind.operand != nil) else { return nil }
    let operand = parts.count == 2 ? String(parts[1]) : ""
    switch kind {
    case .file:
      guard let path = SettingType<String>.path.parse(operand) else { return nil }
      self = .file(File(path: path))
    case .standardOutput:
      self = .standardOutput
    case .syslog:
      guard let address = SyslogAddress(operand) else { return nil }
      self = .syslog(Syslog(address: address))
    }
  }

  /// Where it writes, as `--output` names it.
  var destination: String { kind.rawValue + (operand.map { ":" + $0 } ?? "") }

  /// Where it writes, as messages and metrics name it.
  var name: String { kind.rawValue + (operand.map { " " + $0 } ?? "") }

  private var operand: String? {
    switch self {
    case .file(let file): file.path
    case .standardOutput: nil
    case .syslog(let syslog): syslog.address.description
    }
  }
}
