import StallReport

/// Numbers that only the services know, counted by the unit and user from the kernel: a service
/// raises only its own.
struct HostClaims {
  struct Client: Hashable, Comparable {
    var place = ""
    /// Nil represents all that are not counted separately.
    var user: UInt32?

    static func < (a: Client, b: Client) -> Bool { (a.place, a.user ?? .max) < (b.place, b.user ?? .max) }
  }

  struct Counts {
    /// Lines that were dropped.
    var dropped: UInt64 = 0
    /// Lines that had been kept for the agent.
    var spooled: UInt64 = 0
  }

  /// The number of clients that are counted separately, which the users share.
  static let limit = 1000

  private(set) var counts: [Client: Counts] = [:]
  /// By ``Peer/owner``: a logged-in user may have many numbers.
  private var clients = SharedAllowance<UInt32>()

  /// Adds to a client's numbers; it has them from its first connection on, so that an increase can be seen.
  mutating func add(_ more: Counts, of peer: Peer) {
    var client = Client(place: peer.place.limited(to: 300), user: peer.uid)
    if counts[client] == nil, !clients.take(for: peer.owner, limit: Self.limit) { client = Client() }
    counts[client, default: Counts()].dropped &+= more.dropped
    counts[client, default: Counts()].spooled &+= more.spooled
  }
}
