import StallReport
import Synchronization

/// Watches whether Swift concurrency has a thread free, by a task that is to be run.
///
/// There are as many threads as processors, and no more come when they block. On Linux each priority has threads of its own; watched are
/// those of the default priority.
final class CooperativePoolHeartbeat: Heartbeat {
  /// The kind as a report names it.
  static let kind = LoopKind.cooperativePool

  private let pulse: Pulse
  private let poster: BeatPoster
  private let hasEnded = Atomic<Bool>(false)
  private let hasWaitingTasks: @Sendable () -> Bool
  private let willBeat: @Sendable () -> Void

  /// Makes the heartbeat; without a thread for the courier the pool is not watched.
  ///
  /// `hasWaitingTasks` is asked before each beat. Where it cannot be known, it is true, and each beat wakes a thread of the pool.
  /// `willBeat` is called on the watchdog's thread.
  init(
    pulse: Pulse, courier: Courier, hasWaitingTasks: @escaping @Sendable () -> Bool,
    willBeat: @escaping @Sendable () -> Void
  ) {
    self.pulse = pulse
    self.hasWaitingTasks = hasWaitingTasks
    self.willBeat = willBeat
    poster = BeatPoster(courier: courier, pulse: pulse)
    if !courier.addUser() { end() }
  }

  /// Ends the watch.
  ///
  /// A task that waits at this moment will do nothing.
  func end() {
    hasEnded.store(true, ordering: .releasing)
    poster.end()
  }

  var isBeating: Bool { !hasEnded.load(ordering: .acquiring) }

  var isDue: Bool { hasWaitingTasks() }

  func beat() {
    willBeat()
    poster.post { [self] in
      Task.detached(priority: .medium) { [self] in
        if isBeating { pulse.idle() }
      }
    }
  }

  /// A beat that has been taken is answered.
  var server: LoopServer { .nobody }

  var pool: WorkerPool? { .cooperative }
}
