import CLinux
import Glibc
import LoopEngine
import StallMonitor

/// Takes the reports of all hosts: who may connect, what is read of whom, and who is told what.
///
/// Belongs to the agent's loop. Lines leave it in the order in which they came; each connection is told when its own have arrived.
final class Ingest {
  /// What the operator allows.
  struct Policy: Equatable {
    var linesPerSecond = 500.0
    var lineBytes = 256 << 10
    var connections = 4096
    var connectionsPerUser = 2048
    var memory = 64 << 20
    var incompleteLineTimeout: Duration = .seconds(30)
    /// Empty together with the groups: everybody who may open the socket.
    var allowedUsers: Set<UInt32> = []
    var allowedGroups: Set<UInt32> = []

    func allows(_ peer: Peer) -> Bool {
      if allowedUsers.isEmpty && allowedGroups.isEmpty { return true }
      // Its own stalls.
      if peer.pid == getpid() { return true }
      return allowedUsers.contains(peer.uid) || allowedGroups.contains(peer.gid)
        || peer.groups.contains(where: allowedGroups.contains)
    }
  }

  /// Where what comes in goes.
  struct Destination {
    /// Lines, and places of lines, in order; ``Ingest/didFinish(_:)`` is told which have arrived.
    var submit: ([TransitLine]) -> Void
    /// All samples of a stall: its id, and the JSON object.
    var storeDetail: (String, [UInt8]) -> Void
    /// The settings that a host gets, as a JSON object; nil if it gets none.
    var settings: (_ unit: String?, _ service: String?) -> String?
    /// A stall has been told, or a repetition of its line has been recognised.
    var didTake: (ReportLine) -> Void = { _ in }
  }

  /// The longest report, which a log shipper's default must take.
  static let longestReport = 8000
  /// What the agent adds to a report: how a process ended, and what was left out.
  private static let spare = 400
  // One more is `stall.fatal`'s.
  private static let highestSequence = UInt64(1) << 62
  private static let readSize = 64 << 10
  private static let faultLimit = 100
  private static let inquiryLimit = 16
  private static let drainLimit: Duration = .seconds(2)
  /// Two of the longest lines of a host.
  private static let leastRoom = 128 << 10
  /// A crash closes the sockets before the process has ended, but not long before.
  private static let endLimit: Duration = .seconds(30)

  private let loop: Loop
  private let destination: Destination
  private(set) var policy: Policy
  private let metrics: AgentMetrics
  private var listener: Loop.DescriptorSource?
  private(set) var connections: [UInt64: Connection] = [:]
  private var connectionsOfUser: [UInt32: Int] = [:]
  private var processes: [Int32: PeerProcess] = [:]
  private var nextNumber: UInt64 = 1
  private var recent = RecentReports()
  private var complaints = Complaints()
  private var inquiries: [UInt64: ExitInquiry] = [:]
  private var nextInquiry: UInt64 = 1

