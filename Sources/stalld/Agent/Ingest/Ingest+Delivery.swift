/// Lines on their way to the outputs, and the acknowledgements of those that have arrived.
extension Ingest {
  func enqueue(_ report: ReportLine, from connection: Connection?) {
    send(
      TransitLine(
        connection: connection?.number ?? 0, number: connection?.received ?? 0, process: report.processID, line: report,
        bytes: report.bytes.count), of: connection)
    destination.didTake(report)
  }

  /// A line that goes nowhere; but its acknowledgement must not overtake the line that it repeats.
  func finishAtOnce(_ connection: Connection) {
    guard underWay > 0 else { return mark(connection) }
    // One place is enough for many: a line break is a line, too.
    if let last = batch.last, last.connection == connection.number, last.line == nil {
      batch[batch.count - 1].number = connection.received
      return
    }
    send(
      TransitLine(
        connection: connection.number, number: connection.received, process: connection.process.peer.pid, line: nil,
        bytes: MemoryLayout<TransitLine>.stride), of: connection)
  }

  func send(_ delivery: TransitLine, of connection: Connection?) {
    if batch.isEmpty { submitPoint.mark() }
    batch.append(delivery)
    underWay += 1
    queuedBytes += delivery.bytes
    connection?.outstanding += 1
    connection?.outstandingBytes += delivery.bytes
  }

  func submit() {
    let deliveries = batch
    batch = []
    if !deliveries.isEmpty { destination.submit(deliveries) }
  }

  /// These have arrived.
  func didFinish(_ deliveries: some Sequence<TransitLine>) {
    for delivery in deliveries {
      underWay -= 1
      queuedBytes -= delivery.bytes
      guard let connection = connections[delivery.connection] else { continue }
      connection.didFinish(line: delivery.number, bytes: delivery.bytes)
      mark(connection)
    }
    resumeWaiting()
  }

  func mark(_ connection: Connection) {
    guard connection.isOpen else { return }
    if toAcknowledge.isEmpty { acknowledgePoint.mark() }
    toAcknowledge[connection.number] = connection
  }

  func acknowledge() {
    let connections = toAcknowledge.values
    toAcknowledge = [:]
    for connection in connections { connection.acknowledge(on: loop) }
  }

  func resumeWaiting() {
    guard !waitingForRoom.isEmpty, queuedBytes < policy.memory / 2 else { return }
    for (number, connection) in waitingForRoom where connection.outstandingBytes < policy.memory / 32 {
      waitingForRoom[number] = nil
      connection.resume(on: loop)
    }
  }
}
