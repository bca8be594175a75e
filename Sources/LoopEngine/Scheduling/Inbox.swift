import CLinux
import PlatformLibc
import Synchronization

/// Where other threads leave work for a loop, and how they wake it.
///
/// One word-sized lock covers the blocks and the sleeping flag together, so a post is one locked instruction, and a
/// burst of posts to a sleeping loop is one write to its eventfd. The loop's thread holds the lock for a swap of two
/// pointers, never across a callout or a system call.
///
/// Accesses to its atomic words under the lock are relaxed, as the lock orders them. Those without it say why they may be relaxed.
/// `Tests/Models/inbox.pml` is a model of posting and sleeping.
final class Inbox: @unchecked Sendable {
  // @unchecked: the mutable fields are touched only under `lock`; that is what the rest of this file shows.
  private let lock = BriefLock()
  @exclusivity(unchecked) private var buffer: UnsafeMutablePointer<WorkItem>
  @exclusivity(unchecked) private var count = 0
  @exclusivity(unchecked) private var capacity = 64
  @exclusivity(unchecked) private var spare: UnsafeMutablePointer<WorkItem>
  @exclusivity(unchecked) private var spareCapacity = 64
  /// What other threads want done to the loop's own structures: before any block, whatever the mode.
  @exclusivity(unchecked) private var controls: [() -> Void] = []
  @exclusivity(unchecked) private var isClosed = false
  @exclusivity(unchecked) private var wakePending = false
  /// Whether the loop sleeps or is about to; set under the lock, and cleared without it by the loop, which costs at
  /// most a spare wake-up.
  private let sleeping = Atomic<Bool>(false)
  /// A hint that spares the loop the lock on most passes.
  private let hasWork = Atomic<Bool>(false)
  /// How many threads are changing an item of the loop's and have not yet left word of it.
  private let announced = Atomic<Int>(0)
  /// The word that a loop without descriptors sleeps on (see ``Poller``).
  let sleepWord = Atomic<UInt32>(0)
  /// Closed when the last reference to the loop goes, and not with its thread: a poster may be about to write to it.
  let wakeDescriptor = Atomic<Int32>(-1)

  /// What a fork on the loop's thread waits for.
  var lockWord: UnsafeMutablePointer<UInt32> { lock.address }

  init() {
    buffer = WorkBuffer.allocate(capacity: 64)
    spare = WorkBuffer.allocate(capacity: 64)
  }

  deinit {
    buffer.deinitialize(count: count)
    WorkBuffer.deallocate(buffer, capacity: capacity)
    WorkBuffer.deallocate(spare, capacity: spareCapacity)
    // Relaxed: nobody else has a reference.
    let descriptor = wakeDescriptor.load(ordering: .relaxed)
    if descriptor >= 0 { PlatformLibc.close(descriptor) }
  }

  // MARK: Any thread

  /// Leaves a block and wakes the loop.
  ///
  /// False, and the block is released, when the loop's thread has ended.
  @inline(__always)
  func post(_ item: consuming WorkItem) -> Bool {
    lock.lock()
    let position = count
    // A closed inbox has no space.
    if position == capacity && !makeSpace() {
      lock.unlock()
      return false
    }
    (buffer + position).initialize(to: item)
    count = position &+ 1
    // A loop does not sleep while there are blocks: the first has woken it.
    if position == 0 { return unlockAfterFirst() }
    lock.unlock()
    return true
  }

  @inline(never)
  private func unlockAfterFirst() -> Bool {
    hasWork.store(true, ordering: .relaxed)
    let mustSignal = sleeping.load(ordering: .relaxed)
    if mustSignal { sleeping.store(false, ordering: .relaxed) }
    lock.unlock()
    if mustSignal { signal() }
    return true
  }

  /// Leaves a change of the loop's structures, which is made before the next block.
  ///
  /// False when the loop's thread has ended.
  func post(control: @escaping () -> Void, waking: Bool) -> Bool {
    lock.lock()
    if isClosed {
      lock.unlock()
      return false
    }
    controls.append(control)
    hasWork.store(true, ordering: .relaxed)
    let mustSignal = waking && sleeping.load(ordering: .relaxed)
    if mustSignal { sleeping.store(false, ordering: .relaxed) }
    lock.unlock()
    if mustSignal { signal() }
    return true
  }

  /// An item is about to be changed, for which a change of the loop's structures will be left.
  func announceChange() { announced.wrappingAdd(1, ordering: .sequentiallyConsistent) }

  /// It has been left.
  // Releasing, after the change is left: a loop that finds no announcement finds the change (see `mayHaveChanges`).
  func announcedChangeIsLeft() { announced.wrappingSubtract(1, ordering: .releasing) }

