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

  /// The kinds of sinks, one for each case of `Destination`.
  enum Kind: CaseIterable {
    case standardOutput
    case file
    case agent
  }

  /// What a sink is, and what follows the prefix of its form; exhaustive, so that no destination is without a form.
  private var spelled: (kind: Kind, path: String) {
    switch destination {
    case .standardOutput: (.standardOutput, "")
    case .file(let path): (.file, path)
    case .agent(let path): (.agent, path)
    }
  }

  private static func form(of kind: Kind) -> Form {
    switch kind {
    case .standardOutput: Form(prefix: "stdout", words: "stdout") { $0.isEmpty ? .standardOutput : nil }
    case .file:
      Form(prefix: "file:", words: "file: and a path, such as file:/var/log/app/stalls.jsonl") {
        $0.isEmpty ? nil : .file(path: $0)
      }
    case .agent:
      Form(
        prefix: "agent:",
        words:
          "agent: and the absolute path of the agent's socket, at most \(StallMonitorConfiguration.longestSocketPath) bytes, such as agent:/run/stalld/stalld.sock"
      ) { StallMonitorConfiguration.isSocketPath($0) ? .agent(path: $0) : nil }
    }
  }

  /// All forms.
  static let forms = Kind.allCases.map(form)

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
  /// Makes a sink from the text of the environment variable; nil if it is invalid.
  package init?(_ text: String) {
    guard let form = Self.forms.first(where: { text.hasPrefix($0.prefix) }),
      let sink = form.make(String(text.dropFirst(form.prefix.count)))
    else { return nil }
    self = sink
  }

  /// The sink as the environment variable spells it.
  public var description: String { Self.form(of: spelled.kind).prefix + spelled.path }
}

extension StallMonitorConfiguration.ThreadSelection {
  /// Makes a selection from the text of the environment variable; nil if it is invalid.
  init?(_ text: String) {
    guard let value = Value(rawValue: text) else { return nil }
    self.init(value: value)
  }
}
