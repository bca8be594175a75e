/// Timers of one mode by deadline: a heap of four children, whose nodes share a cache line.
///
/// Insertion and removal from any place are O(log n), and O(1) for the common case of a time-out that is cancelled
/// before its turn: it enters at the bottom and leaves from there.
struct TimerHeap: ~Copyable {
  struct Entry {
    var deadline: Int64
    var timer: Unmanaged<Loop.Timer>
  }

  let key: Int32
  private(set) var count = 0
  private var capacity = 0
  /// Aligned so that the children 4i+1…4i+4 begin a cache line: see `allocate`.
  private var entries = UnsafeMutablePointer<Entry>(bitPattern: 16)!
  private var memory: UnsafeMutableRawPointer?
  /// How many timers in here have a tolerance; without any, the earliest deadline is the time to wake.
  var tolerantCount = 0

  init(key: Int32) {
    self.key = key
  }

  deinit {
    memory?.deallocate()
  }

  @inline(__always)
  var firstDeadline: Int64 { count == 0 ? .max : entries[0].deadline }
  @inline(__always)
  var first: Unmanaged<Loop.Timer> { entries[0].timer }

  @inline(__always)
  mutating func insert(_ timer: Unmanaged<Loop.Timer>, deadline: Int64) {
    if count == capacity { grow() }
    count &+= 1
    siftUp(count &- 1, Entry(deadline: deadline, timer: timer))
  }

  /// Takes the timer at a position out.
  @inline(__always)
  mutating func remove(at index: Int) {
    count &-= 1
    if index == count { return }
    let moved = entries[count]
    if index > 0 && precedes(moved, entries[(index &- 1) >> 2]) {
      siftUp(index, moved)
    } else {
      siftDown(index, moved)
    }
  }

  /// Gives the timer at a position another deadline.
  mutating func move(at index: Int, to deadline: Int64) {
    var entry = entries[index]
    entry.deadline = deadline
    if index > 0 && precedes(entry, entries[(index &- 1) >> 2]) {
      siftUp(index, entry)
    } else {
      siftDown(index, entry)
    }
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
    let timer = entries[index].timer
    let tolerance = timer._withUnsafeGuaranteedRef { $0.toleranceNanoseconds }
    best = min(best, entries[index].deadline.addingSaturated(tolerance))
    for child in (4 * index + 1)...(4 * index + 4) { visit(child, &best) }
  }

  /// All timers, in no order.
  func all() -> [Unmanaged<Loop.Timer>] {
    (0..<count).map { entries[$0].timer }
  }

  // MARK: The heap

  @inline(__always)
  private func precedes(_ left: Entry, _ right: Entry) -> Bool {
    if left.deadline != right.deadline { return left.deadline < right.deadline }
    // Equal deadlines fire in the order of insertion.
    return left.timer._withUnsafeGuaranteedRef { $0.sequence } < right.timer._withUnsafeGuaranteedRef { $0.sequence }
  }

  @inline(__always)
  private func place(_ entry: Entry, at index: Int) {
    entries[index] = entry
    entry.timer._withUnsafeGuaranteedRef { $0.setHeapIndex(index, key: key) }
  }

  @inline(__always)
  private mutating func siftUp(_ start: Int, _ entry: Entry) {
    var index = start
    while index > 0 {
      let parent = (index &- 1) >> 2
      if !precedes(entry, entries[parent]) { break }
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
      var best = firstChild
      let end = min(firstChild &+ 4, count)
      var child = firstChild &+ 1
      while child < end {
        if precedes(entries[child], entries[best]) { best = child }
        child &+= 1
      }
      if !precedes(entries[best], entry) { break }
      place(entries[best], at: index)
      index = best
    }
    place(entry, at: index)
  }

  @inline(never)
  private mutating func grow() {
    let larger = capacity == 0 ? 15 : capacity * 2
    // Three entries of slack before the root put entry 1 on a cache line's beginning.
    let raw = UnsafeMutableRawPointer.allocate(byteCount: (larger + 3) * 16, alignment: 64)
    let target = (raw + 48).bindMemory(to: Entry.self, capacity: larger)
    target.moveInitialize(from: entries, count: count)
    memory?.deallocate()
    memory = raw
    entries = target
    capacity = larger
  }
}
