/// Open stalls that have been counted, up to a limit: above it, the owner with the most loses the oldest ones.
struct CountedStalls {
  private struct Share {
    var stalls: Set<String> = []
    /// The same in the order of their counting, and some that have ended.
    var order: [String] = []
  }

  private let limit: Int
  /// By ``Peer/owner``.
  private var shares: [UInt32: Share] = [:]
  private(set) var count = 0

  init(limit: Int) { self.limit = limit }

  func contains(_ stall: String, of owner: UInt32) -> Bool { shares[owner]?.stalls.contains(stall) ?? false }

  mutating func insert(_ stall: String, of owner: UInt32) {
    guard shares[owner, default: Share()].stalls.insert(stall).inserted else { return }
    count += 1
    shares[owner]!.order.append(stall)
    if count > limit, let most = shares.max(by: { $0.value.stalls.count < $1.value.stalls.count })?.key {
      forgetOldest(of: most)
    } else if shares[owner]!.order.count > 2 * shares[owner]!.stalls.count + 64 {
      compact(owner)
    }
  }

  /// False if it was not there.
  mutating func remove(_ stall: String, of owner: UInt32) -> Bool {
    guard shares[owner]?.stalls.remove(stall) != nil else { return false }
    count -= 1
    if shares[owner]!.stalls.isEmpty { shares[owner] = nil }
    return true
  }

  /// Stalls whose end never came.
  private mutating func forgetOldest(of owner: UInt32) {
    compact(owner)
    let forgotten = shares[owner]!.order.prefix(max(1, shares[owner]!.stalls.count / 4))
    shares[owner]!.stalls.subtract(forgotten)
    shares[owner]!.order.removeFirst(forgotten.count)
    count -= forgotten.count
  }

  private mutating func compact(_ owner: UInt32) {
    let stalls = shares[owner]!.stalls
    shares[owner]!.order.removeAll { !stalls.contains($0) }
  }
}
