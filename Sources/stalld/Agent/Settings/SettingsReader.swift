import StallMonitor
import StallReport

/// Reads a document into settings by the table of keys, and collects all that is wrong with it.
struct SettingsReader {
  let file: String
  private(set) var problems: [SettingsError] = []
  /// The keys that were read, and their lines.
  private(set) var lines: [String: Int] = [:]

  /// More outputs than that are a slip, and each has a queue.
  static let outputLimit = 16
  static let serviceLimit = 10000

  init(file: String) { self.file = file }

  mutating func read(_ document: YAMLDocument, into settings: inout AgentSettings) {
    for fault in document.faults { refuse(nil, nil, line: fault.line, fault.reason) }
    guard let root = document.root, !root.isNull else { return }
    let lists = ["outputs", "services"]
    read(root, AgentSettings.keys, also: lists, into: &settings) { reader, entry, settings in
      if entry.key == "outputs" {
        reader.readOutputs(entry.value, into: &settings.outputs)
      } else {
        reader.readServices(entry.value, into: &settings.services)
      }
    }
  }

  /// What a mapping's entry is, and where.
  private typealias Entry = (key: String, line: Int, value: YAMLDocument.Node)

  /// Reads a mapping.
  ///
  /// `prefix` is its path from the owner, `place` the owner's own path; `also` are keys that `other` reads.
  private mutating func read<Owner>(
    _ node: YAMLDocument.Node, _ keys: [SettingsKey<Owner>], prefix: String = "", place: String = "",
    also: [String] = [], into owner: inout Owner,
    other: (inout SettingsReader, Entry, inout Owner) -> Void = { _, _, _ in }
  ) {
    guard case .mapping(let entries) = node.content else {
      // A group all of whose keys are commented out.
      if !node.isNull {
        let advice = Self.keyInstead(of: node, keys, under: prefix, owner)
        refuseKind(node, Self.join(place, prefix), "a mapping of keys to values" + advice)
      }
      return
    }
    var seen: [String: Int] = [:]
    for entry in entries {
      let name = Self.join(prefix, entry.key)
      let path = Self.join(place, name)
      // A key with a point in it is no path.
      let isWord = !entry.key.contains(".")
      let key = isWord ? keys.first { $0.isNamed(name) } : nil
      if let first = seen.updateValue(entry.line, forKey: key?.name ?? entry.key) {
        refuse(path, nil, line: entry.line, "line \(first) has the same key")
        continue
      }
      lines[path] = entry.line
      if let key {
        read(entry.value, key, path, into: &owner)
      } else if isWord, keys.contains(where: { $0.name.hasPrefix(name + ".") }) {
        read(entry.value, keys, prefix: name, place: place, into: &owner)
      } else if prefix.isEmpty, also.contains(entry.key) {
        other(&self, entry, &owner)
      } else {
        let siblings = Self.words(keys.map(\.name), under: prefix) + (prefix.isEmpty ? also : [])
        refuse(path, nil, line: entry.line, Self.unknown(entry.key, siblings, keys.map(\.name)))
      }
    }
  }

  private mutating func read<Owner>(
    _ node: YAMLDocument.Node, _ key: SettingsKey<Owner>, _ path: String, into owner: inout Owner
  ) {
    if case .unusable = node.content { return }
    if key.isList {
      // A list all of whose elements are commented out.
      if node.isNull { return }
      guard case .sequence(let elements) = node.content else {
        return refuseKind(node, path, "a list, each element \(key.allowed)")
      }
      var (texts, indices): ([String], [Int]) = ([], [])
      for (index, element) in elements.enumerated() {
        if case .unusable = element.content { continue }
        guard case .scalar(let text, _) = element.content, !element.isNull else {
          refuseKind(element, "\(path)[\(index)]", key.allowed)
          continue
        }
        texts.append(text)
        indices.append(index)
      }
      for refused in key.read(texts, &owner) {
        let index = indices[refused]
        refuse("\(path)[\(index)]", texts[refused], line: elements[index].line, "allowed: \(key.allowed)")
      }
      return
    }
    guard case .scalar(let text, _) = node.content, !node.isNull else { return refuseKind(node, path, key.allowed) }
    if !key.read([text], &owner).isEmpty { refuse(path, text, line: node.line, "allowed: \(key.allowed)") }
  }

  // MARK: Lists of mappings

  private mutating func readOutputs(_ node: YAMLDocument.Node, into outputs: inout [AgentSettings.Output]) {
    if node.isNull { return }
    if case .unusable = node.content { return }
    guard case .sequence(let elements) = node.content, (1...Self.outputLimit).contains(elements.count) else {
      return refuseKind(node, "outputs", "a list of 1 to \(Self.outputLimit) outputs, each a mapping with its type")
    }
    outputs = []
    for (index, element) in elements.enumerated() {
      lines["outputs[\(index)]"] = element.line
      if let output = readOutput(element, "outputs[\(index)]") { outputs.append(output) }
    }
  }

