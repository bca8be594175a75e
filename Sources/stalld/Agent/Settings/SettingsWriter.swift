extension AgentSettings {
  /// The settings as a file that says all of them.
  var yaml: String {
    var writer = YAMLWriter()
    for group in Self.groups {
      switch group.name {
      case "outputs":
        write(outputsTo: &writer)
      case "services":
        writer.begin("services", isEmpty: services.isEmpty)
        for service in services {
          writer.element(Self.entries(ServiceOverride.keys, service))
        }
      default:
        for key in Self.keys where key.name.hasPrefix(group.name + ".") {
          if let values = key.values(self) { writer.entry(key.name, values, isList: key.isList) }
        }
      }
    }
    return writer.text
  }

  func write(outputsTo writer: inout YAMLWriter) {
    writer.begin("outputs")
    for output in outputs { writer.element([("type", [output.kind.rawValue], false)] + output.entries) }
  }

  fileprivate static func entries<Owner>(_ keys: [SettingsKey<Owner>], _ owner: Owner) -> [YAMLWriter.Entry] {
    keys.compactMap { key in key.values(owner).map { (key.name, $0, key.isList) } }
  }
}

extension AgentSettings.Output {
  fileprivate var entries: [YAMLWriter.Entry] {
    switch self {
    case .file(let file): AgentSettings.entries(File.keys, file)
    case .standardOutput: []
    case .syslog(let syslog): AgentSettings.entries(Syslog.keys, syslog)
    }
  }
}

/// Writes mappings, lists and values in the block style.
struct YAMLWriter {
  typealias Entry = (name: String, values: [String], isList: Bool)
  private(set) var text = ""
  private var path: [Substring] = []

  /// An entry whose name is a path, such as `socket.allow.users`.
  mutating func entry(_ name: String, _ values: [String], isList: Bool) {
    let words = name.split(separator: ".")
    let shared = zip(words.dropLast(), path).prefix { $0 == $1 }.count
    for depth in shared..<(words.count - 1) { text += Self.indent(depth) + words[depth] + ":\n" }
    path = words.dropLast()
    text += Self.indent(words.count - 1) + words[words.count - 1] + ": " + Self.value(values, isList: isList) + "\n"
  }

  /// The name of a list of mappings.
  mutating func begin(_ name: String, isEmpty: Bool = false) {
    path = []
    text += name + ":" + (isEmpty ? " []" : "") + "\n"
  }

  mutating func element(_ entries: [Entry]) {
    for (index, entry) in entries.enumerated() {
      let value = Self.value(entry.values, isList: entry.isList)
      text += (index == 0 ? "  - " : "    ") + entry.name + ": " + value + "\n"
    }
  }

  static func value(_ values: [String], isList: Bool) -> String {
    isList ? "[" + values.map(scalar).joined(separator: ", ") + "]" : scalar(values.first ?? "")
  }

  /// With quotes where another reader of YAML could take it for something else than this text.
  static func scalar(_ text: String) -> String {
    let isPlain =
      text.utf8.allSatisfy { byte in
        (0x30...0x39).contains(byte) || (0x61...0x7a).contains(byte | 0x20) || "/._-".utf8.contains(byte)
      } && text.first.map { $0 != "-" && $0 != "." } == true
    let isOctal = text.count > 1 && text.first == "0" && text.allSatisfy(\.isNumber)
    if isPlain, !isOctal { return text }
    var result = "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"", "\\": result += "\\" + String(scalar)
      case _ where scalar.value < 0x20 || scalar.value == 0x7f:
        let digits = String(scalar.value, radix: 16)
        result += "\\x" + (digits.count < 2 ? "0" : "") + digits
      default: result += String(scalar)
      }
    }
    return result + "\""
  }

  private static func indent(_ depth: Int) -> String { String(repeating: "  ", count: depth) }
}
