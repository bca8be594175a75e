import NIOConcurrencyHelpers
import NIOCore

/// A handle that ends the watch of a group's event loops.
///
/// It is not an array of `LoopWatch`: the watch of a loop begins on the loop's thread, which may run later, and ending
/// it also closes two descriptors.
public final class EventLoopGroupWatch: Sendable {
  private let heartbeats = NIOLockedValueBox<[EventLoopHeartbeat]>([])

  init() {}

  func add(_ heartbeat: EventLoopHeartbeat) { heartbeats.withLockedValue { $0.append(heartbeat) } }

  func begin() { for heartbeat in heartbeats.withLockedValue({ $0 }) { heartbeat.begin() } }

  /// Ends the watch of the event loops.
  ///
  /// Idempotent, from any thread. Not needed before a group is shut down.
  public func stop() {
    let ended = heartbeats.withLockedValue { heartbeats in
      defer { heartbeats = [] }
      return heartbeats
    }
    for heartbeat in ended { heartbeat.stop() }
  }
}
