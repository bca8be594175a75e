import CLinux
import CUnwind
import StallCapture
import Synchronization

/// Watches a loop of one thread by heartbeats that the loop acknowledges.
///
/// One for each watch of a loop.
final class ThreadHeartbeat: @unchecked Sendable {  // `rest` is the watchdog's alone.
  /// The thread that runs the loop.
  let threadID: Int32
  private let pulse: Pulse
  private let beats: BeatPoster
  private let post: @Sendable (Heartbeat) -> Void
  private let willEnd: @Sendable () -> Void
  private let isEnded = Atomic<Bool>(false)
  // Made at the first look: its files belong to the watchdog's descriptor table.
  private var rest: RestingThread?

  /// Call it on the loop's thread; `willEnd` ends the watch.
  init(
    pulse: Pulse, courier: Courier, post: @escaping @Sendable (Heartbeat) -> Void,
    willEnd: @escaping @Sendable () -> Void
  ) {
    threadID = clinux_gettid()
    beats = BeatPoster(courier: courier, pulse: pulse)
    self.pulse = pulse
    self.post = post
    self.willEnd = willEnd
  }
}

extension ThreadHeartbeat: HeartbeatReceiver {
  /// Notes on the loop's thread that the loop turns; on another one, ends the watch.
  func acknowledge() {
    guard !isEnded.load(ordering: .acquiring) else { return }
    guard clinux_gettid() == threadID else { return stop() }
    cunwind_note_thread()
    pulse.idle()
  }
}

extension ThreadHeartbeat {
  /// Ends the watch; idempotent, from any thread.
  func stop() {
    guard !isEnded.exchange(true, ordering: .acquiringAndReleasing) else { return }
    willEnd()
  }
}

extension ThreadHeartbeat: HeartbeatSource {
  var isBeating: Bool { !isEnded.load(ordering: .acquiring) }

  var server: LoopServer { .thread(threadID) }

  func beat() {
    if rest == nil { rest = RestingThread(id: threadID, of: .own) }
    switch rest?.look() {
    case .isAtRest: return
    case .hasEnded: stop()
    case .mayBeBusy, nil: beats.post { [self] in if isBeating { post(Heartbeat(receiver: self)) } }
    }
  }

  var poster: BeatPoster? { beats }

  var isOver: Bool {
    if !isBeating { return true }
    guard pulse.word.phase == .heartbeat, rest?.hasEnded == true else { return false }
    stop()
    return true
  }
}
