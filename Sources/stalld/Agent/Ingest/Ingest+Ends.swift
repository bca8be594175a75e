import Glibc
import LoopEngine

/// The ends of connections, of processes, and of the agent.
extension Ingest {
  func end(_ connection: Connection) {
    guard connections.removeValue(forKey: connection.number) != nil else { return }
    connection.close()
    waitingForRoom[connection.number] = nil
    toAcknowledge[connection.number] = nil
    let process = connection.process
    let user = process.peer.uid
    connectionsOfUser[user, default: 1] -= 1
    if connectionsOfUser[user] == 0 { connectionsOfUser[user] = nil }
    process.connections[connection.number] = nil
    guard process.connections.isEmpty else { return }
    guard !process.openStalls.isEmpty else { return forget(process) }
    if process.hasEnded { return processDidEnd(process) }
    // It may be about to end, or may connect again.
    let ingest = UncheckedReference(self)
    let weak = UncheckedReference(process)
    process.forgetTimer?.invalidate()
    process.forgetTimer = loop.schedule(after: Self.endLimit, name: "a host has left") { _ in
      guard let ingest = ingest.object, let process = weak.object, process.connections.isEmpty else { return }
      ingest.forget(process)
    }
  }

  func forget(_ process: PeerProcess) {
    guard process.connections.isEmpty else { return }
    forgetStalls(of: process)
    if processes[process.peer.pid] === process { processes[process.peer.pid] = nil }
  }

  /// Its stalls; they are followed no longer.
  @discardableResult
  func forgetStalls(of process: PeerProcess) -> [OpenStall] {
    openBytes -= process.openBytes
    let stalls = process.takeStalls()
    process.updateWatch(on: loop) {}
    return stalls
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
    // What it sent before its end may say that the stall was over.
    for connection in process.connections.values { readRest(of: connection) }
    let stalls = forgetStalls(of: process)
    for connection in process.connections.values { end(connection) }
    forget(process)
    guard !stalls.isEmpty else { return }
    let number = nextInquiry
    nextInquiry += 1
    let inquiry = ExitInquiry(process, on: loop) { [unowned self] reason in
      inquiries[number] = nil
      tellEnd(of: stalls, reason)
    }
    inquiries[number] = inquiry
    // A command for each would be many, of a service whose workers all end at once.
    inquiry.begin(asksSystemd: inquiries.count <= Self.inquiryLimit)
  }

  func readRest(of connection: Connection, until deadline: Loop.Instant = .distantFuture) {
    // At most what a socket's buffers hold.
    for _ in 0..<64 {
      guard connection.isOpen, Loop.Instant.now < deadline, let base = scratch.baseAddress else { return }
      let count = recv(connection.descriptor, base, scratch.count, Int32(MSG_DONTWAIT))
      guard count > 0 else { return }
      take(UnsafeBufferPointer(rebasing: scratch[..<count]), from: connection)
    }
  }

  func tellEnd(of stalls: [OpenStall], _ reason: ExitReason) {
    for (index, stall) in stalls.enumerated() {
      guard let report = stall.fatal(exit: reason),
        let identity = ReportIdentity(id: stall.line.stallID.utf8, sequence: 0), recent.insert(identity)
      else { continue }
      complaints.say(
        .warning, .hostEnded, about: "end-\(stall.line.processID)-\(index)",
        "\(stall.line.service.forLog), process \(stall.line.processID), ended in a stall: it \(reason.sentence)")
      enqueue(report, from: nil)
    }
  }

  /// Takes what hosts have sent so far and lets no more in: the agent ends.
  func drain() {
    listener?.invalidate()
    listener = nil
    // What is not read any more is not acknowledged, and comes again.
    let deadline = Loop.Instant.now.advanced(by: Self.drainLimit)
    for connection in connections.values where queuedBytes < policy.memory {
      readRest(of: connection, until: deadline)
    }
    for inquiry in inquiries.values { inquiry.finish() }
    submit()
  }

  /// Tells hosts what has arrived, and closes.
  func close() {
    acknowledge()
    for connection in connections.values {
      connection.acknowledge(on: loop)
      connection.close()
    }
    connections = [:]
  }
}
