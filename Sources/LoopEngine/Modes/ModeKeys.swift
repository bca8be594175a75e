/// The modes that an item was added to, `.common` being one of them, and the common modes that it was then taken out of.
struct ModeKeys {
  private(set) var added: [Int32] = []
  private var excepted: [Int32] = []

  var isEmpty: Bool { added.isEmpty }

  /// Whether the item is in a mode.
  @inline(__always)
  func isIn(_ mode: ModeState) -> Bool {
    added.contains { $0 == mode.id || ($0 == Loop.Mode.common.id && mode.isCommon && !excepted.contains(mode.id)) }
  }

  /// Whether the item was added to exactly this mode or set.
  func contains(_ key: Int32) -> Bool { added.contains(key) }

  /// Whether the item is in a common mode for having been added to all of them.
  func isCommonItem(in mode: ModeState) -> Bool {
    mode.isCommon && contains(Loop.Mode.common.id) && !excepted.contains(mode.id)
  }

  mutating func add(_ key: Int32) {
    if !added.contains(key) { added.append(key) }
  }

  mutating func remove(_ key: Int32) {
    added.removeAll { $0 == key }
    if key == Loop.Mode.common.id { excepted = [] }
  }

  /// Takes the item out of one of the common modes; it stays in the others, and reaches those that become common later.
  mutating func except(_ key: Int32) { excepted.append(key) }

  var hasExceptions: Bool { !excepted.isEmpty }

  /// The modes that it was taken out of, which have it again.
  mutating func takeExceptions() -> [Int32] {
    defer { excepted = [] }
    return excepted
  }

  mutating func removeAll() {
    added = []
    excepted = []
  }
}
