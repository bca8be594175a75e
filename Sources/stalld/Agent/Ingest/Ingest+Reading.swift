import Glibc
import LoopEngine

/// What is read of a connection, and when nothing is.
extension Ingest {
  func read(_ connection: Connection) {
    guard queuedBytes < policy.memory, connection.outstandingBytes < policy.memory / 16 else {
      return wait(connection)
    }
    guard let base = scratch.baseAddress else { return }
    let count = recv(connection.descriptor, base, scratch.count, Int32(MSG_DONTWAIT))
    guard count > 0 else {
      if count < 0 && (errno == EAGAIN || errno == EINTR) { return }
      return end(connection)
    }
    let before = connection.received
    take(UnsafeBufferPointer(rebasing: scratch[..<count]), from: connection)
    guard connection.isOpen else { return }
    let lines = Int(connection.received - before)
    if let pause = connection.take(lines: lines, rate: policy.linesPerSecond) { slow(connection, for: pause) }
    timeIncomplete(connection)
    mark(connection)
  }

  func wait(_ connection: Connection) {
    connection.pause()
    waitingForRoom[connection.number] = connection
    complaints.say(
      .warning, .clientContained, about: "memory-\(queuedBytes >= policy.memory ? 0 : connection.number)",
      queuedBytes >= policy.memory
        ? "the outputs take nothing and \(queuedBytes >> 20) MiB wait for them (limits.memory): hosts keep their reports for now"
        : "\(connection.process.peer.description) has \(connection.outstandingBytes >> 10) KiB on their way: no more is read from it until they have arrived"
    )
  }

  func slow(_ connection: Connection, for pause: Duration) {
    complaints.say(
      .warning, .clientContained, about: "rate-\(connection.process.peer.place)",
      "\(connection.process.peer.description) sends more than \(Int(policy.linesPerSecond)) lines a second (limits.lines_per_second): it is slowed to that"
    )
    connection.pause()
    let ingest = UncheckedReference(self)
    let number = connection.number
    loop.schedule(after: pause, name: "read a slowed host") { _ in
      guard let ingest = ingest.object, let connection = ingest.connections[number],
        ingest.waitingForRoom[number] == nil
      else { return }
      connection.resume(on: ingest.loop)
    }
  }

  func timeIncomplete(_ connection: Connection) {
    guard !connection.incomplete.isEmpty else {
      connection.incompleteTimer?.invalidate()
      connection.incompleteTimer = nil
      return
    }
    guard connection.incompleteTimer == nil else { return }
    let ingest = UncheckedReference(self)
    let number = connection.number
    connection.incompleteTimer = loop.schedule(after: policy.incompleteLineTimeout, name: "a line takes too long") {
      _ in
      guard let ingest = ingest.object, let connection = ingest.connections[number] else { return }
      // What is paused by us cannot go on.
      guard !connection.isPaused else {
        connection.incompleteTimer = nil
        return ingest.timeIncomplete(connection)
      }
      ingest.drop(
        connection, "a line was not finished within \(ingest.policy.incompleteLineTimeout)", .incomplete)
    }
  }

  /// Splits what was read into lines.
  func take(_ bytes: UnsafeBufferPointer<UInt8>, from connection: Connection) {
    var rest = bytes
    while let base = rest.baseAddress, let newline = memchr(base, 0x0a, rest.count) {
      let length = UnsafeRawPointer(newline) - UnsafeRawPointer(base)
      let piece = UnsafeBufferPointer(start: base, count: length)
      if connection.incomplete.isEmpty {
        handle(piece, from: connection)
      } else {
        connection.incomplete.append(contentsOf: piece)
        let whole = connection.incomplete
        connection.incomplete = []
        whole.withUnsafeBufferPointer { handle($0, from: connection) }
      }
      // The next line's time begins anew.
      connection.incompleteTimer?.invalidate()
      connection.incompleteTimer = nil
      guard connection.isOpen else { return }
      rest = UnsafeBufferPointer(rebasing: rest[(length + 1)...])
      if rest.isEmpty { break }
    }
    guard !rest.isEmpty else { return }
    guard connection.incomplete.count + rest.count <= policy.lineBytes else {
      return drop(connection, "a line is longer than \(policy.lineBytes) bytes (limits.line_bytes)", .tooLong)
    }
    connection.incomplete.append(contentsOf: rest)
  }

  func handle(_ line: UnsafeBufferPointer<UInt8>, from connection: Connection) {
    connection.received += 1
    metrics.linesIngested()
    // A blank line is nobody's.
    if line.allSatisfy({ $0 <= 0x20 }) { return finishAtOnce(connection) }
    guard line.count <= policy.lineBytes else {
      return refuse(connection, "longer than \(policy.lineBytes) bytes (limits.line_bytes)", .tooLong)
    }
    do {
      let parts = try LineScanner.scan(line)
      switch parts.kind {
      case .report: try takeReport(line, parts, from: connection)
      case .hello: takeHello(line, parts, from: connection)
      case .detail: try takeDetail(line, parts, from: connection)
      case .goodbye: forgetStalls(of: connection.process)
      }
      if parts.kind != .report { finishAtOnce(connection) }
    } catch {
      refuse(connection, "\(error.reason), at byte \(error.position)", .notJSON)
    }
  }
}
