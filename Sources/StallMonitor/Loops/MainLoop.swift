import CLinux
import PlatformLibc
import Synchronization
import TurnSource

/// The loop of the main thread that announces itself (`Loop.main`), if the process ever makes it.
///
/// The watch of the main thread begins without it: the thread may have another run loop, or none.
final class MainLoop: Sendable {
  private struct State {
    var observer: MainTurnSourceObserver?
    var stamping: LoopStamping?
    var hasEnded = false
  }

  private let registry: LoopRegistry
  private let stamper: TurnStamper
  private let state = Mutex(State())
  private let isThreadPrepared = Atomic<Bool>(false)
  private let found = AtomicLazyReference<TurnMeter>()

  init(registry: LoopRegistry, stamper: TurnStamper) {
    self.registry = registry
    self.stamper = stamper
  }

  /// Stamps the loop's turns from now on, or from the moment when something makes the loop.
  func begin() {
    if clinux_gettid() == getpid() {
      ThreadEnd.prepareForCapture()
      isThreadPrepared.store(true, ordering: .releasing)
    }
    let observer = MainTurnSourceObserver { [self] in stamp($0) }
    state.withLock { $0.observer = observer }
    TurnSourceRegistry.observeMain(observer)
  }

  /// Ends the stamping.
  func end() {
    let ended = state.withLock { state in
      defer { state = State(hasEnded: true) }
      return state
    }
    if let observer = ended.observer { TurnSourceRegistry.endObservation(by: observer) }
    ended.stamping?.end()
  }

  private func stamp(_ loop: any TurnSource) {
    // The child of a fork has a loop of its own and is not watched.
    guard registry.isInOwnProcess else { return }
    _ = found.storeIfNil(TurnMeter(of: loop, isRead: registry.countsTurns))
    registry.addMain(.loop(ObjectIdentifier(loop)))
    if loop.isCurrent {
      ThreadEnd.prepareForCapture()
    } else if !isThreadPrepared.load(ordering: .acquiring) {
      _ = loop.performInTurn { ThreadEnd.prepareForCapture() }
    }
    let stamping = LoopStamping(of: loop, by: stamper)
    let hasEnded = state.withLock { state in
      state.stamping = stamping
      return state.hasEnded
    }
    if hasEnded { stamping.end() }
  }

  // MARK: Any thread, without a lock

  /// What the loop is doing, if the thread's innermost run is the loop's.
  var status: (mode: String?, callout: String?) {
    guard stamper.kind == .loop, let loop = found.load()?.loop else { return (nil, nil) }
    return loop.turnStatus
  }

  /// Where the loop's turns are counted; nil until something makes the loop.
  var meter: TurnMeter? { found.load() }
}
