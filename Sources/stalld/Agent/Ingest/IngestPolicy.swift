import Glibc

extension Ingest {
  /// What the operator allows.
  @dynamicMemberLookup
  struct Policy: Equatable {
    var limits = AgentSettings.Limits()
    /// Of reports that are written, at most what the limits say; nil for any number.
    var userBytesPerDay: Int?
    /// Empty together with the groups: everybody who may open the socket.
    var allowedUsers: Set<UInt32> = []
    var allowedGroups: Set<UInt32> = []

    /// Of one unit or container.
    var linesPerSecond: Double { Double(limits.linesPerSecond) }
    /// Of one user in all its units; never less than one unit may.
    var userLinesPerSecond: Double { Double(max(limits.userLinesPerSecond, limits.linesPerSecond)) }

    /// The other limits, as the settings have them.
    subscript<Value>(dynamicMember limit: KeyPath<AgentSettings.Limits, Value>) -> Value { limits[keyPath: limit] }

    func allows(_ peer: Peer) -> Bool {
      if allowedUsers.isEmpty && allowedGroups.isEmpty { return true }
      // Its own stalls.
      if peer.pid == getpid() { return true }
      return allowedUsers.contains(peer.uid) || allowedGroups.contains(peer.gid)
        || peer.groups.contains(where: allowedGroups.contains)
    }
  }
}

extension AgentSettings {
  /// Who may connect, and send how much.
  var policy: Ingest.Policy {
    Ingest.Policy(
      limits: limits, userBytesPerDay: dailyQuota, allowedUsers: Set(socket.allow.users.map(\.id)),
      allowedGroups: Set(socket.allow.groups.map(\.id)))
  }

  /// What one user may add to the files in a day, so that a few days of everybody's reports are kept; nil for any number.
  private var dailyQuota: Int? {
    guard let limit = limits.userBytesPerDay else { return nil }
    let kept = outputs.compactMap { output -> Int? in
      guard case .file(let file) = output, let size = file.maxSize else { return nil }
      return size * (file.keep + 1)
    }
    // Files of a few hundred lines have no space to be shared.
    return min(limit, max((kept.min() ?? .max) / 4, Self.leastQuota))
  }

  private static let leastQuota = 1 << 20
}
