/// Something in the settings that cannot be used: where it is, what it is, and what may stand there.
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

  var description: String {
    let value = value.map { Self.printable($0) }
    switch location {
    case .file(let file, let line):
      let what = key.map { Self.printable($0) + (value.map { " = \($0)" } ?? "") + ": " } ?? ""
      return Self.printable(file, limit: 4096) + (line > 0 ? ":\(line)" : "") + ": " + what + reason
    case .variable(let name): return "\(Self.printable(name))=\(value ?? ""): \(reason)"
    case .flag(let name): return "\(name)\(value.map { " \($0)" } ?? ""): \(reason)"
    }
  }

  /// Somebody's text, fit for a terminal and of bearable length.
  static func printable(_ text: String, limit: Int = 120) -> String {
    var result = ""
    for scalar in text.unicodeScalars.prefix(limit) {
      let isPlain = scalar.value >= 0x20 && scalar.value != 0x7f && !(0x80..<0xa0).contains(scalar.value)
      result += isPlain ? String(scalar) : scalar.escaped(asASCII: true)
    }
    return result.unicodeScalars.count < text.unicodeScalars.count && text.unicodeScalars.count > limit
      ? result + "…" : result
  }
}

/// All that is wrong with the settings.
struct SettingsErrors: Error, Equatable, CustomStringConvertible {
  var problems: [SettingsError]

  /// Lines for people; more than this many only say so.
  private static let toldMistakes = 100

  var description: String {
    let told = problems.prefix(Self.toldMistakes).map(\.description)
    let rest = problems.count - told.count
    return (told + (rest > 0 ? ["and \(rest) more"] : [])).joined(separator: "\n")
  }
}
