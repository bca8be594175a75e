import StallReport
import Synchronization

/// Watches the threads that Swift concurrency runs its tasks on, by a task that is to be run.
///
/// There are as many as processors, and no more come when they block. On Linux each priority has threads of its own; watched are
/// those of the default priority. No way is known to tell that they are idle, so each beat wakes one of them.
final class CooperativePoolHeartbeat: Heartbeat {
  /// The kind as a report names it.
  static let kind = LoopKind.cooperativePool

  private let pulse: Pulse
  private let poster: BeatPoster
  private let hasEnded = Atomic<Bool>(false)

  /// Without a thread for the courier the pool is not watched.
  init(pulse: Pulse, courier: Courier) {
    self.pulse = pulse
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

  var mayBegin: Bool { false }

  func begin() {}

  func beat() {
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
