/// One key of the settings: all that is known of it, for reading, checking, writing and explaining.
///
/// `Owner` is what a mapping is read into. The name is a path from there, such as `socket.allow.users`.
struct SettingsKey<Owner>: Sendable {
  let name: String
  /// A name of earlier versions, which is still read.
  private(set) var earlierName: String?
  let isList: Bool
  let allowed: String
  /// Sentences for the manual and the shipped file.
  let summary: String
  /// Whether a running agent cannot take a new value.
  let needsRestart: Bool
  /// Stores the values, one if this is no list; returns the indices of those that are not allowed.
  let read: @Sendable ([String], inout Owner) -> [Int]
  /// The values, as they are written in the file; nil if the key need not be there, and is not.
  let values: @Sendable (Owner) -> [String]?

  /// A key with one value, or the word `off`.
  init<Value>(
    _ name: String, orOff property: WritableKeyPath<Owner, Value?> & Sendable, _ type: SettingType<Value>,
    needsRestart: Bool = false, _ summary: String
  ) {
    self.init(name, property, type.orOff, needsRestart: needsRestart, summary)
  }

  /// A key that need not be there, and then has no value.
  init<Value>(
    _ name: String, optional property: WritableKeyPath<Owner, Value?> & Sendable, _ type: SettingType<Value>,
    _ summary: String
  ) {
    self.init(name, property, type.optional, summary)
  }

  /// A key with one value.
  init<Value>(
    _ name: String, _ property: WritableKeyPath<Owner, Value> & Sendable, _ type: SettingType<Value>,
    needsRestart: Bool = false, _ summary: String
  ) {
    self.name = name
    isList = false
    allowed = type.allowed
    self.summary = summary
    self.needsRestart = needsRestart
    read = { texts, owner in
      guard let text = texts.first, let value = type.parse(text) else { return [0] }
      owner[keyPath: property] = value
      return []
    }
    values = { owner in
      let text = type.text(owner[keyPath: property])
      return text.isEmpty ? nil : [text]
    }
  }

  /// A key with any number of values.
  init<Value>(
    _ name: String, listOf type: SettingType<Value>, _ property: WritableKeyPath<Owner, [Value]> & Sendable,
    needsRestart: Bool = false, _ summary: String
  ) {
    self.name = name
    isList = true
    allowed = type.allowed
    self.summary = summary
    self.needsRestart = needsRestart
    read = { texts, owner in
      let parsed = texts.map(type.parse)
      owner[keyPath: property] = parsed.compactMap { $0 }
      return parsed.indices.filter { parsed[$0] == nil }
    }
    values = { $0[keyPath: property].map(type.text) }
  }

  /// The same, which is also read by a name of earlier versions.
  func earlier(_ name: String) -> SettingsKey {
    var key = self
    key.earlierName = name
    return key
  }

  /// Whether a path names it.
  func isNamed(_ path: String) -> Bool { path == name || path == earlierName }
}
