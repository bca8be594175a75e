import Synchronization

/// What a loop knows about one mode; mode 0 represents what was added to the common modes as a set.
///
/// Touched by the loop's thread alone, but for what says otherwise. Timers are kept apart for each mode and for the common set, so that a common
/// timer is in one heap however many modes are common, and reaches a mode that becomes common later without being
/// moved.
final class ModeState: @unchecked Sendable {
  // @unchecked: other threads read what is atomic or constant.
  let id: Int32
  let text: ImmortalText
  private let common: Atomic<Bool>
  var isCommon: Bool {
    get { common.load(ordering: .relaxed) }
    set { common.store(newValue, ordering: .relaxed) }
  }
  /// Behind a pointer, so that it can be reached without counting references to this object.
  let timers: UnsafeMutablePointer<TimerHeap>
  private let publishedDeadline: UnsafeMutablePointer<Atomic<Int64>>
  /// The earliest deadline of the timers, `.max` if there is none; for any thread.
  var firstDeadline: Int64 { publishedDeadline.pointee.load(ordering: .relaxed) }
  /// Signalled and descriptor sources that were added to exactly this mode.
  @exclusivity(unchecked) var sourceCount = 0
  /// Of those that were added to the common modes, how many were taken out of this one.
  @exclusivity(unchecked) var exceptedSources = 0
  @exclusivity(unchecked) var poller = Poller()
  /// The observers of this mode in calling order, as of `observerGeneration`.
  @exclusivity(unchecked) var observers: UnsafeMutableBufferPointer<ObserverEntry>
  @exclusivity(unchecked) var observerMask: UInt = 0
  /// Whether an observer would notice a wait.
  @exclusivity(unchecked) var hasWaitingObservers = false
  @exclusivity(unchecked) var watchesMainQueue = false
  @exclusivity(unchecked) var observerGeneration: UInt = 0

  init(id: Int32, text: ImmortalText) {
    self.id = id
    self.text = text
    common = Atomic(id == Loop.Mode.default.id)
    timers = .allocate(capacity: 1)
    publishedDeadline = .allocate(capacity: 1)
    publishedDeadline.initialize(to: Atomic(.max))
    timers.initialize(to: TimerHeap(publishingIn: publishedDeadline))
    observers = .init(start: nil, count: 0)
  }

  deinit {
    timers.deinitialize(count: 1)
    timers.deallocate()
    publishedDeadline.deinitialize(count: 1)
    publishedDeadline.deallocate()
    for entry in observers { entry.observer.release() }
    observers.deallocate()
  }
}
