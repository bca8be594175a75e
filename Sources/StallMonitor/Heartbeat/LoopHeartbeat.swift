import CLinux
import Synchronization

/// What a watched loop answers by, again and again.
///
/// One for a loop's life.
public final class LoopHeartbeat: @unchecked Sendable {  // `rest` is the watchdog's alone.
  /// The thread that runs the loop.
  let threadID: Int32
  private let pulse: Pulse
  private let watchdog: Watchdog
  private let post: @Sendable (LoopHeartbeat) -> Void
  private let isEnded = Atomic<Bool>(false)
  private var rest: RestingThread

  /// On the loop's thread.
  init(pulse: Pulse, watchdog: Watchdog, post: @escaping @Sendable (LoopHeartbeat) -> Void) {
    threadID = clinux_gettid()
    rest = RestingThread(id: threadID)
    self.pulse = pulse
    self.watchdog = watchdog
    self.post = post
  }

  /// Says that the loop turns.
  ///
  /// On the loop's thread: called on another one, the loop is not watched any more, since no stack could be trusted. About 100 ns; takes no
  /// lock and does not allocate.
  public func answer() {
    guard !isEnded.load(ordering: .acquiring) else { return }
    if clinux_gettid() == threadID { pulse.idle() } else { end() }
  }

  /// Lets the loop go: it has ended, or is not to be watched any more.
  ///
  /// From any thread; idempotent. A stall that lasts is told as ended, marked `watch_ended`.
  public func end() {
    guard !isEnded.exchange(true, ordering: .acquiringAndReleasing) else { return }
    watchdog.forget(pulse)
  }
}

extension LoopHeartbeat: Heartbeat {
  var isBeating: Bool { !isEnded.load(ordering: .acquiring) }

  var server: LoopServer { .thread(threadID) }

  func beat() {
    switch rest.look() {
    case .isAtRest: return
    case .hasEnded: end()
    case .mayBeBusy:
      // While no beat is under way the loop does not write the word, so the watchdog may.
      pulse.turn(.heartbeat)
      post(self)
    }
  }

  var isOver: Bool {
    if !isBeating { return true }
    guard pulse.word.phase == .heartbeat, rest.hasEnded else { return false }
    end()
    return true
  }
}
