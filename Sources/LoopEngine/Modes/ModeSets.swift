import Synchronization

/// Sets of several modes, by negative number, so that a block carries one number whatever its modes.
///
/// A number belongs to a set as long as there is a ``Use`` of it.
enum ModeSets {
  private struct Table {
    var numbers: [Set<Int32>: Int32] = [:]
    /// By number; nil where there is none any more.
    var sets: [(modes: Set<Int32>, users: Int)?] = []
    var free: [Int32] = []
  }

  private static let table = Guarded<Table>.table(Table())

  /// How many sets there are.
  static var count: Int { table.withLock { $0.numbers.count } }

  /// Keeps the number of a set.
  final class Use: Sendable {
    let number: Int32

    init(of modes: Set<Int32>) {
      number = ModeSets.table.withLock { table in
        if let known = table.numbers[modes] {
          table.sets[Int(-known) - 1]!.users += 1
          return known
        }
        if table.free.isEmpty {
          table.sets.append(nil)
          table.free.append(-Int32(table.sets.count))
        }
        let number = table.free.removeLast()
        table.sets[Int(-number) - 1] = (modes, 1)
        table.numbers[modes] = number
        return number
      }
    }

    deinit {
      ModeSets.table.withLock { [number] table in
        guard let set = table.sets[Int(-number) - 1] else { return }
        if set.users > 1 { return table.sets[Int(-number) - 1]!.users -= 1 }
        table.sets[Int(-number) - 1] = nil
        table.numbers[set.modes] = nil
        table.free.append(number)
      }
    }
  }

  private static func modes(_ number: Int32) -> Set<Int32> { table.withLock { $0.sets[Int(-number) - 1]?.modes ?? [] } }

  /// Whether a mode that the loop does not know yet, and which is not common, is in a set.
  static func contains(_ number: Int32, _ mode: Int32) -> Bool { modes(number).contains(mode) }

  static func contains(_ number: Int32, _ mode: ModeState) -> Bool {
    let set = modes(number)
    return set.contains(mode.id) || (mode.isCommon && set.contains(Loop.Mode.common.id))
  }
}

/// The modes of a block, as one number.
struct SeveralModes {
  let number: Int32
  /// Keeps the number; nil for a single mode, whose number is its own.
  let use: ModeSets.Use?

  /// Notes that the loop is to know the modes.
  init(_ modes: [Loop.Mode], of loop: Loop) {
    for mode in modes { loop.note(mode) }
    use = modes.count == 1 ? nil : ModeSets.Use(of: Set(modes.map(\.id)))
    number = use?.number ?? modes[0].id
  }
}
