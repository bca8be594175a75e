import PlatformLibc
import StallCapture
import Synchronization

/// The latest stalls whose detail file has been written.
///
/// Thread-safe.
final class WrittenDetails: Sendable {
  private static let limit = 64

  private let stallIDs = Mutex<[String]>([])

  /// Notes that the stall's file has been written.
  func add(_ stallID: String) {
    stallIDs.withLock { ids in
      guard !ids.contains(stallID) else { return }
      ids.append(stallID)
      if ids.count > Self.limit { ids.removeFirst() }
    }
  }

  /// Whether the stall's file has been written; waits for it for nanoseconds at most.
  func contains(_ stallID: String, within limit: UInt64 = 0) -> Bool {
    let deadline = MonotonicClock.now() + limit
    while !stallIDs.withLock({ $0.contains(stallID) }) {
      guard MonotonicClock.now() < deadline else { return false }
      usleep(1000)
    }
    return true
  }
}
