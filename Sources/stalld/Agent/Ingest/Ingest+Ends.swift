import Glibc
import LoopEngine

/// The ends of connections, of processes, and of the agent.
extension Ingest {
  func end(_ connection: Connection) {
    guard connections.removeValue(forKey: connection.number) != nil else { return }
    connection.close()
    metrics.connectionEnded()
    waitingForRoom[connection.number] = nil
    let process = connection.process
    let unit = connection.share
    unit.connections -= 1
    unit.user.connections -= 1
    if connection.isHeld { unit.waiting.removeAll { $0 === connection } }
    releaseUnfinished(of: connection)
    if connection.outstanding > 0 { leaving[connection.number] = connection }
    process.connections[connection.number] = nil
    guard process.connections.isEmpty else { return }
    guard !process.openStalls.isEmpty else { return forget(process) }
    if process.hasEnded { return processDidEnd(process) }
    // It may be about to end, or may connect again.
    didLeave(process)
  }

  /// Watches for the end of a process that has disconnected during a stall.
  ///
  /// Above the limit, the one that disconnected first is dropped.
  func didLeave(_ process: PeerProcess) {
    let user = process.peer.owner
    absent.append(process)
    if absent.count(where: { $0.peer.owner == user }) > Self.absentLimitOfUser {
      forgetAbsent(of: user)
    } else if absent.count > Self.absentLimit {
      // Of the user who has most of them.
      let users = Dictionary(grouping: absent, by: \.peer.owner)
      forgetAbsent(of: users.max { ($0.value.count, $0.key) < ($1.value.count, $1.key) }?.key ?? user)
    }
  }

  private func forgetAbsent(of user: UInt32) {
    guard let process = absent.first(where: { $0.peer.owner == user }) else { return }
    clientLog.say(
      .warning, .clientContained, of: user, about: "absent-\(user)",
      "too many processes of user \(user) disconnected during a stall: if \(process.peer.description) ends in its stall, no stall.fatal is written"
    )
    forget(process)
  }

  func forget(_ process: PeerProcess) {
    absent.removeAll { $0 === process }
    guard process.connections.isEmpty else { return }
    forgetStalls(of: process)
    let others = processes[process.peer.pid]?.filter { $0 !== process } ?? []
    processes[process.peer.pid] = others.isEmpty ? nil : others
  }

  /// Its stalls; they are followed no longer.
  @discardableResult
  func forgetStalls(of process: PeerProcess) -> [OpenStall] {
    changeStalls(of: process) { $0.takeAll() }
  }

  func endHandler(of process: PeerProcess) -> @Sendable () -> Void {
    let ingest = UncheckedReference(self)
    let weak = UncheckedReference(process)
    return {
      guard let process = weak.object else { return }
      ingest.object?.processDidEnd(process)
    }
  }

  func processDidEnd(_ process: PeerProcess) {
    // What it sent before its end may say that the stall was over: it is read first, as fast as its share allows.
    process.endIsDue = false
    for connection in process.connections.values { readRest(of: connection) }
    guard !process.connections.values.contains(where: \.isPaused) else { return process.endIsDue = true }
    let stalls = tellRecovered(forgetStalls(of: process), of: process.peer)
    for connection in process.connections.values { end(connection) }
    forget(process)
    guard !stalls.isEmpty else { return }
    let silences = stalls.map { $0.heard.duration(to: .now) }
    let number = nextInquiry
    nextInquiry += 1
    let owner = process.peer.owner
    // A command for each would be many, of a service whose workers all end at once.
    let asksSystemd = systemdInquiries.take(for: owner, limit: Self.inquiryLimit)
    let inquiry = ExitInquiry(process, on: loop) { [unowned self] reason in
      inquiries[number] = nil
      if asksSystemd { systemdInquiries.add(-1, for: owner) }
      tellEnd(of: stalls, process.peer, reason, silences: silences)
    }
    inquiries[number] = inquiry
    inquiry.begin(asksSystemd: asksSystemd)
  }

  /// Reports the stalls that had ended according to the process's recovery page, and returns the others.
  func tellRecovered(_ stalls: [OpenStall], of peer: Peer) -> [OpenStall] {
    stalls.filter { stall in
      guard case .over(let time)? = stall.recovery?.fate(of: stall.line.stallID) else { return true }
      guard let report = stall.ended(after: time)?.identified(after: stall), recent.insert(report.identity) else {
        return false
      }
      enqueue(report, of: peer)
      return false
    }
  }

  /// Reports the end of a process whose connections had to wait, once they have been read.
  func endIfDue(_ process: PeerProcess) {
    if process.endIsDue, !process.connections.values.contains(where: \.isPaused) { processDidEnd(process) }
  }

  func readRest(of connection: Connection, until deadline: Loop.Instant = .distantFuture) {
    // At most what a socket's buffers hold.
    for _ in 0..<64 {
      guard connection.isOpen, !connection.isPaused, Loop.Instant.now < deadline else { return }
      guard hasRoom(for: connection) else { return wait(connection) }
      // Without input it needs no turn: two such connections would wait for each other.
      guard hasTurn(connection) || !connection.hasInput else { return hold(connection) }
      guard readOnce(connection) else { return }
      if connection.isOpen, connection.holdsLines { return hold(connection) }
    }
  }

  func tellEnd(of stalls: [OpenStall], _ peer: Peer, _ reason: ExitReason, silences: [Duration]) {
    for (index, stall) in stalls.enumerated() {
      guard let report = stall.fatal(exit: reason, silence: silences[index])?.identified(after: stall),
        recent.insert(report.identity)
      else { continue }
      clientLog.say(
        .warning, .hostEnded, of: peer.owner, about: "end-\(stall.line.processID)-\(index)",
        "\(stall.line.service.forLog), process \(stall.line.processID), ended during a stall: it \(reason.sentence)")
      enqueue(report, of: peer)
    }
  }

  /// Reads what services have sent so far and accepts no more connections: the agent ends.
  func drain() {
    listener?.invalidate()
    listener = nil
    // What is not read any more is not acknowledged, and comes again.
    let deadline = Loop.Instant.now.advanced(by: Self.drainLimit)
    for connection in connections.values { readRest(of: connection, until: deadline) }
    for inquiry in inquiries.values { inquiry.finish() }
    submit()
    destination.keepUsage(usage.text())
  }

  /// Acknowledges what has arrived, and closes the connections.
  func close() {
    acknowledge()
    for connection in connections.values {
      connection.acknowledge()
      connection.close()
    }
    connections = [:]
  }
}

extension ReportLine {
  /// The same, as the report that comes after the last one of a stall.
  fileprivate func identified(after stall: OpenStall) -> ReportLine {
    var line = self
    line.identity = ReportIdentity(
      id: stall.line.stallID.utf8, event: event, sequence: stall.sequence + 1, user: stall.line.userID)
    return line
  }
}
