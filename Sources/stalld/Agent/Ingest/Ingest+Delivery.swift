import LoopEngine

/// Lines on their way to the outputs, and the acknowledgements of those that have arrived.
extension Ingest {
  func enqueue(_ report: ReportLine, from connection: Connection?) {
    send(
      PendingLine(
        connection: connection?.number ?? 0, number: connection?.received ?? 0, process: report.processID, line: report,
        bytes: report.bytes.count), of: connection)
    destination.didTake(report)
  }

  /// A line of the agent's own about a process that has ended.
  func enqueue(_ report: ReportLine, of peer: Peer) {
    if isWithinQuota(report, of: peer) { enqueue(report, from: nil) }
  }

  /// Counts a report that is to be written, unless its user, or its unit, has had its part of the day.
  func isWithinQuota(_ report: ReportLine, of peer: Peer) -> Bool {
    let verdict = usage.admit(bytes: report.bytes.count, of: peer, limit: policy.userBytesPerDay)
    if usage.unsaved > Self.usageStep { destination.keepUsage(usage.text()) }
    guard verdict != .admitted else { return true }
    metrics.lineRefused(.overQuota)
    if verdict == .refusedForTheFirstTime {
      AgentLog.say(
        .warning, .clientContained,
        "\(peer.description) has reached its daily limit (limits.user_bytes_per_day): further reports are counted, not written"
      )
    }
    return false
  }

  /// A line that goes nowhere; but its acknowledgement must not overtake the line that it repeats.
  func finishAtOnce(_ connection: Connection, repeating repeated: ReportIdentity? = nil) {
    guard underWay > 0 else { return mark(connection) }
    // One place is enough for many: a line break is a line, too.
    if repeated == nil, let last = batch.last, last.connection == connection.number, last.line == nil {
      batch[batch.count - 1].number = connection.received
      return
    }
    send(
      PendingLine(
        connection: connection.number, number: connection.received, process: connection.process.peer.pid, line: nil,
        bytes: MemoryLayout<PendingLine>.stride, repeats: repeated), of: connection)
  }

  func send(_ delivery: PendingLine, of connection: Connection?) {
    batch.append(delivery)
    if batch.count == 1 || batch.count == Self.batchLines { submitWhenDue() }
    underWay += 1
    queuedBytes += delivery.bytes
    guard let connection else { return }
    connection.outstanding += 1
    connection.outstandingBytes += delivery.bytes
    connection.share.queuedBytes += delivery.bytes
    connection.share.user.queuedBytes += delivery.bytes
  }

  /// At once if the last batch was a while ago: lines that come one by one very often are fewer wake-ups together.
  private func submitWhenDue() {
    let next = submitted.advanced(by: Self.batchInterval)
    if batch.count >= Self.batchLines || next <= .now { return submitPoint.mark() }
    guard submitTimer == nil else { return }
    let ingest = UncheckedReference(self)
    submitTimer = loop.perform(after: Loop.Instant.now.duration(to: next), name: "submit lines") { _ in
      guard let ingest = ingest.object else { return }
      ingest.submitTimer = nil
      ingest.submit()
    }
  }

  func submit() {
    guard !batch.isEmpty else { return }
    let deliveries = batch
    batch = []
    batch.reserveCapacity(min(deliveries.count, Self.batchLines))
    submitted = .now
    destination.submit(deliveries)
  }

  /// Accounts for what names have added to lines since they came, and for what was taken out of long ones.
  func account(_ lines: inout [PendingLine]) {
    for index in lines.indices {
      guard let line = lines[index].line, line.bytes.count != lines[index].bytes else { continue }
      let growth = line.bytes.count - lines[index].bytes
      lines[index].bytes += growth
      queuedBytes += growth
      usage.correct(by: growth, of: Peer.owner(ofLane: line.lane) ?? line.userID, line.place)
      guard let connection = connections[lines[index].connection] ?? leaving[lines[index].connection] else { continue }
      connection.outstandingBytes += growth
      connection.share.queuedBytes += growth
      connection.share.user.queuedBytes += growth
    }
  }

  /// These have arrived.
  func didFinish(_ deliveries: some Sequence<PendingLine>) {
    for delivery in deliveries {
      underWay -= 1
      queuedBytes -= delivery.bytes
      guard let connection = connections[delivery.connection] ?? leaving[delivery.connection] else { continue }
      connection.didFinish(line: delivery.number, bytes: delivery.bytes)
      connection.share.queuedBytes -= delivery.bytes
      connection.share.user.queuedBytes -= delivery.bytes
      if connection.isOpen { mark(connection) } else if connection.outstanding == 0 { leaving[connection.number] = nil }
    }
    resumeWaiting()
  }

  func mark(_ connection: Connection) {
    guard connection.isOpen, !connection.isMarked else { return }
    if toAcknowledge.isEmpty { acknowledgePoint.mark() }
    connection.isMarked = true
    toAcknowledge.append(connection)
  }

  func acknowledge() {
    let connections = toAcknowledge
    toAcknowledge = []
    for connection in connections {
      connection.isMarked = false
      connection.acknowledge()
    }
  }
}
