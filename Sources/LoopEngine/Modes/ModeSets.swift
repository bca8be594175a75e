import Synchronization

/// Sets of several modes, by negative number, so that a block carries one number whatever its modes.
///
/// Sets are never forgotten; a program uses few different ones.
enum ModeSets {
  private static let table = Guarded<(numbers: [Set<Int32>: Int32], sets: [Set<Int32>])>((numbers: [:], sets: []))

  /// The number of a set of modes: the mode's own if there is but one.
  static func number(of modes: [Loop.Mode]) -> Int32 {
    let set = Set(modes.map(\.id))
    if set.count == 1, let only = set.first { return only }
    return table.withLock { table in
      if let known = table.numbers[set] { return known }
      table.sets.append(set)
      let number = -Int32(table.sets.count)
      table.numbers[set] = number
      return number
    }
  }

  /// Whether a mode that the loop does not know yet, and which is not common, is in a set.
  static func contains(_ number: Int32, _ mode: Int32) -> Bool {
    table.withLock { $0.sets[Int(-number) - 1].contains(mode) }
  }

  static func contains(_ number: Int32, _ mode: ModeState) -> Bool {
    let set = table.withLock { $0.sets[Int(-number) - 1] }
    return set.contains(mode.id) || (mode.isCommon && set.contains(Loop.Mode.common.id))
  }
}
