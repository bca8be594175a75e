import LoopEngine

/// How often each user may connect: who connects again and again costs hardly more than the refusal.
///
/// By the user id alone, since what else there is to know of a process costs much more. Belongs to the agent's loop.
struct ConnectionRate {
  /// Connections a second; four seconds' worth may come at once, as when all hosts come back to an agent that was restarted.
  static let perSecond = 256.0
  private static let sweepAt = 1024

  private var buckets: [UInt32: TokenBucket] = [:]

  /// Counts a connection; false if the user has none left for now.
  mutating func admits(_ user: UInt32) -> Bool {
    if buckets.count >= Self.sweepAt, buckets[user] == nil {
      for key in buckets.keys {
        buckets[key]!.refill(rate: Self.perSecond)
        if buckets[key]!.isFull(rate: Self.perSecond) { buckets[key] = nil }
      }
    }
    buckets[user, default: TokenBucket(rate: Self.perSecond)].refill(rate: Self.perSecond)
    guard buckets[user]!.hasToken else { return false }
    buckets[user]!.take(1)
    return true
  }
}
