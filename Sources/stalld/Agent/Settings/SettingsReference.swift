/// The documentation of the settings, generated from the table of keys.
enum SettingsReference {
  /// The file that is shipped: the names of the groups, and each setting as a comment with its default.
  ///
  /// A setting follows `#`, and text follows `# `. To use a setting, remove only the `#`.
  static var file: String {
    let settings = AgentSettings()
    var text = """
      # The settings of the agent, `stalld run`: see stalld.yaml(5).
      #
      # Commented-out lines show the defaults; remove the # to change one. `stalld check` lists all errors, and `stalld check --print`
      # prints the effective settings. `systemctl reload stalld` reloads this file; an invalid file changes nothing.
      #
      # Times: 250ms, 1.5s, 5min, 24h, 14d. Sizes: 8000B, 256KiB, 64MiB, 1GB.

      """
    for group in AgentSettings.groups {
      text += "\n" + comment(group.summary, indent: "") + group.name + ":\n"
      switch group.name {
      case "outputs": text += outputs(settings)
      case "services": text += services
      default: text += keys(of: group.name, settings)
      }
    }
    return text
  }

  private static func keys(of group: String, _ settings: AgentSettings) -> String {
    var text = ""
    var path = [Substring(group)]
    for key in AgentSettings.keys where key.name.hasPrefix(group + ".") {
      let words = key.name.split(separator: ".")
      for depth in 1..<(words.count - 1) where !path.starts(with: words[...depth]) {
        text += String(repeating: "  ", count: depth) + words[depth] + ":\n"
      }
      path = words.dropLast()
      text += entry(words[words.count - 1], key, settings, indent: String(repeating: "  ", count: words.count - 1))
    }
    return text
  }

  private static func entry<Owner>(
    _ word: Substring, _ key: SettingsKey<Owner>, _ owner: Owner, indent: String
  ) -> String {
    let value = YAMLWriter.value(key.values(owner) ?? [], isList: key.isList)
    return comment(key.summary + " " + sentence(key), indent: indent) + "\(indent)#\(word): \(value)\n"
  }

  private static func outputs(_ settings: AgentSettings) -> String {
    var text = ""
    func explain<Owner>(_ kind: AgentSettings.Output.Kind, _ keys: [SettingsKey<Owner>], _ defaults: Owner) {
      text += comment("type: \(kind.rawValue)" + (keys.isEmpty ? "" : ", with"), indent: "  ")
      for key in keys {
        let standard = YAMLWriter.value(key.values(defaults) ?? [], isList: key.isList)
        text += comment(
          "\(key.name): \(key.summary) \(sentence(key)) Default: \(standard).", indent: "  ")
      }
    }
    for kind in AgentSettings.Output.Kind.allCases {
      switch kind {
      case .file: explain(kind, AgentSettings.Output.File.keys, AgentSettings.Output.File())
      case .standardOutput: explain(kind, AgentSettings.Output.standardOutputKeys, ())
      case .syslog: explain(kind, AgentSettings.Output.Syslog.keys, AgentSettings.Output.Syslog())
      }
    }
    var writer = YAMLWriter()
    settings.write(outputsTo: &writer)
    // Behind the two blanks of the list.
    for line in writer.text.split(separator: "\n").dropFirst() { text += "  #" + line.dropFirst(2) + "\n" }
    return text
  }

  private static var services: String {
    var text = ""
    for key in AgentSettings.ServiceOverride.keys {
      text += comment("\(key.name): \(key.summary) \(sentence(key))", indent: "  ")
    }
    return text + "  # For example:\n"
      + "  # - {match: \"web*\", enabled: true, captures: all, threshold: 100ms, repeat_window: 30s, maximum_reports_per_minute: 60, resample_interval: 100ms, other_threads: lock-holder, symbolication: agent}\n"
  }

  /// What is allowed, in words.
  private static func sentence<Owner>(_ key: SettingsKey<Owner>) -> String {
    "Allowed: " + (key.isList ? "a list, each element " : "") + key.allowed + "."
  }

  /// Lines of comment that are short enough.
  private static func comment(_ text: String, indent: String) -> String {
    var lines: [String] = []
    var line = ""
    for word in text.split(separator: " ") {
      if !line.isEmpty, indent.count + line.count + word.count > 115 {
        lines.append(line)
        line = ""
      }
      line += (line.isEmpty ? "" : " ") + word
    }
    return (lines + [line]).map { indent + "# " + $0 + "\n" }.joined()
  }
}
