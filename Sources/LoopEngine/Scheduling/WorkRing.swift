/// A queue of blocks in a power-of-two ring that its owner alone touches.
///
/// Positions only grow at the tail and only shrink at the head when older blocks are put back in front, so "everything
/// that was there when I began" is a comparison with the tail of that moment.
struct WorkRing: ~Copyable {
  private(set) var head = 0
  private(set) var tail = 0
  private var mask: Int
  private var slots: UnsafeMutablePointer<WorkItem>

  /// Makes a ring for a number of blocks that is a power of two; it grows.
  init(capacity: Int = 64) {
    mask = capacity - 1
    slots = WorkBuffer.allocate(capacity: capacity)
  }

  var isEmpty: Bool { head == tail }
  var count: Int { tail &- head }

  deinit {
    for position in head..<tail { (slots + (position & mask)).deinitialize(count: 1) }
    WorkBuffer.deallocate(slots, capacity: mask + 1)
  }

  @inline(__always)
  mutating func append(_ item: consuming WorkItem) {
    if tail &- head > mask { grow(to: (mask + 1) * 2) }
    (slots + (tail & mask)).initialize(to: item)
    tail &+= 1
  }

  @inline(__always)
  mutating func popFirst() -> WorkItem {
    let item = (slots + (head & mask)).move()
    head &+= 1
    return item
  }

  /// Puts blocks that are older than all others back in front, keeping their order.
  mutating func prepend(moving older: inout WorkRing) {
    reserve(older.count)
    while !older.isEmpty {
      older.tail &-= 1
      head &-= 1
      (slots + (head & mask)).moveInitialize(from: older.slots + (older.tail & older.mask), count: 1)
    }
  }

  /// Moves blocks out of a flat buffer, which is uninitialized afterwards.
  mutating func append(moving source: UnsafeMutablePointer<WorkItem>, count: Int) {
    reserve(count)
    // At most two runs: up to the end of the ring, then from its beginning.
    let start = tail & mask
    let first = min(count, mask + 1 - start)
    (slots + start).moveInitialize(from: source, count: first)
    slots.moveInitialize(from: source + first, count: count - first)
    tail &+= count
  }

  /// Gives back the memory of a burst, if all of it has run.
  @inline(__always)
  mutating func trim() { if mask >= WorkBuffer.keptCapacity && isEmpty { grow(to: 64) } }

  /// Whether any block satisfies a condition; O(n).
  func contains(where condition: (Int32) -> Bool) -> Bool {
    for position in head..<tail where condition(slots[position & mask].modes) { return true }
    return false
  }

  private mutating func reserve(_ more: Int) {
    guard count + more > mask + 1 else { return }
    var capacity = mask + 1
    while capacity < count + more { capacity *= 2 }
    grow(to: capacity)
  }

  @inline(never)
  private mutating func grow(to capacity: Int) {
    let larger = WorkBuffer.allocate(capacity: capacity)
    for position in head..<tail {
      (larger + (position & (capacity - 1))).moveInitialize(from: slots + (position & mask), count: 1)
    }
    WorkBuffer.deallocate(slots, capacity: mask + 1)
    slots = larger
    mask = capacity - 1
  }
}
