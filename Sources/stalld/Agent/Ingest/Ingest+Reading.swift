import Glibc
import LoopEngine

/// What is read of a connection, and when nothing is.
extension Ingest {
  /// A connection is readable.
  func read(_ connection: Connection) {
    guard hasRoom(for: connection) else { return wait(connection) }
    guard hasTurn(connection) else { return hold(connection) }
    readOnce(connection)
    guard connection.isOpen else { return }
    if connection.holdsLines { hold(connection) }
    // A connection with lines in transit is acknowledged when they have arrived.
    if connection.outstanding == 0 { mark(connection) }
  }

  /// Reads a piece, and takes the lines that there are tokens for, but no more than `limit`.
  ///
  /// Returns whether there was something to read.
  @discardableResult
  func readOnce(_ connection: Connection, upTo limit: Int = .max) -> Bool {
    guard let base = scratch.baseAddress else { return false }
    let count = recv(connection.descriptor, base, scratch.count, Int32(MSG_DONTWAIT))
    guard count > 0 else {
      if count < 0 && (errno == EAGAIN || errno == EINTR) {
        endIfDue(connection.process)
      } else {
        end(connection)
      }
      return false
    }
    let before = connection.received
    take(UnsafeBufferPointer(rebasing: scratch[..<count]), from: connection, limit: limit)
    connection.lineRate.count(Int(connection.received - before))
    if connection.isOpen { timeIncomplete(connection) }
    return true
  }

  /// Takes lines that have been read before and waited for tokens.
  func takeHeld(of connection: Connection, limit: Int = .max) {
    guard connection.holdsLines else { return }
    let bytes = connection.rest
    connection.rest = []
    connection.holdsLines = false
    let before = connection.received
    bytes.withUnsafeBufferPointer { take($0, from: connection, limit: limit) }
    connection.lineRate.count(Int(connection.received - before))
    if connection.isOpen { timeIncomplete(connection) }
  }

  func timeIncomplete(_ connection: Connection) {
    guard !connection.rest.isEmpty || connection.discardedBytes != nil else {
      return connection.stopTimingLine()
    }
    guard connection.incompleteTimer == nil else { return }
    let ingest = UncheckedReference(self)
    let number = connection.number
    connection.incompleteTimer = loop.perform(after: policy.incompleteLineTimeout, name: "a line takes too long") {
      _ in
      guard let ingest = ingest.object, let connection = ingest.connections[number] else { return }
      // A connection that the agent has paused cannot continue by itself.
      guard !connection.isPaused else {
        connection.incompleteTimer = nil
        return ingest.timeIncomplete(connection)
      }
      ingest.drop(
        connection, "a line was not finished within \(ingest.policy.incompleteLineTimeout)", .incomplete)
    }
  }

  /// Splits what was read into lines, and takes those that there are tokens for, but no more than `limit`; the rest stays in the connection.
  private func take(_ bytes: UnsafeBufferPointer<UInt8>, from connection: Connection, limit: Int) {
    var rest = discard(bytes, of: connection)
    var left = limit
    while let base = rest.baseAddress, let newline = memchr(base, 0x0a, rest.count) {
      guard left > 0, connection.share.hasToken else {
        connection.holdsLines = true
        connection.rest.append(contentsOf: rest)
        releaseUnfinished(of: connection)
        return
      }
      left -= 1
      let length = UnsafeRawPointer(newline) - UnsafeRawPointer(base)
      let piece = UnsafeBufferPointer(start: base, count: length)
      if connection.rest.isEmpty {
        handle(piece, from: connection)
      } else {
        connection.rest.append(contentsOf: piece)
        let whole = connection.rest
        connection.rest = []
        releaseUnfinished(of: connection)
        whole.withUnsafeBufferPointer { handle($0, from: connection) }
      }
      connection.stopTimingLine()
      guard connection.isOpen else { return }
      rest = UnsafeBufferPointer(rebasing: rest[(length + 1)...])
      if rest.isEmpty { break }
    }
    guard !rest.isEmpty else { return }
    guard connection.rest.count + rest.count <= policy.lineBytes else { return beginDiscarding(rest, of: connection) }
    connection.rest.append(contentsOf: rest)
    if !accountUnfinished(connection) {
      drop(connection, "unfinished lines of its user use too much memory (limits.memory)", .incomplete)
    }
  }

  /// Begins to discard a line that is too long.
  ///
  /// It is refused, and acknowledged, when its newline has come: before that, the client has not sent it.
  private func beginDiscarding(_ bytes: UnsafeBufferPointer<UInt8>, of connection: Connection) {
    let length = connection.rest.count + bytes.count
    connection.share.take(bytes: length)
    connection.discardedBytes = length
    connection.rest = []
    releaseUnfinished(of: connection)
  }

  /// Discards more of a line that is too long, and refuses it at its newline.
  ///
  /// Returns what comes after it.
  private func discard(
    _ bytes: UnsafeBufferPointer<UInt8>, of connection: Connection
  ) -> UnsafeBufferPointer<UInt8> {
    guard let before = connection.discardedBytes else { return bytes }
    let nothing = UnsafeBufferPointer(rebasing: bytes[bytes.count...])
    let end = bytes.firstIndex(of: 0x0a) ?? bytes.count
    connection.share.take(bytes: end)
    connection.discardedBytes = before + end
    guard before + end <= AgentSettings.longestLine else {
      drop(connection, "a line is longer than \(AgentSettings.longestLine) bytes", .tooLong)
      return nothing
    }
    guard end < bytes.count else { return nothing }
    connection.discardedBytes = nil
    connection.stopTimingLine()
    countLine(of: connection)
    refuseTooLong(connection)
    return connection.isOpen ? UnsafeBufferPointer(rebasing: bytes[(end + 1)...]) : nothing
  }

  /// Counts a line of any kind.
  private func countLine(of connection: Connection) {
    connection.received += 1
    metrics.linesIngested()
  }

  private func refuseTooLong(_ connection: Connection) {
    refuse(connection, "longer than \(policy.lineBytes) bytes (limits.line_bytes)", .tooLong)
  }

  func handle(_ line: UnsafeBufferPointer<UInt8>, from connection: Connection) {
    connection.share.take(bytes: line.count)
    countLine(of: connection)
    // Blank lines are ignored.
    if line.allSatisfy({ $0 <= 0x20 }) { return finishAtOnce(connection) }
    guard line.count <= policy.lineBytes else { return refuseTooLong(connection) }
    do {
      let parts = try LineScanner.scan(line)
      switch parts.kind {
      case .report: try takeReport(line, parts, from: connection)
      case .hello: try takeHello(line, parts, from: connection)
      case .detail: try takeDetail(line, parts, from: connection)
      case .goodbye: forgetStalls(of: connection.process)
      }
      if parts.kind != .report { finishAtOnce(connection) }
    } catch {
      refuse(connection, "\(error.reason), at byte \(error.position + 1)", .notJSON)
    }
  }
}