  /// Whether the loop sleeps, or is about to without another check for work.
  var isAsleep: Bool {
    lock.lock()
    defer { lock.unlock() }
    return sleeping.load(ordering: .relaxed)
  }

  /// Ends the present or the next sleep.
  func wake() {
    lock.lock()
    let mustSignal = sleeping.load(ordering: .relaxed)
    if mustSignal {
      sleeping.store(false, ordering: .relaxed)
    } else {
      wakePending = true
    }
    lock.unlock()
    if mustSignal { signal() }
  }

  private func signal() {
    // Releasing and acquiring in pairs with those of a loop that sleeps without descriptors, and of one that has made its own.
    sleepWord.wrappingAdd(1, ordering: .releasing)
    let descriptor = wakeDescriptor.load(ordering: .acquiring)
    if descriptor >= 0 {
      // The counter is never read (the poller watches for edges) and cannot overflow in a lifetime.
      _ = eventfd_write(descriptor, 1)
    } else {
      withUnsafePointer(to: sleepWord) { _ = clinux_futex_wake($0, 1) }
    }
  }

  // MARK: The loop's thread

  /// Whether there may be something to collect.
  // Relaxed: a loop that misses it asks again under the lock before it sleeps.
  @inline(__always)
  var mayHaveWork: Bool { hasWork.load(ordering: .relaxed) }

  /// Whether an item of the loop's may be another than the loop's structures say.
  @inline(__always)
  var mayHaveChanges: Bool {
    // In this order: who is done with announcing has left word of it.
    announced.load(ordering: .acquiring) != 0 || mayHaveWork
  }

  /// Moves all blocks to the end of a ring, and hands over the changes to make first.
  func collect(into ring: inout WorkRing) -> [() -> Void] {
    lock.lock()
    // What keeps later posts out must stay.
    if isClosed {
      hasWork.store(false, ordering: .relaxed)
      lock.unlock()
      return []
    }
    let taken = buffer
    let takenCount = count
    let takenCapacity = capacity
    buffer = spare
    capacity = spareCapacity
    count = 0
    var changes: [() -> Void] = []
    if !controls.isEmpty { swap(&changes, &controls) }
    hasWork.store(false, ordering: .relaxed)
    lock.unlock()
    ring.append(moving: taken, count: takenCount)
    // No lock: the spare belongs to the loop's thread.
    if takenCapacity <= WorkBuffer.keptCapacity {
      spare = taken
      spareCapacity = takenCapacity
    } else {
      WorkBuffer.deallocate(taken, capacity: takenCapacity)
      spare = WorkBuffer.allocate(capacity: 64)
      spareCapacity = 64
    }
    return changes
  }

  /// Announces sleep.
  ///
  /// False when there is a reason not to: work, or a wake-up since the last sleep.
  @inline(__always)
  func prepareToSleep() -> Bool {
    lock.lock()
    let mustStayAwake = hasWork.load(ordering: .relaxed) || wakePending
    wakePending = false
    if !mustStayAwake { sleeping.store(true, ordering: .relaxed) }
    lock.unlock()
    return !mustStayAwake
  }

  @inline(__always)
  func finishSleep() {
    // Relaxed: a poster that still reads true wakes a loop that is awake, and no later `prepareToSleep` comes before it, as stores of one
    // thread to one word keep their order.
    sleeping.store(false, ordering: .relaxed)
  }

  /// Refuses further blocks and releases those that are there.
  ///
  /// False, and open as before, if there are changes to be made first.
  func close() -> Bool {
    lock.lock()
    if !controls.isEmpty {
      lock.unlock()
      return false
    }
    isClosed = true
    let dropped = buffer
    let droppedCount = count
    let droppedCapacity = capacity
    buffer = WorkBuffer.allocate(capacity: 1)
    capacity = 0
    count = 0
    lock.unlock()
    // Outside of the lock: what a closure releases may post again.
    dropped.deinitialize(count: droppedCount)
    WorkBuffer.deallocate(dropped, capacity: droppedCapacity)
    return true
  }

  /// In the child of a fork, where other threads, and so any holder of the lock, are gone.
  func recoverFromFork() {
    lock.reset()
    // Relaxed: the child has one thread.
    sleeping.store(false, ordering: .relaxed)
    announced.store(0, ordering: .relaxed)
    let inherited = wakeDescriptor.exchange(-1, ordering: .relaxed)
    LoopDescriptorKind.event.closeInherited(inherited)
  }

  /// Grows the full buffer; false if the inbox is closed.
  @inline(never)
  private func makeSpace() -> Bool {
    if isClosed { return false }
    let larger = WorkBuffer.allocate(capacity: capacity * 2)
    larger.moveInitialize(from: buffer, count: count)
    WorkBuffer.deallocate(buffer, capacity: capacity)
    buffer = larger
    capacity *= 2
    return true
  }
}
