import CLinux
import Synchronization

/// Timers of one mode by deadline: a heap of four children, whose nodes share a cache line.
///
/// Insertion and removal from any place are O(log n), and O(1) for the common case of a timeout that is cancelled
/// before its turn: it enters at the bottom and leaves from there.
/// A timer is known by its slot, which does not change while it is in here: what moves in the heap is noted in a table of
/// four bytes a timer. The timers themselves, scattered over the memory, are touched only when they fire, and to read tolerances.
struct TimerHeap: ~Copyable {
  /// The deadline, the number of the insertion and the slot in one integer: two comparisons with no jump between them, where
  /// the processor could not foresee it.
  private struct Entry {
    private static let slotBits = 28
    static let slotLimit = 1 << slotBits
    private let order: Int128

    @inline(__always)
    init(deadline: Int64, sequence: UInt64, slot: Int32) {
      order = Int128(deadline) << 64 | Int128(sequence << Self.slotBits | UInt64(UInt32(bitPattern: slot)))
    }

    @inline(__always)
    var deadline: Int64 { Int64(truncatingIfNeeded: order >> 64) }
    @inline(__always)
    var slot: Int { Int(truncatingIfNeeded: order) & (Self.slotLimit - 1) }

    /// Equal deadlines fire in the order of insertion.
    @inline(__always)
    func precedes(_ other: Entry) -> Bool { order < other.order }
  }

  /// The slot of a timer that is in no heap.
  static let noSlot: Int32 = -1

  // Apart from the heap, which its owner changes while other threads read this.
  private let published: UnsafeMutablePointer<Atomic<Int64>>
  private(set) var count = 0
  private var capacity = 0
  /// Aligned so that the children 4i+1…4i+4 begin a cache line: see `grow`.
  private var entries = UnsafeMutablePointer<Entry>(bitPattern: 16)!
  private var memory: UnsafeMutableRawPointer?
  // By slot: where its entry is, or the next free slot; and the timer.
  private var positions = UnsafeMutablePointer<Int32>(bitPattern: 16)!
  private var timers = UnsafeMutablePointer<Unmanaged<Loop.Timer>>(bitPattern: 16)!
  private var freeSlot = noSlot
  private var sequence: UInt64 = 0
  /// How many timers in here have a tolerance; without any, the earliest deadline is the time to wake.
  var tolerantCount = 0

  /// Makes an empty heap that keeps its earliest deadline in `published`, which must outlive it.
  init(publishingIn published: UnsafeMutablePointer<Atomic<Int64>>) { self.published = published }

  deinit {
    guard capacity > 0 else { return }
    memory?.deallocate()
    positions.deallocate()
    timers.deallocate()
  }

  /// The earliest deadline, `.max` if there is none.
  @inline(__always)
  var firstDeadline: Int64 { published.pointee.load(ordering: .relaxed) }
  @inline(__always)
  var first: Unmanaged<Loop.Timer> { timers[entries[0].slot] }

  /// Adds a timer, and returns its slot.
  @inline(__always)
  mutating func insert(_ timer: Unmanaged<Loop.Timer>, deadline: Int64) -> Int32 {
    if count == capacity { grow() }
    let slot = freeSlot
    freeSlot = positions[Int(slot)]
    timers[Int(slot)] = timer
    sequence &+= 1
    count &+= 1
    if deadline < firstDeadline { published.pointee.store(deadline, ordering: .relaxed) }
    siftUp(count &- 1, Entry(deadline: deadline, sequence: sequence, slot: slot))
    return slot
  }

  /// Takes the timer of a slot out.
  @inline(__always)
  mutating func remove(slot: Int32) {
    let index = Int(positions[Int(slot)])
    positions[Int(slot)] = freeSlot
    freeSlot = slot
    count &-= 1
    if index == count {
      if index == 0 { published.pointee.store(.max, ordering: .relaxed) }
      return
    }
    let moved = entries[count]
    if index > 0 && moved.precedes(entries[(index &- 1) >> 2]) {
      siftUp(index, moved)
    } else {
      siftDown(index, moved)
      if index == 0 { published.pointee.store(entries[0].deadline, ordering: .relaxed) }
    }
  }

