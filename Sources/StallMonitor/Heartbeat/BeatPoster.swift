import StallDetection
import Synchronization

/// Posts the beats of one loop through the courier, at most one at a time.
///
/// The turn of a beat begins when the courier posts it: the time before that does not count as a
/// stall. ``post(_:)`` is called on the watchdog.
final class BeatPoster: Sendable {
  private let courier: Courier
  private let pulse: Pulse
  private let isUnderWay = Atomic<Bool>(false)
  private let hasEnded = Atomic<Bool>(false)

  init(courier: Courier, pulse: Pulse) {
    self.courier = courier
    self.pulse = pulse
  }

  /// Begins the turn and calls `send`, on the courier; nothing happens while an earlier beat waits for it.
  func post(_ send: @escaping @Sendable () -> Void) {
    guard !isUnderWay.exchange(true, ordering: .acquiringAndReleasing) else { return }
    let isTaken = courier.post { [self] in
      // While no beat is in progress, the loop does not write the word.
      if !hasEnded.load(ordering: .acquiring) {
        pulse.turn(.heartbeat)
        send()
      }
      isUnderWay.store(false, ordering: .releasing)
    }
    if !isTaken { isUnderWay.store(false, ordering: .releasing) }
  }

  /// Stops posting and releases the courier.
  ///
  /// The courier calls `last` first.
  func end(_ last: (@Sendable () -> Void)? = nil) {
    guard !hasEnded.exchange(true, ordering: .acquiringAndReleasing) else { return }
    if let last { courier.post(last) }
    courier.removeUser()
  }
}