  private mutating func readOutput(_ node: YAMLDocument.Node, _ place: String) -> AgentSettings.Output? {
    if case .unusable = node.content { return nil }
    let types = AgentSettings.Output.types
    guard case .mapping(let entries) = node.content else {
      refuseKind(node, place, "a mapping with its type (\(types))")
      return nil
    }
    guard let type = entries.first(where: { $0.key == "type" })?.value else {
      refuse("\(place).type", nil, line: node.line, "this key is missing; allowed: \(types)")
      refuseUnknownKeys(of: entries, place)
      return nil
    }
    guard case .scalar(let word, _) = type.content, let kind = AgentSettings.Output.Kind(rawValue: word) else {
      refuseKind(type, "\(place).type", types)
      refuseUnknownKeys(of: entries, place)
      return nil
    }
    switch kind {
    case .file:
      var file = AgentSettings.Output.File()
      read(node, AgentSettings.Output.File.keys, place: place, also: ["type"], into: &file)
      return .file(file)
    case .standardOutput:
      var nothing: Void = ()
      read(node, AgentSettings.Output.standardOutputKeys, place: place, also: ["type"], into: &nothing)
      return .standardOutput
    case .syslog:
      var syslog = AgentSettings.Output.Syslog()
      read(node, AgentSettings.Output.Syslog.keys, place: place, also: ["type"], into: &syslog)
      return .syslog(syslog)
    }
  }

  /// Refuses the keys that no output has; which of them one has depends on its type.
  private mutating func refuseUnknownKeys(of entries: [Entry], _ place: String) {
    let known = ["type"] + AgentSettings.Output.Kind.allCases.flatMap(\.keyNames)
    for entry in entries where !known.contains(entry.key) {
      var reason = Self.unknown(entry.key, known, [])
      if let kind = AgentSettings.Output.Kind(rawValue: entry.key) {
        let text = if case .scalar(let text, _) = entry.value.content, !text.isEmpty { text } else { "…" }
        let operand = kind.operandKey.map { ", \($0): \(text)" } ?? ""
        reason = "no such key; did you mean type: \((entry.key + operand).printable(limit: SettingsError.longestText))?"
      }
      refuse("\(place).\(entry.key)", nil, line: entry.line, reason)
    }
  }

  private mutating func readServices(
    _ node: YAMLDocument.Node, into services: inout [AgentSettings.ServiceOverride]
  ) {
    if node.isNull { return }
    if case .unusable = node.content { return }
    guard case .sequence(let elements) = node.content, elements.count <= Self.serviceLimit else {
      return refuseKind(node, "services", "a list of at most \(Self.serviceLimit) mappings, each with its match")
    }
    services = []
    for (index, element) in elements.enumerated() {
      let place = "services[\(index)]"
      if element.isNull {
        refuseKind(element, place, "a mapping of keys to values")
        continue
      }
      var service = AgentSettings.ServiceOverride()
      read(element, AgentSettings.ServiceOverride.keys, place: place, into: &service)
      if case .mapping(let entries) = element.content, !entries.contains(where: { $0.key == "match" }) {
        let allowed = SettingType<String>.glob.allowed
        refuse("\(place).match", nil, line: element.line, "this key is missing; allowed: \(allowed)")
      }
      services.append(service)
    }
  }

  // MARK: Mistakes

  private mutating func refuse(_ key: String?, _ value: String?, line: Int, _ reason: String) {
    problems.append(SettingsError(location: .file(file, line: line), key: key, value: value, reason: reason))
  }

  /// Something of another shape than is allowed there.
  private mutating func refuseKind(_ node: YAMLDocument.Node, _ key: String, _ allowed: String) {
    let key = key.isEmpty ? nil : key
    switch node.content {
    case .scalar where key == nil: refuse(nil, nil, line: node.line, "this is text; allowed: \(allowed)")
    case .scalar(let text, _):
      refuse(
        key, node.isNull ? "" : text, line: node.line,
        (node.isNull ? "a value is missing; " : "") + "allowed: \(allowed)")
    case .sequence(let elements):
      let what = elements.isEmpty ? "an empty list" : "a list of \(elements.count)"
      refuse(key, nil, line: node.line, "this is \(what); allowed: \(allowed)")
    case .mapping: refuse(key, nil, line: node.line, "this is a mapping; allowed: \(allowed)")
    case .unusable: break
    }
  }

  /// The key of a group that a value was meant for, as advice: the only one that takes it; empty if there is none.
  private static func keyInstead<Owner>(
    of node: YAMLDocument.Node, _ keys: [SettingsKey<Owner>], under prefix: String, _ owner: Owner
  ) -> String {
    guard !prefix.isEmpty, case .scalar(let text, _) = node.content else { return "" }
    let taking = keys.filter { key in
      var copy = owner
      return key.name.hasPrefix(prefix + ".") && !key.isList && key.read([text], &copy).isEmpty
    }
    guard taking.count == 1, let key = taking.first else { return "" }
    return
      "; did you mean \(key.name.dropFirst(prefix.count + 1)): \(text.printable(limit: SettingsError.longestText)) below it?"
  }

  /// The allowed keys of the mapping at `prefix`.
  private static func words(_ names: [String], under prefix: String) -> [String] {
    let start = prefix.isEmpty ? "" : prefix + "."
    var words: [String] = []
    for name in names where name.hasPrefix(start) {
      let word = name.dropFirst(start.count).prefix { $0 != "." }
      if words.last != String(word) { words.append(String(word)) }
    }
    return words
  }

  private static func unknown(_ word: String, _ siblings: [String], _ names: [String]) -> String {
    if let nearest = Suggestion.nearest(to: word, among: siblings) { return "no such key; did you mean \(nearest)?" }
    if let elsewhere = names.first(where: { $0.hasSuffix("." + word) }) {
      return "no such key here; did you mean \(elsewhere)?"
    }
    return "no such key; known here: " + (siblings.isEmpty ? "none" : siblings.joined(separator: ", "))
  }

  private static func join(_ path: String, _ word: String) -> String {
    path.isEmpty || word.isEmpty ? path + word : path + "." + word
  }
}
