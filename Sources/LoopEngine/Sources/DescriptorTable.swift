/// The descriptor sources of a loop by token: what the kernel hands back with an event.
///
/// A token is a slot and the slot's generation, so an event that outlives its source finds nothing and not somebody
/// else.
struct DescriptorTable: ~Copyable {
  private struct Slot {
    var source: Loop.DescriptorSource?
    var generation: UInt32 = 0
  }

  private var slots: [Slot] = []
  private var free: [Int] = []
  /// How many sources have left, or left a mode, so that a pass can tell a late event from an orphaned watch.
  private(set) var removals = 0

  var all: [Loop.DescriptorSource] { slots.compactMap(\.source) }

  mutating func insert(_ source: Loop.DescriptorSource) {
    let index: Int
    if let reused = free.popLast() {
      index = reused
    } else {
      index = slots.count
      slots.append(Slot())
    }
    slots[index].source = source
    source.token = UInt64(slots[index].generation) << 32 | (UInt64(index) + Poller.firstSourceToken)
  }

  mutating func remove(_ source: Loop.DescriptorSource) {
    guard source.token != 0 else { return }
    let index = Int(source.token & 0xFFFF_FFFF) - Int(Poller.firstSourceToken)
    source.token = 0
    slots[index].source = nil
    slots[index].generation &+= 1
    free.append(index)
    removals &+= 1
  }

  mutating func noteRemoval() {
    removals &+= 1
  }

  mutating func removeAll() {
    for slot in slots {
      slot.source?.token = 0
      slot.source?.keys = []
    }
    slots = []
    free = []
    removals &+= 1
  }

  @inline(__always)
  func find(_ token: UInt64) -> Loop.DescriptorSource? {
    let index = Int(token & 0xFFFF_FFFF) &- Int(Poller.firstSourceToken)
    guard index < slots.count, slots[index].generation == UInt32(truncatingIfNeeded: token >> 32) else { return nil }
    return slots[index].source
  }
}
