/// What a loop knows about one mode; mode 0 stands for what was added to the common modes as a set.
///
/// Touched by the loop's thread alone. Timers are kept apart for each mode and for the common set, so that a common
/// timer is in one heap however many modes are common, and reaches a mode that becomes common later without being
/// moved.
final class ModeState {
  let id: Int32
  let text: ImmortalText
  @exclusivity(unchecked) var isCommon: Bool
  /// Behind a pointer, so that it can be reached without counting references to this object.
  let timers: UnsafeMutablePointer<TimerHeap>
  /// Signalled and descriptor sources that were added to exactly this mode.
  @exclusivity(unchecked) var sourceCount = 0
  @exclusivity(unchecked) var poller = Poller()
  /// The observers of this mode in calling order, as of `observerGeneration`.
  @exclusivity(unchecked) var observers: UnsafeMutableBufferPointer<ObserverEntry>
  @exclusivity(unchecked) var observerMask: UInt = 0
  /// Whether anybody but the monitor could tell a wait from none.
  @exclusivity(unchecked) var hasWaitingObservers = false
  @exclusivity(unchecked) var watchesMainQueue = false
  @exclusivity(unchecked) var observerGeneration: UInt = 0

  init(id: Int32, text: ImmortalText) {
    self.id = id
    self.text = text
    isCommon = id == Loop.Mode.default.id
    timers = .allocate(capacity: 1)
    timers.initialize(to: TimerHeap())
    observers = .init(start: nil, count: 0)
  }

  deinit {
    timers.deinitialize(count: 1)
    timers.deallocate()
    for entry in observers { entry.observer.release() }
    observers.deallocate()
  }
}
