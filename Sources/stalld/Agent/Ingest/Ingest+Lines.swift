import StallMonitor
import StallReport

/// What the lines of a process say, and what is refused.
extension Ingest {
  func takeReport(
    _ line: UnsafeBufferPointer<UInt8>, _ parts: LineScanner.Parts, from connection: Connection
  ) throws(LineScanner.Fault) {
    func text(_ range: Range<Int>?) -> String? { Self.text(range, in: line) }
    if connection.hasSaidHello, parts.isOfAnotherKind { return finishAtOnce(connection) }
    guard let event = Self.event(parts.eventName, in: line) ?? text(parts.eventName),
      Self.events.contains(event) || Self.isOfLaterVersion(event: event, schema: text(parts.schema))
    else {
      let reason =
        Self.isControlRequest(line)
        ? Self.otherSocket : "event.name is not one of \(Self.events.joined(separator: ", "))"
      return refuse(connection, reason, .notAReport)
    }
    guard let id = text(parts.stallID),
      let sequence = parts.sequence.flatMap({ UInt64(String(decoding: line[$0], as: UTF8.self)) }),
      (1...Self.highestSequence).contains(sequence),
      let identity = ReportIdentity(
        id: id.utf8, event: event, sequence: sequence, user: connection.process.peer.uid)
    else {
      return refuse(
        connection, "stall.id is not 32 hexadecimal digits, or stall.sequence is not a whole number from 1", .notAReport
      )
    }
    guard text(parts.schema)?.hasPrefix("1.") == true else {
      return refuse(connection, "event.schema is not 1.x", .notAReport)
    }
    let duration = parts.duration.flatMap { Double(String(decoding: line[$0], as: UTF8.self)) } ?? 0
    guard let time = text(parts.time).flatMap({ Timestamp(rfc3339: $0, form: .report)?.nanosecondsSince1970 }),
      Self.times.contains(time)
    else {
      return refuse(
        connection, "@timestamp is not a UTC time of the years 2000 to 2099, such as 2026-01-31T12:00:00Z", .notAReport)
    }
    if let missing = parts.missing {
      return refuse(connection, "\(missing) is missing or does not match the schema", .notAReport)
    }
    let stamped = connection.stamp.apply(to: line, parts)
    // Only the frames and the other threads are shortened.
    guard stamped.count - parts.omittableBytes <= Self.longestReport - Self.spare else {
      return refuse(connection, "longer than \(Self.longestReport) bytes even without frames", .tooLong)
    }
    let (process, peer) = (connection.process, connection.process.peer)
    let report = ReportLine(
      bytes: stamped, event: event, isError: text(parts.level) == "error",
      service: text(parts.serviceName).map(Self.unescaped) ?? connection.service ?? "",
      cause: text(parts.cause) ?? "unknown", durationMilliseconds: duration, stallID: id, processID: peer.pid,
      userID: peer.uid, place: peer.place, identity: identity, controlGroup: peer.cgroup ?? "", lane: process.lane,
      lacksNames: parts.lacksNames, unnamedBuilds: parts.unnamedBuilds)
    // A line of an ended process that this one delivers is about no stall of its own.
    let reportedID = parts.reportedProcessID(in: line)
    if connection.ownProcessID == nil || reportedID == nil || reportedID == connection.ownProcessID,
      process.canHaveReported(at: time)
    {
      follow(report, sequence: sequence, of: connection)
    }
    let dropped = parts.dropped.flatMap { Int(String(decoding: line[$0], as: UTF8.self)) }
    accept(report, dropped: dropped ?? 0, from: connection)
  }

  /// Sends a report on its way, unless it is known already or its user has had its part of the day.
  ///
  /// `dropped` is how many lines the service has dropped before it.
  private func accept(_ report: ReportLine, dropped: Int, from connection: Connection) {
    guard recent.insert(report.identity) else {
      metrics.linesDuplicate()
      return finishAtOnce(connection, repeating: report.identity)
    }
    if dropped > 0 { metrics.linesDroppedByHost(dropped, of: connection.process.peer) }
    guard isWithinQuota(report, of: connection.process.peer) else { return tellOfQuota(connection) }
    enqueue(report, from: connection)
  }

  /// The event, if it is one of those that are known: no text of its own for each line.
  private static func event(_ range: Range<Int>?, in line: UnsafeBufferPointer<UInt8>) -> String? {
    guard let range, range.count >= 2 else { return nil }
    return events.first {
      $0.utf8.count == range.count - 2 && $0.utf8.elementsEqual(line[range].dropFirst().dropLast())
    }
  }

  /// Whether a line is what `stalld status`, `tail` or `reload` sends, to the wrong socket.
  private static func isControlRequest(_ line: UnsafeBufferPointer<UInt8>) -> Bool {
    guard line.count <= 100, let text = try? JSONText(Array(line)) else { return false }
    return ControlServer.requests.contains { text.root[$0] != nil }
  }

  private static let otherSocket =
    "this socket is for services; use --control PATH with the agent's control socket (setting control.path, or --control of stalld run)"

  /// A string's text, as it is written; nil if it is longer than 200 bytes, or no string.
  private static func text(_ range: Range<Int>?, in line: UnsafeBufferPointer<UInt8>) -> String? {
    guard let range, range.count >= 2, range.count <= 200, line[range.lowerBound] == UInt8(ascii: "\"") else {
      return nil
    }
    return String(decoding: line[(range.lowerBound + 1)..<(range.upperBound - 1)], as: UTF8.self)
  }

