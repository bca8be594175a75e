import CLinux
import CUnwind
import StallReport
import Synchronization
import TurnSource

/// A loop in the registry of a monitor.
///
/// It is watched from ``begin(_:on:attach:)`` to ``end(watchdogStops:)``, to the end of its thread or to that of the monitor.
final class RegisteredLoop: Sendable {
  let name: String
  /// How long a turn may take when the watch begins.
  let threshold: Duration
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
  private let hasThread = Atomic<Bool>(false)

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
  /// False after ``end(watchdogStops:)``, when the loop's thread has ended, when the monitor was stopped, and in the child of a fork.
  var isWatching: Bool {
    guard registry.isInOwnProcess else { return false }
    return state.withLock { if case .over = $0 { false } else { true } }
  }

  /// What is particular to a kind of loop.
  struct Traits: Sendable {
    var kind: @Sendable () -> LoopKind
    var state: @Sendable () -> (mode: String?, callout: String?) = { (nil, nil) }
    var knownRuns: @Sendable () -> Int? = { nil }
    /// The loop, if it counts its turns by itself.
    var loop: (any TurnSource)?
  }

  /// Begins the watch, on any thread.
  ///
  /// `attach` begins the stamping and returns what ends it; nil if it cannot.
  func begin(_ traits: Traits, on thread: WatchedLoop.Subject.Thread, attach: () -> (@Sendable () -> Void)?) {
    guard registry.isInOwnProcess else { return }
    let subject = registry.subject(of: self, traits, thread: thread)
    let hasBegun = state.withLock { state in
      guard case .expected = state, let end = attach() else { return false }
      state = .watched(end: end)
      // Within the lock, so that the watchdog hears of the beginning before the end.
      registry.watchdog.list.watch(subject)
      return true
    }
    if !hasBegun { end() }
  }

  // MARK: The loop's thread

  /// Begins the watch, on the loop's own thread; a rehearsal leaves that as it is.
  func begin(_ traits: Traits, isRehearsal: Bool = false, attach: () -> (@Sendable () -> Void)?) {
    prepareThread(isRehearsal: isRehearsal)
    begin(traits, on: .init(id: clinux_gettid(), stackEnd: Self.stackEnd()), attach: attach)
  }

  /// Where the calling thread's stack ends; nothing for the main thread, whose end would be read from a file.
  private static func stackEnd() -> UInt64 { clinux_gettid() == getpid() ? 0 : UInt64(clinux_own_stack_end()) }

  /// Makes the calling thread ready for captures, and ends the watch with it.
  func prepareThread(isRehearsal: Bool = false) {
    guard isWatching else { return }
    if !isRehearsal { _ = cunwind_prepare_thread() }
    hasThread.store(true, ordering: .releasing)
    ThreadEnd.notify(self)
  }

  /// The loop's thread ends, and its current turn with it.
  func threadEnds() {
    guard registry.isInOwnProcess else { return }
    publication.pulse.idle()
    end()
  }

  /// Ends the watch; `watchdogStops` if the watchdog itself is about to stop, and closes what is open.
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

extension RegisteredLoop: ThreadEndObserver {}

/// A watch that waits for its loop's thread.
///
/// Held by what the loop is to call; if that is released without a call, because the thread exited first, the watch ends.
final class ExpectedThread: Sendable {
  private let loop: RegisteredLoop

  init(_ loop: RegisteredLoop) { self.loop = loop }

  deinit { loop.endWithoutThread() }
}

extension RegisteredLoop {
  /// Ends the watch if the loop's thread has never been prepared for it.
  fileprivate func endWithoutThread() { if !hasThread.load(ordering: .acquiring) { end() } }
}
