import CLinux
import PlatformLibc
import Synchronization

/// A run loop: one per thread, asleep in epoll until there is something to do.
///
/// The semantics are CoreFoundation's (modes, observers, timers, sources, blocks, nested runs), the costs are those of
/// a bare epoll loop.
/// Unless a member says "on the loop's thread only", it is safe on any thread: only the loop's thread changes what
/// belongs to the loop. Other threads queue a request, and wake the loop if there is then something to serve.
///
/// - Important: A loop ends with its thread. Work that had not run by then is released without being run, and later
///   posts are refused.
public final class Loop: @unchecked Sendable {
  // Many stored properties, and not objects of their own: a pass reads most of them, and each indirection would cost every pass.
  // @unchecked: the variables below are touched by the loop's thread alone ("owner-confined"); what other threads
  // reach is atomic, or has a lock of its own, as `inbox`, `knownModes`, `memberships` and `lateJobs`.

  let published = PublishedState()
  let inbox = Inbox()
  /// All modes, for other threads.
  let knownModes = Guarded(KnownModes())
  let memberships = Guarded(Memberships())
  let stopRequested = Atomic<Bool>(false)
  /// Ends every run, present and future.
  let isTerminated = Atomic<Bool>(false)
  let counters = LoopCounters()
  /// The jobs that come when the loop's thread has ended.
  let lateJobs = LateJobs()
  let isMain: Bool
  /// Whether this is the main thread's loop, in a program that has a main dispatch queue.
  let hasMainQueue: Bool

  // MARK: Owner-confined

  /// Changes that other threads have asked for, and how many of them are made or being made.
  @exclusivity(unchecked) private var changes: [() -> Void] = []
  @exclusivity(unchecked) private var madeChanges = 0
  @exclusivity(unchecked) var ring = WorkRing()
  /// Blocks for modes other than the current one, older than all in `ring`.
  @exclusivity(unchecked) var parked = WorkRing(capacity: 4)
  @exclusivity(unchecked) var pendingWork: [ObjectIdentifier: Work] = [:]
  @exclusivity(unchecked) var idleWork = WorkRing(capacity: 4)
  @exclusivity(unchecked) var markedFlushPoints: [FlushPoint] = []
  /// Whether there may be idle work or a marked flush point: what most passes ask.
  @exclusivity(unchecked) var mayHaveQuietWork = false
  /// By mode number; most have none.
  @exclusivity(unchecked) var modes: [ModeState?] = []
  let commonItems: ModeState
  /// Timers that are in the common modes one by one; never run in.
  let spreadItems: ModeState
  /// Unretained: modes live as long as the loop.
  @exclusivity(unchecked) var current: Unmanaged<ModeState>?
  /// `modes` without its reference counting.
  @exclusivity(unchecked) var modeTable = UnsafeMutableBufferPointer<Unmanaged<ModeState>?>(start: nil, count: 0)
  let commonTimers: UnsafeMutablePointer<TimerHeap>
  /// The timer that was taken out last, still retained: a timeout that is put back is spared two atomic operations.
  @exclusivity(unchecked) var spareTimer: Unmanaged<Timer>?
  @exclusivity(unchecked) var depth = 0
  /// Whether the outermost run is for what is left to an ending thread.
  @exclusivity(unchecked) var isDraining = false
  /// Counts runs, so that a pass can see that a callout ran the loop.
  @exclusivity(unchecked) var runCount: UInt = 0

  @exclusivity(unchecked) var observers: [Observer] = []
  @exclusivity(unchecked) var observerGeneration: UInt = 1
  @exclusivity(unchecked) var observerDepth = 0
  @exclusivity(unchecked) var retiredTables: [UnsafeMutableBufferPointer<ObserverEntry>] = []

  /// Insertions of observers, timers and signals, in order.
  @exclusivity(unchecked) var nextSequence: UInt = 0
  /// Timers added while others fire must wait for the next pass: their heap position is after this time.
  @exclusivity(unchecked) var firingLimit = Int64.min
  /// The timer that fires now, and those whose closures run the loop in which it does.
  @exclusivity(unchecked) var firingTimer: Unmanaged<Timer>?
  @exclusivity(unchecked) var outerFiringTimers: [Unmanaged<Timer>] = []

  @exclusivity(unchecked) var sources: [ObjectIdentifier: Source] = [:]
  @exclusivity(unchecked) var signalledSources = SignalledSources()
  @exclusivity(unchecked) var descriptors = DescriptorTable()

  /// What epoll writes to: one buffer for the outermost run, others for nested ones.
  let eventBuffer = UnsafeMutablePointer<epoll_event>.allocate(capacity: eventCapacity)
  @exclusivity(unchecked) var nestedEventBuffers: [UnsafeMutablePointer<epoll_event>] = []
  static var eventCapacity: Int { 64 }