  /// Informs a process once that a line is not written; it is acknowledged, so that it does not come again.
  private func tellOfQuota(_ connection: Connection) {
    if !connection.hasHeardOfQuota {
      let reason = "its user or its unit has reached the daily limit (limits.user_bytes_per_day)"
      connection.send("{\"error\":\"line \(connection.received) is not written: \(reason)\"}", on: loop)
    }
    connection.hasHeardOfQuota = true
    finishAtOnce(connection)
  }

  /// 2000-01-01 to 2099-12-31: a clock may be wrong, and jump; a year that readers cannot sort by is no time.
  static let times: Range<UInt64> = 946_684_800_000_000_000..<4_102_444_800_000_000_000

  /// What is known of open stalls is bounded, too: a quarter of the memory limit, of one user as much as is left, and of one process a sixty-fourth.
  func follow(_ report: ReportLine, sequence: UInt64, of connection: Connection) {
    let process = connection.process
    endElsewhere(report, of: process)
    // Who has left is worth less than who is there.
    let limit = policy.memory / 4
    while openBytes.total + report.bytes.count > limit, let first = absent.first { forget(first) }
    let hasRoom = openBytes.allows(report.bytes.count, for: process.peer.owner, limit: limit)
    let room = hasRoom ? max(policy.memory / 64, Self.leastRoom) : 0
    let isFollowed = changeStalls(of: process) {
      $0.follow(report, sequence: sequence, room: room, recovery: connection.recovery)
    }
    if !isFollowed {
      clientLog.say(
        .warning, .clientContained, of: process.peer.owner, about: "open-\(process.peer.pid)",
        "\(process.peer.description) has too many stalls in progress: if it ends in one, no stall.fatal is written"
      )
    }
  }

  /// Ends the same stall where the same process has reported it with other credentials.
  private func endElsewhere(_ report: ReportLine, of process: PeerProcess) {
    guard let known = processes[process.peer.pid], known.count > 1,
      [.ended, .fatal].contains(Report.Event(rawValue: report.event))
    else { return }
    for other in known where other !== process && !other.hasEnded {
      changeStalls(of: other) { $0.end(report.stallID) }
      if other.openStalls.isEmpty { forget(other) }
    }
  }

  static let events = Report.Event.allCases.map(\.rawValue)

  static func unescaped(_ text: String) -> String {
    guard text.contains("\\"), let value = try? JSONText(Array("\"\(text)\"".utf8)) else { return text }
    return value.string(value.root) ?? text
  }

  func takeHello(
    _ line: UnsafeBufferPointer<UInt8>, _ parts: LineScanner.Parts, from connection: Connection
  ) throws(LineScanner.Fault) {
    guard let payload = parts.payload else { return }
    let greeting = try HostGreeting(UnsafeBufferPointer(rebasing: line[payload]))
    connection.service = greeting.service
    connection.ownProcessID = greeting.processID
    connection.hasSaidHello = true
    metrics.linesSpooled(greeting.spooled, of: connection.process.peer)
    if greeting.recoveryVersion >= 1 { giveRecovery(to: connection) }
    sendSettings(to: connection)
  }

  /// Gives the process memory to note in when its stalls are over.
  func giveRecovery(to connection: Connection) {
    guard connection.recovery == nil, connection.process.recoveries < Self.recoveryLimitOfProcess,
      let memory = recoveries.memory(of: connection.process.peer.owner), !descriptors.isReserved(memory.descriptor),
      connection.send("{\"recovery\":{\"version\":\(RecoveryFormat.version)}}", with: memory.descriptor)
    else { return }
    connection.recovery = memory
  }

  func takeDetail(
    _ line: UnsafeBufferPointer<UInt8>, _ parts: LineScanner.Parts, from connection: Connection
  ) throws(LineScanner.Fault) {
    guard let payload = parts.payload else { return }
    let header = try DetailHeader(UnsafeBufferPointer(rebasing: line[payload]))
    destination.storeDetail(header.stallID, connection.process.peer, Array(line[payload]))
  }

  // MARK: Settings

  /// Hands the settings out again: they have been changed.
  func sendSettingsToAll() { connections.values.forEach(sendSettings) }

  func sendSettings(to connection: Connection) {
    guard connection.hasSaidHello,
      let settings = destination.settings(connection.process.peer.unit, connection.service)
    else { return }
    connection.send("{\"settings\":\(settings)}", on: loop)
  }

  // MARK: Refusal

  func refuse(_ connection: Connection, _ reason: String, _ kind: AgentMetrics.LineRefusal) {
    metrics.lineRefused(kind)
    connection.faults += 1
    clientLog.say(
      .warning, .clientContained, of: connection.process.peer.owner,
      about: "line-\(connection.process.peer.complaintKey)-\(kind.rawValue)",
      "line \(connection.received) of \(connection.process.peer.description) was refused: \(reason)")
    connection.send("{\"error\":\"line \(connection.received): \(reason)\"}", on: loop)
    guard connection.faults < Self.faultLimit else {
      return drop(connection, "\(connection.faults) of its lines were refused")
    }
    finishAtOnce(connection)
  }

  func drop(
    _ connection: Connection, _ reason: String, _ kind: AgentMetrics.LineRefusal? = nil,
    because refusal: AgentMetrics.ConnectionRefusal = .misbehaved
  ) {
    if let kind { metrics.lineRefused(kind) }
    metrics.connectionRefused(refusal)
    clientLog.say(
      .warning, .clientContained, of: connection.process.peer.owner,
      about: "drop-\(connection.process.peer.complaintKey)-\(kind?.rawValue ?? "")",
      "closed the connection of \(connection.process.peer.description): \(reason)")
    // What was refused for good need not come again.
    connection.acknowledge()
    connection.send("{\"error\":\"closed: \(reason)\"}", on: loop)
    end(connection)
  }
}