  private var batch: [TransitLine] = []
  /// Lines, and places of lines, that are on their way to the outputs.
  private var underWay = 0
  /// Bytes of the lines of open stalls.
  private var openBytes = 0
  /// Bytes of lines that are on their way to the outputs.
  private(set) var queuedBytes = 0
  private var submitPoint: Loop.FlushPoint!
  private var acknowledgePoint: Loop.FlushPoint!
  private var toAcknowledge: [UInt64: Connection] = [:]
  /// Connections that are not read from until there is room.
  private var waitingForRoom: [UInt64: Connection] = [:]
  private let scratch = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: readSize)

  init(loop: Loop, policy: Policy, metrics: AgentMetrics, destination: Destination) {
    self.loop = loop
    self.metrics = metrics
    self.policy = policy
    self.destination = destination
    let ingest = UncheckedReference(self)
    submitPoint = loop.flushPoint(order: 0, name: "submit lines") { ingest.object?.submit() }
    acknowledgePoint = loop.flushPoint(order: 1, name: "acknowledge lines") { ingest.object?.acknowledge() }
  }

  deinit { scratch.deallocate() }

  /// Stalls that have been told and have not ended, by process.
  var openStalls: Int { processes.values.reduce(0) { $0 + $1.openStalls.count } }

  // MARK: Connections

  /// Lets hosts connect.
  func listen(at descriptor: Int32) throws {
    let ingest = UncheckedReference(self)
    let source = Loop.DescriptorSource(descriptor, name: "hosts connect") { _, _ in
      ingest.object?.accept(from: descriptor)
    }
    listener = source
    try loop.add(source)
  }

  /// Remembers a report that was written by an earlier run of the agent.
  func remember(_ identity: ReportIdentity) { _ = recent.insert(identity) }

  /// New limits hold at once, those of who may connect for the next that do.
  func update(_ policy: Policy) {
    self.policy = policy
    resumeWaiting()
  }

  private func accept(from descriptor: Int32) {
    for _ in 0..<64 {
      let socket = clinux_accept(descriptor)
      if socket < 0 {
        if errno == EINTR || errno == ECONNABORTED { continue }
        if errno != EAGAIN { pauseListening(String(cString: strerror(errno))) }
        return
      }
      admit(socket)
    }
  }

  /// No descriptors are left, say: the socket stays readable, and asking it on and on would help nobody.
  private func pauseListening(_ reason: String) {
    complaints.say(.error, about: "accept", "no connection can be accepted for a second: \(reason)")
    listener?.interest = []
    let ingest = UncheckedReference(self)
    loop.schedule(after: .seconds(1), name: "accept again") { _ in ingest.object?.listener?.interest = .readable }
  }

  private func admit(_ socket: Int32) {
    guard let (peer, pidfd) = Peer.of(socket: socket) else {
      Glibc.close(socket)
      return
    }
    func refuse(_ why: AgentMetrics.ConnectionRefusal, _ reason: String) {
      metrics.connectionRefused(why)
      complaints.say(
        .warning, .connectionRefused, about: "\(why)-\(peer.uid)",
        "refused a connection of \(peer.description): \(reason)")
      let line = Array("{\"error\":\"refused: \(reason)\"}\n".utf8)
      _ = Glibc.send(socket, line, line.count, Int32(MSG_NOSIGNAL | MSG_DONTWAIT))
      Glibc.close(socket)
      if pidfd >= 0 { Glibc.close(pidfd) }
    }
    guard peer.pid > 0 else {
      return refuse(.unknownProcess, "its process is in a PID namespace that the agent cannot see")
    }
    guard policy.allows(peer) else { return refuse(.notAllowed, "its user and groups are not under socket.allow") }
    guard connections.count < policy.connections else {
      return refuse(.tooMany, "there are \(connections.count) connections already (limits.connections)")
    }
    let ofUser = connectionsOfUser[peer.uid, default: 0]
    guard ofUser < policy.connectionsPerUser else {
      return refuse(.tooManyOfUser, "its user has \(ofUser) connections already (limits.connections_per_user)")
    }
    let connection = Connection(
      number: nextNumber, descriptor: socket, process: process(peer, pidfd), burst: policy.linesPerSecond * 4)
    nextNumber += 1
    do {
      try connection.watch(on: loop) { [unowned self] in read($0) }
    } catch {
      complaints.say(.error, about: "watch", "a connection cannot be watched: \(error)")
      connection.close()
      forget(connection.process)
      return
    }
    metrics.connectionAccepted()
    connections[connection.number] = connection
    connectionsOfUser[peer.uid] = ofUser + 1
    connection.process.connections[connection.number] = connection
  }

  private func process(_ peer: Peer, _ pidfd: Int32) -> PeerProcess {
    if let known = processes[peer.pid] {
      if !known.hasEnded {
        if pidfd >= 0 { Glibc.close(pidfd) }
        return known
      }
      // The number is another process's by now; the end of the former one has not been told yet.
      if !known.openStalls.isEmpty { processDidEnd(known) }
    }
    let process = PeerProcess(peer: peer, pidfd: pidfd)
    processes[peer.pid] = process
    return process
  }

  // MARK: Reading

  private func read(_ connection: Connection) {
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

  private func wait(_ connection: Connection) {
    connection.pause()
    waitingForRoom[connection.number] = connection
    complaints.say(
      .warning, .clientContained, about: "memory-\(queuedBytes >= policy.memory ? 0 : connection.number)",
      queuedBytes >= policy.memory
        ? "the outputs take nothing and \(queuedBytes >> 20) MiB wait for them (limits.memory): hosts keep their reports for now"
        : "\(connection.process.peer.description) has \(connection.outstandingBytes >> 10) KiB on their way: no more is read from it until they have arrived"
    )
  }

  private func slow(_ connection: Connection, for pause: Duration) {
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

  private func timeIncomplete(_ connection: Connection) {
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
  private func take(_ bytes: UnsafeBufferPointer<UInt8>, from connection: Connection) {
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

  private func handle(_ line: UnsafeBufferPointer<UInt8>, from connection: Connection) {
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

  private func takeReport(
    _ line: UnsafeBufferPointer<UInt8>, _ parts: LineScanner.Parts, from connection: Connection
  ) throws(LineScanner.Fault) {
    func text(_ range: Range<Int>?, _ limit: Int = 200) -> String? {
      guard let range, range.count >= 2, range.count <= limit, line[range.lowerBound] == UInt8(ascii: "\"") else {
        return nil
      }
      return String(decoding: line[(range.lowerBound + 1)..<(range.upperBound - 1)], as: UTF8.self)
    }
    guard let event = text(parts.eventName), Self.events.contains(event) else {
      return refuse(connection, "event.name is none of \(Self.events.joined(separator: ", "))", .notAReport)
    }
    guard let id = text(parts.stallID),
      let sequence = parts.sequence.flatMap({ UInt64(String(decoding: line[$0], as: UTF8.self)) }),
      (1...Self.highestSequence).contains(sequence),
      let identity = ReportIdentity(id: id.utf8, sequence: event == "stall.fatal" ? 0 : sequence)
    else {
      return refuse(
        connection, "stall.id is not 32 hexadecimal digits, or stall.sequence no whole number from 1", .notAReport)
    }
    guard text(parts.schema)?.hasPrefix("1.") == true else {
      return refuse(connection, "event.schema is not 1.x", .notAReport)
    }
    let duration = parts.duration.flatMap { Double(String(decoding: line[$0], as: UTF8.self)) } ?? 0
    guard duration.isFinite else { return refuse(connection, "stall.duration_ms is too large", .notAReport) }
    if let missing = parts.missing {
      return refuse(connection, "\(missing) is missing, or not what the schema has there", .notAReport)
    }
    let stamped = connection.stamp.apply(to: line, parts)
    // The frames give way, and the other threads; nothing else does.
    guard stamped.count - parts.omittableBytes <= Self.longestReport - Self.spare else {
      return refuse(connection, "longer than \(Self.longestReport) bytes without any frame", .tooLong)
    }
    if let dropped = parts.dropped.flatMap({ Int(String(decoding: line[$0], as: UTF8.self)) }) {
      metrics.linesDroppedByHost(dropped)
    }
    let report = ReportLine(
      bytes: stamped, event: event, isError: text(parts.level) == "error",
      service: text(parts.serviceName).map(Self.unescaped) ?? connection.service ?? "",
      cause: text(parts.cause) ?? "unknown",
      durationMilliseconds: duration,
      stallID: id, processID: connection.process.peer.pid, userID: connection.process.peer.uid)
    // What an ended process left, and this one hands over, is none of this one's stalls.
    let reportedID = parts.reportedProcessID(in: line)
    if connection.ownProcessID == nil || reportedID == nil || reportedID == connection.ownProcessID {
      follow(report, sequence: sequence, of: connection.process)
    }
    guard recent.insert(identity) else {
      metrics.linesDuplicate()
      return finishAtOnce(connection)
    }
    enqueue(report, from: connection)
  }

  /// What is known of open stalls is bounded, too: a quarter of the memory limit, and of one process a sixty-fourth.
  private func follow(_ report: ReportLine, sequence: UInt64, of process: PeerProcess) {
    let before = process.openBytes
    let hasRoom = openBytes + report.bytes.count <= policy.memory / 4
    let isFollowed = process.follow(
      report, sequence: sequence, room: hasRoom ? max(policy.memory / 64, Self.leastRoom) : 0)
    openBytes += process.openBytes - before
    if !isFollowed {
      complaints.say(
        .warning, .clientContained, about: "open-\(process.peer.pid)",
        "\(process.peer.description) has more stalls under way than there is room for: if it ends in one, that is not told"
      )
    }
    process.updateWatch(on: loop, endHandler(of: process))
  }

  private static let events = ["stall.started", "stall.ongoing", "stall.ended", "stall.fatal", "stall.suppressed"]

  private static func unescaped(_ text: String) -> String {
    guard text.contains("\\"), let value = try? JSONText(Array("\"\(text)\"".utf8)) else { return text }
    return value.string(value.root) ?? text
  }

  private func takeHello(_ line: UnsafeBufferPointer<UInt8>, _ parts: LineScanner.Parts, from connection: Connection) {
    guard let payload = parts.payload, let hello = try? JSONText(Array(line[payload])) else { return }
    connection.service = hello.string(hello.root["service"]?["name"])?.limited(to: 200)
    connection.ownProcessID = hello.integer(hello.root["process"]?["pid"])
    connection.hasSaidHello = true
    sendSettings(to: connection)
  }

  private func takeDetail(
    _ line: UnsafeBufferPointer<UInt8>, _ parts: LineScanner.Parts, from connection: Connection
  ) throws(LineScanner.Fault) {
    guard let payload = parts.payload, let detail = try? JSONText(Array(line[payload])),
      let id = detail.string(detail.root["id"]), ReportIdentity(id: id.utf8, sequence: 0) != nil
    else { throw LineScanner.Fault(reason: "detail.id is not 32 hexadecimal digits", position: 0) }
    destination.storeDetail(id, Array(line[payload]))
  }

  // MARK: Settings

  /// Hands the settings out again: they have been changed.
  func sendSettingsToAll() { connections.values.forEach(sendSettings) }

  private func sendSettings(to connection: Connection) {
    guard connection.hasSaidHello,
      let settings = destination.settings(connection.process.peer.unit, connection.service)
    else { return }
    connection.send("{\"settings\":\(settings)}", on: loop)
  }

  // MARK: Refusal

  private func refuse(_ connection: Connection, _ reason: String, _ kind: AgentMetrics.LineRefusal) {
    metrics.lineRefused(kind)
    connection.faults += 1
    complaints.say(
      .warning, .clientContained, about: "line-\(connection.process.peer.place)",
      "line \(connection.received) of \(connection.process.peer.description) is refused: \(reason)")
    connection.send("{\"error\":\"line \(connection.received): \(reason)\"}", on: loop)
    guard connection.faults < Self.faultLimit else {
      return drop(connection, "\(connection.faults) of its lines had to be refused")
    }
    finishAtOnce(connection)
  }

  private func drop(
    _ connection: Connection, _ reason: String, _ kind: AgentMetrics.LineRefusal? = nil
  ) {
    if let kind { metrics.lineRefused(kind) }
    metrics.connectionRefused(.misbehaved)
    complaints.say(
      .warning, .clientContained, about: "drop-\(connection.process.peer.place)-\(kind?.rawValue ?? "")",
      "the connection of \(connection.process.peer.description) is closed: \(reason)")
    // What was refused for good need not come again.
    connection.acknowledge(on: loop)
    connection.send("{\"error\":\"closed: \(reason)\"}", on: loop)
    end(connection)
  }

  // MARK: TransitLine

  private func enqueue(_ report: ReportLine, from connection: Connection?) {
    send(
      TransitLine(
        connection: connection?.number ?? 0, number: connection?.received ?? 0, process: report.processID, line: report,
        bytes: report.bytes.count), of: connection)
    destination.didTake(report)
  }

  /// A line that goes nowhere; but its acknowledgement must not overtake the line that it repeats.
  private func finishAtOnce(_ connection: Connection) {
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

  private func send(_ delivery: TransitLine, of connection: Connection?) {
    if batch.isEmpty { submitPoint.mark() }
    batch.append(delivery)
    underWay += 1
    queuedBytes += delivery.bytes
    connection?.outstanding += 1
    connection?.outstandingBytes += delivery.bytes
  }

  private func submit() {
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

  private func mark(_ connection: Connection) {
    guard connection.isOpen else { return }
    if toAcknowledge.isEmpty { acknowledgePoint.mark() }
    toAcknowledge[connection.number] = connection
  }

  private func acknowledge() {
    let connections = toAcknowledge.values
    toAcknowledge = [:]
    for connection in connections { connection.acknowledge(on: loop) }
  }

  private func resumeWaiting() {
    guard !waitingForRoom.isEmpty, queuedBytes < policy.memory / 2 else { return }
    for (number, connection) in waitingForRoom where connection.outstandingBytes < policy.memory / 32 {
      waitingForRoom[number] = nil
      connection.resume(on: loop)
    }
  }

  // MARK: Ends

  private func end(_ connection: Connection) {
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

  private func forget(_ process: PeerProcess) {
    guard process.connections.isEmpty else { return }
    forgetStalls(of: process)
    if processes[process.peer.pid] === process { processes[process.peer.pid] = nil }
  }

  /// Its stalls; they are followed no longer.
  @discardableResult
  private func forgetStalls(of process: PeerProcess) -> [OpenStall] {
    openBytes -= process.openBytes
    let stalls = process.takeStalls()
    process.updateWatch(on: loop) {}
    return stalls
  }

  private func endHandler(of process: PeerProcess) -> @Sendable () -> Void {
    let ingest = UncheckedReference(self)
    let weak = UncheckedReference(process)
    return {
      guard let process = weak.object else { return }
      ingest.object?.processDidEnd(process)
    }
  }

  private func processDidEnd(_ process: PeerProcess) {
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

  private func readRest(of connection: Connection, until deadline: Loop.Instant = .distantFuture) {
    // At most what a socket's buffers hold.
    for _ in 0..<64 {
      guard connection.isOpen, Loop.Instant.now < deadline, let base = scratch.baseAddress else { return }
      let count = recv(connection.descriptor, base, scratch.count, Int32(MSG_DONTWAIT))
      guard count > 0 else { return }
      take(UnsafeBufferPointer(rebasing: scratch[..<count]), from: connection)
    }
  }

  private func tellEnd(of stalls: [OpenStall], _ reason: ExitReason) {
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
