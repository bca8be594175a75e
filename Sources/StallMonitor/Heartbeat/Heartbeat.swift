import CLinux
import Glibc
import Synchronization

/// What a watched loop answers by, again and again.
///
/// One for a loop's life. It never waits, takes no lock and allocates nothing.
public final class Heartbeat: Sendable {
  let pulse: Pulse
  /// The thread that runs the loop.
  let threadID: Int32
  let post: @Sendable (Heartbeat) -> Void
  private let semaphore: WatchdogSemaphore
  private let over = Atomic<Bool>(false)

  init(pulse: Pulse, threadID: Int32, semaphore: WatchdogSemaphore, post: @escaping @Sendable (Heartbeat) -> Void) {
    self.pulse = pulse
    self.threadID = threadID
    self.semaphore = semaphore
    self.post = post
  }

  /// Says that the loop turns.
  ///
  /// On the loop's thread: from another one the loop is not watched any more, since no stack could be trusted. About 100 ns.
  public func answer() {
    guard !isOver else { return }
    if clinux_gettid() == threadID { return pulse.idle() }
    end()
  }

  /// Lets the loop go: it has ended, or is not to be watched any more.
  ///
  /// From any thread, once the loop will not answer; idempotent. A stall that lasts is told as ended, marked `watch_ended`.
  public func end() {
    guard !over.exchange(true, ordering: .acquiringAndReleasing) else { return }
    semaphore.post()
  }

  /// Whether the loop has been let go.
  var isOver: Bool { over.load(ordering: .acquiring) }

  // MARK: The watchdog's side

  /// Whether a heartbeat has been posted and not been answered.
  var isOut: Bool { pulse.word.phase == .heartbeat }

  /// Posts one.
  ///
  /// While none is out the loop's thread does not write the word, so the watchdog may.
  func send() {
    pulse.turn(.heartbeat)
    post(self)
  }
}