  /// Releases all timers and their memory.
  mutating func removeAll() {
    guard capacity > 0 else { return }
    published.pointee.store(.max, ordering: .relaxed)
    memory?.deallocate()
    positions.deallocate()
    timers.deallocate()
    (count, capacity, tolerantCount, memory, freeSlot) = (0, 0, 0, nil, Self.noSlot)
  }

  /// The latest time to wake so that no timer is later than its tolerance allows.
  ///
  /// Visits only timers whose deadline lies before that time: those that the wake-up will serve.
  func wakeTime() -> Int64 {
    if tolerantCount == 0 { return firstDeadline }
    var best = Int64.max
    visit(0, &best)
    return best
  }

  private func visit(_ index: Int, _ best: inout Int64) {
    guard index < count, entries[index].deadline < best else { return }
    let tolerance = timers[entries[index].slot]._withUnsafeGuaranteedRef { $0.toleranceNanoseconds }
    best = min(best, entries[index].deadline.addingSaturated(tolerance))
    for child in (4 * index + 1)...(4 * index + 4) { visit(child, &best) }
  }

  /// All timers, in no order.
  func all() -> [Unmanaged<Loop.Timer>] {
    (0..<count).map { timers[entries[$0].slot] }
  }

  // MARK: The heap

  @inline(__always)
  private func place(_ entry: Entry, at index: Int) {
    entries[index] = entry
    positions[entry.slot] = Int32(truncatingIfNeeded: index)
  }

  @inline(__always)
  private mutating func siftUp(_ start: Int, _ entry: Entry) {
    var index = start
    while index > 0 {
      let parent = (index &- 1) >> 2
      if !entry.precedes(entries[parent]) { break }
      place(entries[parent], at: index)
      index = parent
    }
    place(entry, at: index)
  }

  private mutating func siftDown(_ start: Int, _ entry: Entry) {
    var index = start
    while true {
      let firstChild = 4 &* index &+ 1
      if firstChild >= count { break }
      let best = earliestChild(from: firstChild)
      if !entries[best].precedes(entry) { break }
      // It comes near the root, so its timer fires soon.
      if index < 5 {
        let timer = timers[entries[best].slot].toOpaque()
        clinux_prefetch(timer)
        // Its last bytes may lie in a third line, and what free() reads behind it.
        clinux_prefetch_for_reading(timer + 120)
      }
      place(entries[best], at: index)
      index = best
    }
    place(entry, at: index)
  }

  @inline(__always)
  private func earliestChild(from first: Int) -> Int {
    if first &+ 3 < count {
      let left = entries[first &+ 1].precedes(entries[first]) ? first &+ 1 : first
      let right = entries[first &+ 3].precedes(entries[first &+ 2]) ? first &+ 3 : first &+ 2
      return entries[right].precedes(entries[left]) ? right : left
    }
    var best = first
    var child = first &+ 1
    while child < count {
      if entries[child].precedes(entries[best]) { best = child }
      child &+= 1
    }
    return best
  }

  @inline(never)
  private mutating func grow() {
    let larger = capacity == 0 ? 15 : capacity * 2
    precondition(larger < Entry.slotLimit, "more timers than a loop can have")
    // Three entries of slack before the root put entry 1 on a cache line's beginning.
    let raw = UnsafeMutableRawPointer.allocate(byteCount: (larger + 3) * 16, alignment: 64)
    let newEntries = (raw + 48).bindMemory(to: Entry.self, capacity: larger)
    let newPositions = UnsafeMutablePointer<Int32>.allocate(capacity: larger)
    let newTimers = UnsafeMutablePointer<Unmanaged<Loop.Timer>>.allocate(capacity: larger)
    if capacity > 0 {
      newEntries.moveInitialize(from: entries, count: capacity)
      newPositions.moveInitialize(from: positions, count: capacity)
      newTimers.moveInitialize(from: timers, count: capacity)
      memory?.deallocate()
      positions.deallocate()
      timers.deallocate()
    }
    memory = raw
    entries = newEntries
    positions = newPositions
    timers = newTimers
    // It grows when no slot is free.
    for slot in capacity..<larger { positions[slot] = slot + 1 < larger ? Int32(slot + 1) : Self.noSlot }
    freeSlot = Int32(capacity)
    capacity = larger
  }
}
