extension StallMonitorConfiguration.Sink {
  /// How one kind of sink is spelled in `STALLMONITOR_SINK` and in the options of services in C.
  struct Form: Sendable {
    /// What the text begins with; all of it for a sink without a path.
    let prefix: String
    /// What is allowed, in words.
    let words: String
    /// The sink with what follows the prefix; nil if that cannot be used.
    let make: @Sendable (String) -> StallMonitorConfiguration.Sink?
  }

  /// All forms.
  ///
  /// ``description`` writes them, which the compiler holds complete.
  static let forms = [
    Form(prefix: "stdout", words: "stdout") { $0.isEmpty ? .standardOutput : nil },
    Form(prefix: "file:", words: "file: and a path, such as file:/var/log/app/stalls.jsonl") {
      $0.isEmpty ? nil : .file(path: $0)
    },
    Form(
      prefix: "agent:",
      words:
        "agent: and the absolute path of the agent's socket, at most \(StallMonitorConfiguration.longestSocketPath) bytes, such as agent:/run/stalld/stalld.sock"
    ) { StallMonitorConfiguration.isSocketPath($0) ? .agent(path: $0) : nil },
  ]

  /// What is allowed, in words.
  static var allowed: String {
    forms.dropLast().map(\.words).joined(separator: "; ") + "; or \(forms.last?.words ?? "")"
  }

  /// What is allowed for a sink of this kind in code, in words.
  var allowedInCode: String {
    switch destination {
    case .standardOutput, .file: ".standardOutput, or .file with a path"
    case .agent: ".agent with an absolute path of at most \(StallMonitorConfiguration.longestSocketPath) bytes"
    }
  }
}

extension StallMonitorConfiguration.Sink: CustomStringConvertible {
  /// A sink as the environment variable spells it; nil if it is none.
  package init?(_ text: String) {
    guard let form = Self.forms.first(where: { text.hasPrefix($0.prefix) }),
      let sink = form.make(String(text.dropFirst(form.prefix.count)))
    else { return nil }
    self = sink
  }

  /// The sink as the environment variable spells it.
  public var description: String {
    switch destination {
    case .standardOutput: "stdout"
    case .file(let path): "file:\(path)"
    case .agent(let path): "agent:\(path)"
    }
  }
}

extension StallMonitorConfiguration.ThreadSelection {
  /// A selection as the environment variable spells it; nil if it is none.
  init?(_ text: String) {
    guard let value = Value(rawValue: text) else { return nil }
    self.init(value: value)
  }
}
