import CLinux
import CUnwind
import StallReport
import Synchronization
import TurnSource

/// One more loop that a monitor watches, by its name.
///
/// Made by ``StallMonitor/watch(_:name:threshold:)`` and its like. The loop is watched until ``stop()``, the end of its thread, or
/// the end of the monitor, whether or not this is kept. Thread-safe.
public final class LoopWatch: Sendable {
  /// The loop's name in reports.
  public let name: String
  /// How long a turn of the loop may take before it is a stall.
  ///
  /// The value when the watch began. If the loop has no threshold of its own, the agent can change it
  /// later; ``StallMonitor/watchedLoops`` has the current one.
  public let threshold: Duration
  let hasOwnThreshold: Bool

  let publication: LoopPublication
  private let registry: LoopRegistry

  private enum State {
    /// The loop's thread has not turned up yet.
    case expected
    /// The closure ends the stamping.
    case watched(end: @Sendable () -> Void)
    case over
  }

  private let state = Mutex(State.expected)

  init(
    name: String, threshold: Duration, hasOwnThreshold: Bool, publication: LoopPublication, registry: LoopRegistry
  ) {
    self.name = name
    self.threshold = threshold
    self.hasOwnThreshold = hasOwnThreshold
    self.publication = publication
    self.registry = registry
  }

  /// Whether the loop is watched, or will be as soon as it turns.
  ///
  /// False after ``stop()``, when the loop's thread has ended, when the monitor was stopped, and in the child of a fork.
  public var isWatching: Bool {
    guard registry.isInOwnProcess else { return false }
    return state.withLock { if case .over = $0 { false } else { true } }
  }

  /// Ends the watch of this loop; its name is free again.
  ///
  /// A stall that lasts at this moment gets its `stall.ended`, marked `watch_ended`. Idempotent, from any thread; returns without waiting
  /// for the report. In the child of a fork nothing happens.
  public func stop() { end() }

  // MARK: The loop's thread

  /// What is particular to a kind of loop.
  struct Traits: Sendable {
    var kind: @Sendable () -> String
    var state: @Sendable () -> (mode: String?, callout: String?) = { (nil, nil) }
    var isInUnseenRun: @Sendable ([StackFrame]) -> Bool = { _ in false }
    /// The loop, if it counts its turns by itself.
    var loop: (any TurnSource)?
  }

  /// Begins the watch, on the loop's own thread.
  ///
  /// `attach` begins the stamping and returns what ends it; nil if it cannot. A rehearsal leaves the thread as it is.
  func begin(_ traits: Traits, isRehearsal: Bool = false, attach: () -> (@Sendable () -> Void)?) {
    guard registry.isInOwnProcess else { return }
    if !isRehearsal { _ = cunwind_prepare_thread() }
    let subject = registry.subject(of: self, traits, threadID: clinux_gettid())
    let hasBegun = state.withLock { state in
      guard case .expected = state, let end = attach() else { return false }
      state = .watched(end: end)
      // Within the lock, so that the watchdog hears of the beginning before the end.
      registry.watchdog.list.watch(subject)
      return true
    }
    if hasBegun { ThreadEnd.notify(self) } else { end() }
  }

  /// The loop's thread ends: whatever it was in the middle of is over.
  func threadEnds() {
    guard registry.isInOwnProcess else { return }
    publication.pulse.idle()
    end()
  }

  /// Ends the watch; `isForgotten` if the watchdog itself is about to stop, and closes what is open.
  func end(watchdogStops: Bool = false) {
    guard registry.isInOwnProcess else { return }
    let earlier = state.withLock { state in
      defer { state = .over }
      return state
    }
    if case .over = earlier { return }
    registry.remove(self)
    if case .watched(let endStamping) = earlier {
      endStamping()
      if !watchdogStops { registry.watchdog.list.forget(publication.pulse) }
    }
  }
}

extension LoopWatch: ThreadEndObserver {}

/// A watch that waits for its loop's thread.
///
/// Held by what the loop is to call; if that is released without a call, because the thread exited first, the watch ends.
final class ExpectedThread: Sendable {
  private let watch: LoopWatch

  init(_ watch: LoopWatch) { self.watch = watch }

  deinit { watch.giveUp() }
}

extension LoopWatch {
  /// Ends the watch if it has never begun.
  fileprivate func giveUp() {
    let isExpected = registry.isInOwnProcess && state.withLock { if case .expected = $0 { true } else { false } }
    if isExpected { end() }
  }
}
