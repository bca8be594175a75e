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
    _ socket: Int32, _ kind: AgentMetrics.ConnectionRefusal, _ reason: String, of user: UInt32,
    about subject: String, _ words: @autoclosure () -> String
  ) {
    metrics.connectionRefused(kind)
    clientLog.say(.warning, .connectionRefused, of: user, about: subject, "refused a connection of \(words())")
    let line = Array("{\"error\":\"refused: \(reason)\"}\n".utf8)
    _ = Glibc.send(socket, line, line.count, Int32(MSG_NOSIGNAL | MSG_DONTWAIT))
    Glibc.close(socket)
  }

  /// Takes a connection, or refuses it with words.
  func admit(_ socket: Int32, _ credentials: PeerCredentials) {
    guard let (peer, pidfd) = Peer.of(socket: socket, credentials) else {
      Glibc.close(socket)
      return
    }
    if let (kind, reason) = refusal(of: peer) {
      turnAway(socket, kind, reason, of: peer.owner, about: "\(kind)-\(peer.owner)", "\(peer.description): \(reason)")
      if pidfd >= 0 { Glibc.close(pidfd) }
      return
    }
    let process = process(peer, pidfd)
    let connection = Connection(
      number: nextNumber, descriptor: socket, process: process, share: shares.unit(of: process.peer, policy))
    nextNumber += 1
    do {
      try connection.watch(on: loop) { [unowned self] in read($0) }
    } catch {
      clientLog.say(.error, of: nil, about: "watch", "cannot watch a connection: \(error)")
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
    if user.connections >= policy.connectionsPerUser {
      guard let most = user.units.values.max(by: { $0.connections < $1.connections }),
        most.connections > unit.connections + 1,
        closeNewest(
          of: most,
          "all connections of its user are in use, and another unit has fewer (limits.connections_per_user)")
      else {
        return (
          .tooManyOfUser, "its user already has \(user.connections) connections (limits.connections_per_user)"
        )
      }
    }
    if connections.count >= policy.connections {
      guard let most = shares.users.values.max(by: { $0.connections < $1.connections }),
        most.connections > user.connections + 1,
        let largest = most.units.values.max(by: { $0.connections < $1.connections }),
        closeNewest(of: largest, "all connections are in use, and another user has fewer (limits.connections)")
      else { return (.tooMany, "the agent already has \(connections.count) connections (limits.connections)") }
    }
    return nil
  }

  /// Closes the newest connection of a unit; its service keeps the lines that were not acknowledged.
  private func closeNewest(of unit: UnitShare, _ reason: String) -> Bool {
    guard let newest = connections.values.filter({ $0.share === unit }).max(by: { $0.number < $1.number }) else {
      return false
    }
    drop(newest, reason, because: .tooMany)
    return true
  }
}
