import LoopEngine

/// What one unit of a user, or one container, may still send, and what it has in progress.
///
/// Belongs to the agent's loop.
final class UnitShare {
  let user: UserShare
  let place: String
  var bucket: TokenBucket
  var connections = 0
  /// Bytes of lines that are on their way to the outputs.
  var queuedBytes = 0
  /// Connections that wait for tokens, in the order in which they are read.
  var waiting: [Connection] = []

  init(_ user: UserShare, place: String, rate: Double) {
    (self.user, self.place) = (user, place)
    bucket = TokenBucket(rate: rate)
  }

  /// Whether one more line may be taken; see ``refill(_:)``.
  var hasToken: Bool { bucket.hasToken && user.bucket.hasToken }

  func refill(_ policy: Ingest.Policy) {
    let now = Loop.Instant.now
    bucket.refill(rate: policy.linesPerSecond, at: now)
    user.bucket.refill(rate: policy.userLinesPerSecond, at: now)
  }

  /// Counts a line of that many bytes.
  func take(bytes: Int) {
    let cost = TokenBucket.cost(ofBytes: bytes)
    bucket.take(cost)
    user.bucket.take(cost)
  }

  fileprivate var isIdle: Bool { connections == 0 && queuedBytes == 0 && waiting.isEmpty }
}

/// What one user may still send, and has in progress, in all its units together.
///
/// Belongs to the agent's loop.
final class UserShare {
  let owner: UInt32
  var bucket: TokenBucket
  var connections = 0
  /// Bytes of lines that are on their way to the outputs.
  var queuedBytes = 0
  fileprivate(set) var units: [String: UnitShare] = [:]
  /// Units with connections that wait for tokens: each has its turn.
  var waiting: [UnitShare] = []
  var timer: Loop.Timer?

  init(_ owner: UInt32, rate: Double) {
    self.owner = owner
    bucket = TokenBucket(rate: rate)
  }

  fileprivate var isIdle: Bool { units.isEmpty && waiting.isEmpty }
}

/// The shares of all users and units: of those that have something in progress, or whose buckets
/// are not full.
///
/// A limit is shared by the rule of ``SharedAllowance``; the same holds for the units within a user's part.
struct ClientShares {
  private(set) var users: [UInt32: UserShare] = [:]
  private var unitCount = 0
  private var sweepAt = 256

  /// The share of a process; one that is not known yet begins with full buckets.
  mutating func unit(of peer: Peer, _ policy: Ingest.Policy) -> UnitShare {
    let user = user(peer.owner, policy)
    if let known = user.units[peer.place] { return known }
    if unitCount >= sweepAt { sweep(policy) }
    let unit = UnitShare(user, place: peer.place, rate: policy.linesPerSecond)
    user.units[peer.place] = unit
    unitCount += 1
    return unit
  }

  /// The share of a user; one that is not known yet begins with a full bucket.
  mutating func user(_ owner: UInt32, _ policy: Ingest.Policy) -> UserShare {
    if let known = users[owner] { return known }
    let user = UserShare(owner, rate: policy.userLinesPerSecond)
    users[owner] = user
    return user
  }

  /// Forgets those that are as good as new.
  private mutating func sweep(_ policy: Ingest.Policy) {
    for (owner, user) in users {
      for (place, unit) in user.units where unit.isIdle {
        unit.refill(policy)
        if unit.bucket.isFull(rate: policy.linesPerSecond) { user.units[place] = nil }
      }
      if user.isIdle, user.bucket.isFull(rate: policy.userLinesPerSecond) { users[owner] = nil }
    }
    unitCount = users.values.reduce(0) { $0 + $1.units.count }
    sweepAt = max(256, 2 * unitCount)
  }
}
