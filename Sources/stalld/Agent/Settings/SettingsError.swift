import StallReport

/// An invalid value in the settings: where it is, what it is, and what is allowed there.
struct SettingsError: Sendable, Equatable, CustomStringConvertible {
  enum Location: Sendable, Equatable {
    case file(String, line: Int)
    case variable(String)
    case flag(String)
  }

  var location: Location
  /// The key as a path, such as `outputs[1].max_size`, if there is one.
  var key: String?
  var value: String?
  /// What is wrong, or what is allowed.
  var reason: String

  /// Of a key, a value or a name, in characters.
  static let longestText = 120

  var description: String {
    let value = value.map { $0.printable(limit: Self.longestText) }
    switch location {
    case .file(let file, let line):
      let what = key.map { $0.printable(limit: Self.longestText) + (value.map { " = \($0)" } ?? "") + ": " } ?? ""
      return file.printable(limit: 4096) + (line > 0 ? ":\(line)" : "") + ": " + what + reason
    case .variable(let name): return "\(name.printable(limit: Self.longestText))=\(value ?? ""): \(reason)"
    case .flag(let name): return "\(name)\(value.map { " \($0)" } ?? ""): \(reason)"
    }
  }
}

/// All that is wrong with the settings.
struct SettingsErrors: Error, Equatable, CustomStringConvertible {
  var problems: [SettingsError]

  /// Lines for people; further errors are only counted.
  private static let listLimit = 100

  var description: String {
    let listed = problems.prefix(Self.listLimit).map(\.description)
    let rest = problems.count - listed.count
    return (listed + (rest > 0 ? ["and \(rest) more"] : [])).joined(separator: "\n")
  }
}