  @exclusivity(unchecked) var timerDescriptor: Int32 = -1
  /// When the timerfd rings, `.max` when it does not.
  @exclusivity(unchecked) var armedDeadline = Int64.max
  @exclusivity(unchecked) var forkCount = clinux_loop_fork_count()
  @exclusivity(unchecked) var mainQueueDescriptor: Int32 = -1
  @exclusivity(unchecked) var isServingMainQueue = false
  /// A run nested in the main queue saw it ready.
  @exclusivity(unchecked) var mainQueueIsPending = false

  init(isMain: Bool) {
    self.isMain = isMain
    hasMainQueue = isMain && MainQueue.isAvailable
    commonItems = ModeState(id: Mode.common.id, text: ModeNames.text(of: Mode.common.id))
    spreadItems = ModeState(id: Timer.spreadKey, text: commonItems.text)
    commonTimers = commonItems.timers
    if isMain { published.presetThreadID(getpid()) }
    _ = makeMode(Mode.default.id)
    _ = ensureWakeDescriptor()
  }

  deinit {
    for table in retiredTables { table.deallocate() }
    modeTable.deallocate()
    eventBuffer.deallocate()
    for buffer in nestedEventBuffers { buffer.deallocate() }
  }

  // MARK: Identity

  /// The loop of the calling thread: created on first use, ended when the thread exits.
  public static var current: Loop {
    if let known = clinux_loop_get_current() { return Unmanaged<Loop>.fromOpaque(known).takeUnretainedValue() }
    return LoopThread.makeCurrent()
  }

  /// The loop of the process's main thread, from any thread.
  public static var main: Loop {
    if clinux_loop_get_current() == nil && LoopThread.isMain { return LoopThread.makeCurrent() }
    return LoopThread.main
  }

  /// The kernel's ID of the loop's thread.
  ///
  /// Lock-free.
  public var threadID: Int32 { published.threadID }

  /// Whether the calling thread is the loop's.
  ///
  /// Also while that thread ends, and the loop with it.
  public var isCurrent: Bool { isOwnerOrNow || published.hasEndedHere }

  /// Whether the loop sleeps for events.
  ///
  /// Lock-free, never blocks, whatever the loop's thread does.
  public var isWaiting: Bool { published.isWaiting }

  /// Whether the loop's thread has ended.
  ///
  /// Lock-free.
  public var hasEnded: Bool { published.hasEnded }

  /// What the loop is doing now.
  ///
  /// Lock-free, allocates nothing, never blocks, whatever the loop's thread does or holds.
  ///
  /// The parts are read one after the other: only the callout is consistent in itself.
  public var snapshot: Snapshot {
    Snapshot(
      isWaiting: published.isWaiting, callout: published.callout, hasEnded: published.hasEnded,
      modeText: published.modeText)
  }

  @inline(__always)
  var isOwner: Bool { UInt(clinux_thread_pointer()) == published.owner.load(ordering: .relaxed) }

  /// The same, also for a main loop that only other threads have asked for so far: it is the calling thread's from now on.
  @inline(__always)
  var isOwnerOrNow: Bool { isOwner || isOwnerNow() }

  @inline(never)
  private func isOwnerNow() -> Bool {
    guard isMain, clinux_loop_get_current() == nil, LoopThread.isMain else { return false }
    return LoopThread.makeCurrent() === self
  }

  /// Whether the calling thread is the loop's; false at that thread's end, when there is nothing left to ask for.
  ///
  /// Traps on any other thread.
  @inline(__always)
  func requireOwner(_ function: StaticString = #function) -> Bool { isOwner || requireOwnerSlowly(function) }

  @inline(never)
  private func requireOwnerSlowly(_ function: StaticString) -> Bool {
    if isOwnerNow() { return true }
    precondition(published.hasEndedHere, "Loop.\(function) must be called on the loop's thread")
    return false
  }

  // MARK: Changes from other threads

  /// Makes a change at once on the loop's thread, and soon from any other.
  ///
  /// False when the loop's thread has ended.
  @discardableResult
  func change(waking: Bool = true, _ body: @escaping () -> Void) -> Bool {
    if isOwner {
      noticeFork()
      absorb()
      body()
      return true
    }
    return inbox.post(control: body, waking: waking)
  }

  /// Takes what other threads have left: changes are made, blocks queue up.
  @inline(__always)
  func absorb() {
    assertOwner()
    if inbox.mayHaveWork { absorbSlowly() }
  }

  /// Whether a change that another thread has asked for is still to be made.
  @inline(__always)
  var hasUnmadeChanges: Bool { inbox.mayHaveChanges || !changes.isEmpty }

  @inline(never)
  private func absorbSlowly() {
    assertOwner()
    noticeFork()
    let fresh = inbox.collect(into: &ring)
    if fresh.isEmpty { return }
    // A change may call out (a source is notified when it is added), and the callee may come here for later ones: all are
    // made in the order of their arrival.
    if changes.isEmpty { changes = fresh } else { changes += fresh }
    while madeChanges < changes.count {
      let change = changes[madeChanges]
      madeChanges += 1
      change()
    }
    changes = []
    madeChanges = 0
  }

  @inline(__always)
  func takeSequence() -> UInt {
    assertOwner()
    nextSequence &+= 1
    return nextSequence
  }
}
