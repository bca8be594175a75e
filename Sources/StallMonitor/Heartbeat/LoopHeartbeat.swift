import CLinux
import CUnwind
import StallCapture
import Synchronization

/// A handle that a watched loop uses to acknowledge heartbeats.
///
/// One for a loop's life.
public final class LoopHeartbeat: @unchecked Sendable {  // `rest` is the watchdog's alone.
  /// The thread that runs the loop.
  let threadID: Int32
  private let pulse: Pulse
  private let beats: BeatPoster
  private let post: @Sendable (LoopHeartbeat) -> Void
  private let willEnd: @Sendable () -> Void
  private let isEnded = Atomic<Bool>(false)
  // Made at the first look: its files belong to the watchdog's descriptor table.
  private var rest: RestingThread?

  /// Call it on the loop's thread; `willEnd` ends the watch.
  init(
    pulse: Pulse, courier: Courier, post: @escaping @Sendable (LoopHeartbeat) -> Void,
    willEnd: @escaping @Sendable () -> Void
  ) {
    threadID = clinux_gettid()
    beats = BeatPoster(courier: courier, pulse: pulse)
    self.pulse = pulse
    self.post = post
    self.willEnd = willEnd
  }

  /// Says that the loop turns.
  ///
  /// On the loop's thread: called on another one, the loop is not watched any more, since no stack could be trusted. About 200 ns; takes no
  /// lock and does not allocate.
  public func answer() {
    guard !isEnded.load(ordering: .acquiring) else { return }
    guard clinux_gettid() == threadID else { return end() }
    cunwind_note_thread()
    pulse.idle()
  }

  /// Lets the loop go: it has ended, or is not to be watched any more.
  ///
  /// From any thread; idempotent. A stall in progress is reported as ended, marked `watch_ended`.
  public func end() {
    guard !isEnded.exchange(true, ordering: .acquiringAndReleasing) else { return }
    willEnd()
  }
}

extension LoopHeartbeat: Heartbeat {
  var isBeating: Bool { !isEnded.load(ordering: .acquiring) }

  var server: LoopServer { .thread(threadID) }

  func beat() {
    if rest == nil { rest = RestingThread(id: threadID) }
    switch rest?.look() {
    case .isAtRest: return
    case .hasEnded: end()
    case .mayBeBusy, nil: beats.post { [self] in if isBeating { post(self) } }
    }
  }

  var poster: BeatPoster? { beats }

  var isOver: Bool {
    if !isBeating { return true }
    guard pulse.word.phase == .heartbeat, rest?.hasEnded == true else { return false }
    end()
    return true
  }
}
