import CLinux
import DescriptorIO
import Glibc
import StallMonitor

/// The admission of connections: who may connect, and whose connection is closed for another one.
extension Ingest {
  /// Refuses the connection of a user who connects too often, at the least cost.
  func connectsTooOften(_ socket: Int32, _ user: UInt32) -> Bool {
    if connectionRate.admits(user) { return false }
    turnAway(
      socket, .tooOften, "its user connects too often", of: user, about: "often-\(user)",
      "user \(user): more than \(Int(ConnectionRate.perSecond)) connections per second")
    return true
  }

  /// Counts a connection that is refused, sends the client `reason`, logs `words`, and closes it.
  private func turnAway(
    _ socket: Int32, _ kind: AgentMetrics.ConnectionRefusal, _ reason: String,
    _ priority: AgentLog.Priority = .warning, of user: UInt32?, about subject: String,
    _ words: @autoclosure () -> String
  ) {
    metrics.connectionRefused(kind)
    clientLog.say(priority, .connectionRefused, of: user, about: subject, "refused a connection of \(words())")
    let line = Array("{\"error\":\"refused: \(reason)\"}\n".utf8)
    _ = Glibc.send(socket, line, line.count, Int32(MSG_NOSIGNAL | MSG_DONTWAIT))
    Glibc.close(socket)
  }

  /// Refuses a connection for which the agent has no descriptor; one message a minute is about all of them.
  private func turnAway(_ socket: Int32, lackingDescriptors code: Int32, _ client: @autoclosure () -> String) {
    let shortage = descriptors.shortage(code)
    descriptorShortage = shortage
    turnAway(
      socket, .noDescriptors, "the agent has no descriptors left for another connection", .error, of: nil,
      about: "descriptors", "\(client()): \(shortage)")
  }

  /// Takes a connection, or refuses it with words.
  func admit(_ socket: Int32, _ credentials: PeerCredentials) {
    var socket = socket
    var (peer, pidfd): (Peer, Int32)
    do throws(SystemError) {
      (peer, pidfd) = try Peer.of(socket: socket, credentials)
    } catch {
      return turnAway(
        socket, lackingDescriptors: error.code, "process \(credentials.pid) of user \(credentials.uid)")
    }
    if let (kind, reason) = refusal(of: peer) {
      turnAway(socket, kind, reason, of: peer.owner, about: "\(kind)-\(peer.owner)", "\(peer.description): \(reason)")
      if pidfd >= 0 { Glibc.close(pidfd) }
      return
    }
    let unit = shares.unit(of: peer, policy)
    guard findNumbers(for: &socket, &pidfd, of: unit) else {
      turnAway(socket, lackingDescriptors: EMFILE, peer.description)
      if pidfd >= 0 { Glibc.close(pidfd) }
      return
    }
    let process = process(peer, pidfd)
    let connection = Connection(number: nextNumber, descriptor: socket, process: process, share: unit)
    nextNumber += 1
    do {
      try connection.watch(on: loop) { [unowned self] in read($0) }
    } catch {
      clientLog.say(.error, of: nil, about: "watch", "cannot watch a connection: \(error)")
      metrics.connectionRefused(.noDescriptors)
      connection.send("{\"error\":\"refused: the agent cannot watch another connection\"}", on: loop)
      connection.close()
      forget(connection.process)
      return
    }
    metrics.connectionAccepted(of: process.peer)
    connections[connection.number] = connection
    connection.share.connections += 1
    connection.share.user.connections += 1
    process.connections[connection.number] = connection
    absent.removeAll { $0 === process }
    if peer.pid != getpid() { destination.didConnect() }
    // Nothing will report its end. A connection ends with the process that made it, though another may have inherited the socket.
    if pidfd < 0, PeerProcess.isGone(peer.pid) { processDidEnd(process) }
  }

  /// Why connections are refused, or wait, for lack of descriptors; nil if another one could be accepted.
  func currentShortage() -> String? {
    if descriptorShortage != nil, descriptors.allowsConnection { descriptorShortage = nil }
    return descriptorShortage
  }

  /// Moves a new connection's descriptors out of the reserve, and closes connections of others for that as ``makeSpace(for:_:because:)`` allows.
  private func findNumbers(for socket: inout Int32, _ pidfd: inout Int32, of unit: UnitShare) -> Bool {
    while !descriptors.moveOutOfReserve(&socket) || !descriptors.moveOutOfReserve(&pidfd) {
      guard makeSpace(for: unit, "all descriptors are in use (LimitNOFILE=)", because: .noDescriptors) else {
        return false
      }
    }
    return true
  }

  /// Why a process may not connect; nil if it may.
  ///
  /// If all connections are in use, the user with the most loses one to a user who has fewer; and a
  /// user's unit to another one.
  private func refusal(of peer: Peer) -> (kind: AgentMetrics.ConnectionRefusal, reason: String)? {
    guard peer.pid > 0 else {
      return (.unknownProcess, "the agent cannot see the PID namespace of the process")
    }
    guard policy.allows(peer) else { return (.notAllowed, "its user and groups are not in socket.allow") }
    let unit = shares.unit(of: peer, policy)
    let user = unit.user
    if unit.connections >= max(1, policy.connectionsPerUser / 2) {
      return (
        .tooManyOfUser,
        "its unit already has \(unit.connections) connections: half of its user's limit (limits.connections_per_user)"
      )
    }
    if user.connections >= policy.connectionsPerUser,
      !makeSpace(
        for: unit, among: user, "all connections of its user are in use (limits.connections_per_user)",
        because: .tooMany)
    {
      return (
        .tooManyOfUser, "its user already has \(user.connections) connections (limits.connections_per_user)"
      )
    }
    if connections.count >= policy.connections,
      !makeSpace(for: unit, "all connections are in use (limits.connections)", because: .tooMany)
    {
      return (.tooMany, "the agent already has \(connections.count) connections (limits.connections)")
    }
    return nil
  }

  /// Closes a connection for one of `unit`: of the user with the most, if `unit`'s user has at least two fewer; of `unit`'s own user, if another
  /// one of its units has at least two more than `unit`.
  ///
  /// Returns whether it did.
  private func makeSpace(
    for unit: UnitShare, among user: UserShare? = nil, _ reason: String, because kind: AgentMetrics.ConnectionRefusal
  ) -> Bool {
    guard let user = user ?? shares.users.values.max(by: { $0.connections < $1.connections }),
      let largest = user.units.values.max(by: { $0.connections < $1.connections })
    else { return false }
    let isOwn = user === unit.user
    let other = isOwn ? "unit" : "user"
    let isLarger =
      isOwn ? largest.connections > unit.connections + 1 : user.connections > unit.user.connections + 1
    return isLarger && closeNewest(of: largest, "\(reason), and another \(other) has fewer connections", because: kind)
  }

  /// Closes the newest connection of a unit; its service keeps the lines that were not acknowledged.
  private func closeNewest(
    of unit: UnitShare, _ reason: String, because kind: AgentMetrics.ConnectionRefusal
  ) -> Bool {
    guard let newest = connections.values.filter({ $0.share === unit }).max(by: { $0.number < $1.number }) else {
      return false
    }
    drop(newest, reason, because: kind)
    return true
  }
}
