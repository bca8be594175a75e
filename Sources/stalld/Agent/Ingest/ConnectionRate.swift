import LoopEngine

/// The rate at which each user may connect.
///
/// A refusal costs little, so repeated connects do not delay other users.
///
/// By the user id alone, since what else there is to know of a process costs much more. Belongs to the agent's loop.
struct ConnectionRate {
  /// Connections a second; four seconds' worth may come at once, as when all services reconnect to an agent that was restarted.
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
    var bucket = buckets[user] ?? TokenBucket(rate: Self.perSecond)
    bucket.refill(rate: Self.perSecond)
    let isAdmitted = bucket.hasToken
    if isAdmitted { bucket.take(1) }
    buckets[user] = bucket
    return isAdmitted
  }
}
