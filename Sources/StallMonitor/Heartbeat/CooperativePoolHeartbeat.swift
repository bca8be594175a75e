import StallReport
import Synchronization

/// Watches whether Swift concurrency has a thread free, by a task that is to be run.
///
/// There are as many threads as processors, and no more come when they block. On Linux each priority has threads of its own; watched are
/// those of the default priority.
final class CooperativePoolHeartbeat: HeartbeatSource {
  private let pulse: Pulse
  private let poster: BeatPoster
  private let hasEnded = Atomic<Bool>(false)
  private let willBeat: @Sendable () -> Void

  /// Makes the heartbeat; without a thread for the courier the pool is not watched.
  ///
  /// There is no known way to detect that the pool is idle, so each beat wakes a thread of it.
  /// `willBeat` is called before, on the watchdog's thread.
  init(pulse: Pulse, courier: Courier, willBeat: @escaping @Sendable () -> Void) {
    self.pulse = pulse
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

  func beat() {
    willBeat()
    poster.post { [self] in
      Task.detached(priority: .medium) { [self] in
        if isBeating { pulse.idle() }
      }
    }
  }

  /// Nobody: a thread that takes a beat answers it at once.
  var server: LoopServer { .nobody }

  var pool: WorkerPool? { .cooperative }
}
