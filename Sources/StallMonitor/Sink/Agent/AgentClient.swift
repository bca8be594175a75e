import PlatformLibc
import StallCapture
import StallReport

/// Talks with the agent: connects, sends what is not acknowledged, and reads what it says (`Documentation/AgentProtocol.md`).
///
/// Belongs to a thread of its own. With the agent there and nothing to say, that sleeps in one poll without a timeout.
/// It has many dependencies because one state decides what is sent next and when the thread wakes: lines, settings, recovery and attempts
/// share that connection and that poll.
final class AgentClient: OutputClient {
  /// After how long the agent is tried again: the first time, and at most, in nanoseconds.
  private static let retryIntervals: ClosedRange<UInt64> = 100_000_000...30_000_000_000
  /// A new line is a reason to try at once, but not more often than this.
  private static let shortestInterval: UInt64 = 100_000_000
  /// An agent that is absent for about this time is reported, in nanoseconds: when the intervals between the attempts have come to it.
  private static let silentTime: UInt64 = 10_000_000_000
  /// A connection that ends sooner has failed, also if lines were exchanged.
  private static let steadyTime: UInt64 = 10_000_000_000
  /// After how long a line that is not acknowledged goes into the file.
  private static let patience: UInt64 = 1_000_000_000
  /// How many lines that nobody waits for may come in which time.
  private static let chatterLimit = 200
  private static let chatterInterval: UInt64 = 10_000_000_000
  /// How many problems are logged in which time at most, each once.
  private static let complaintLimit = 8
  private static let complaintInterval: UInt64 = 3_600_000_000_000

  private let sink: OutputSink
  private let path: String
  private let origin: Report.Origin
  private let spool: Spool
  private let earlier: EarlierSpools
  private let box: TuningBox
  private let configuration: StallMonitorConfiguration
  private let recovery: RecoveryPage?

  private var connection: AgentConnection?
  /// What goes with this connection, and was not sent yet.
  private var courtesies: [[UInt8]] = []
  /// The number of the spool's next line that was not sent on this connection.
  private var next: UInt64 = 0
  /// The last line of each stall in progress, and its number.
  private var open: [(id: String, serial: UInt64, line: [UInt8])] = []
  private var tuning = Tuning()
  private var taken: UInt64 = 0
  private var request: OutputSink.Request?
  private var hasSaidGoodbye = false
  private var isBlocked = false

  private var nextAttempt: UInt64 = 0
  private var lastAttempt: UInt64 = 0
  private var isHeard = false
  private var chatter = 0
  private var chatterEnd: UInt64 = 0
  /// The next attempt is a new line's, and says nothing of when the one after it is due.
  private var isOutOfTurn = false
  private var interval = AgentClient.retryIntervals.lowerBound
  private var nextComplaint: UInt64 = 0
  private var complaints: Set<String> = []

  /// - Parameters:
  ///   - sink: Where lines come from.
  ///   - path: The agent's socket.
  ///   - origin: Who speaks.
  ///   - location: Where the spool's file is to be; nil for memory alone.
  ///   - box: Where the agent's settings go.
  ///   - configuration: The process's own configuration.
  ///   - recovery: Where the loops note that a stall is over.
  init(
    sink: OutputSink, path: String, origin: Report.Origin, location: Spool.Location?,
    box: TuningBox, configuration: StallMonitorConfiguration, recovery: RecoveryPage? = nil
  ) {
    self.recovery = recovery
    self.sink = sink
    self.path = path
    self.box = box
    self.configuration = configuration
    spool = Spool(in: location)
    earlier = EarlierSpools(directory: location?.directory, prefix: location?.prefix ?? "")
    self.origin = origin
    spool.didLose = { [unowned self] lost in
      // One that was sent may have arrived; it is lost if the connection ends without a word of it.
      if connection == nil || lost.serial >= next { sink.lose(lost.count) }
    }
  }

  /// Who speaks, and how many lines wait.
  private var hello: [UInt8] {
    var line = JSONWriter()
    line.object("hello") {
      $0.member("protocol", 1)
      $0.object("service") {
        $0.member("name", origin.serviceName.limited(to: 200))
        $0.member("version", origin.serviceVersion?.limited(to: 100))
      }
      $0.object("process") { $0.member("pid", origin.processID) }
      $0.member("spooled", spool.count)
      if recovery != nil { $0.member("recovery", RecoveryFormat.version) }
    }
    return line.terminated()
  }

  /// Talks until the sink is closed.
  func run() {
    while true {
      let woken = sink.waker.reset()
      take()
      if connection == nil, MonotonicClock.now() >= nextAttempt { connect() }
      if connection != nil { talk() }
      keep()
      if spool.isEmpty, !hasOwnUnderway { sink.settle(taken) }
      if finish() { return end() }
      wait(woken)
    }
  }

  // MARK: The watchdog's lines

  private func take() {
    let new = sink.take()
    taken = new.lines
    // An end may be among what was lost: a stall in progress is reported again by its next line.
    if new.hasLost { open = [] }
    if let request = new.request { self.request = request }
    for item in new.items {
      switch item {
      case .detail(let detail): spool.append(OutgoingLine(detail.bytes), isDetail: true)
      case .line(let line):
        let serial = spool.append(line)
        guard let stall = line.stall else { continue }
        open.removeAll { $0.id == stall.id }
        if !stall.isOver { open.append((stall.id, serial, line.bytes)) }
      }
    }
    if !new.items.isEmpty || new.request != nil {
      let soon = lastAttempt + Self.shortestInterval
      if soon < nextAttempt { (nextAttempt, isOutOfTurn) = (soon, true) }
    }
  }

  /// Whether a line of ours was sent, and nothing was heard of it.
  private var hasOwnUnderway: Bool {
    connection?.unacknowledged.contains { if case .own = $0 { true } else { false } } ?? false
  }

  /// Whether a dead process's line was sent, and nothing was heard of it.
  private var hasEarlierUnderway: Bool {
    connection?.unacknowledged.contains { if case .earlier = $0 { true } else { false } } ?? false
  }

  /// Writes unacknowledged lines to the spool file: all lines without a connection, and with one
  /// those that wait for a second.
  private func keep() {
    guard connection != nil else { return spool.keep() }
    let now = MonotonicClock.now()
    if now > Self.patience { spool.keep(before: now - Self.patience) }
  }

  // MARK: Connecting

  private func connect() {
    lastAttempt = MonotonicClock.now()
    do {
      connection = try AgentConnection(path: path)
      // A stall whose last line is in the spool is reported by that line.
      courtesies = [hello] + open.filter { !spool.contains($0.serial) }.map(\.line)
      next = 0
      isHeard = false
    } catch {
      // An agent that has not started yet, or that restarts, is no error; a path that is wrong stays so.
      let mayPass = error.code == ENOENT || error.code == ECONNREFUSED || error.code == EAGAIN
      if !mayPass || interval >= Self.silentTime {
        let advice = error.code == EACCES ? "let user \(geteuid()) connect" : "start the agent"
        complain(
          "cannot connect to the agent at \(path): \(error.reason); \(advice), or correct the path of the sink. Reports are kept; retrying"
        )
      }
      planAttempt()
    }
  }

  /// Counts as lost the lines that were sent and neither acknowledged nor kept.
  private func countLost() {
    for case .own(let serial, let droppedBefore) in connection?.unacknowledged ?? [] where !spool.contains(serial) {
      sink.lose(1 + droppedBefore)
    }
  }

  private func planAttempt() {
    nextAttempt = lastAttempt + interval
    if !isOutOfTurn { interval = min(2 * interval, Self.retryIntervals.upperBound) }
    isOutOfTurn = false
  }

  private func disconnect(_ failure: AgentConnection.Failure) {
    if case .confused(let what) = failure {
      complain("the process that serves \(path) is not a stalld agent: \(what). Reports are kept; retrying")
    }
    countLost()
    connection = nil
    isBlocked = false
    earlier.connectionEnded()
    if isHeard, MonotonicClock.now() >= lastAttempt + Self.steadyTime { interval = Self.retryIntervals.lowerBound }
    planAttempt()
  }

  // MARK: Talking

  private func talk() {
    do throws(AgentConnection.Failure) {
      guard let connection else { return }
      try listen(to: connection)
      connection.closeGiven()
      isBlocked = try !send(on: connection)
    } catch {
      disconnect(lastWords(before: error))
    }
  }

  private func listen(to connection: AgentConnection) throws(AgentConnection.Failure) {
    for _ in 0..<16 {
      let lines = try connection.receive()
      if lines.isEmpty { break }
      for line in lines { try hear(line, on: connection) }
    }
  }

  /// Reads what the agent said before it closed the connection, such as why; a failure to send may come first.
  private func lastWords(before failure: AgentConnection.Failure) -> AgentConnection.Failure {
    guard case .ended = failure, let connection else { return failure }
    do throws(AgentConnection.Failure) {
      try listen(to: connection)
      return failure
    } catch {
      return error
    }
  }

  /// Sends what there is to send; false if the agent takes no more for now.
  private func send(on connection: AgentConnection) throws(AgentConnection.Failure) -> Bool {
    while try connection.flush() {
      if !courtesies.isEmpty {
        connection.load(courtesies.removeFirst(), .courtesy)
      } else if let line = earlier.next() {
        connection.load(line, .earlier)
      } else if let (serial, line) = spool.next(from: next) {
        connection.load(line.bytes, .own(serial: serial, droppedBefore: line.droppedBefore))
        next = serial + 1
      } else if case .close = request, !hasSaidGoodbye {
        hasSaidGoodbye = true
        connection.load(Array("{\"goodbye\":{}}\n".utf8), .courtesy)
      } else {
        return true
      }
    }
    return false
  }

  private func hear(_ line: [UInt8], on connection: AgentConnection) throws(AgentConnection.Failure) {
    guard let message = AgentMessage(line) else { throw .confused("a line that is not part of the protocol") }
    isHeard = true
    switch message {
    case .acknowledged(let total):
      var last: UInt64?
      let done = try connection.acknowledge(total)
      if done.isEmpty { try countChatter() }
      for line in done {
        switch line {
        case .courtesy: break
        case .earlier: earlier.acknowledgeFirst()
        case .own(let serial, _): last = serial
        }
      }
      if let last { spool.acknowledge(through: last) }
    case .settings(let settings, let text):
      try countChatter()
      retune(settings, text)
    case .error(let reason):
      try countChatter()
      complain("the agent reports: \(reason.printable(limit: 200))")
    case .recovery:
      try countChatter()
      guard let descriptor = connection.takeGiven() else { return }
      _ = recovery?.show(descriptor)
      close(descriptor)
    case .unknown: try countChatter()
    }
  }

  /// A message that does not concern our lines also costs the service's time.
  private func countChatter() throws(AgentConnection.Failure) {
    let now = MonotonicClock.now()
    if now >= chatterEnd { (chatter, chatterEnd) = (0, now + Self.chatterInterval) }
    chatter += 1
    guard chatter <= Self.chatterLimit else {
      throw .confused(
        "\(Self.chatterLimit) lines within \(Self.chatterInterval / 1_000_000_000) s without a request")
    }
  }

  private func retune(_ settings: JSONText.Value, _ text: JSONText) {
    var problems: [String] = []
    let new = Tuning(settings, of: text, current: tuning, configuration: configuration, problems: &problems)
    if !problems.isEmpty { complain("the agent's settings are invalid: \(problems.joined(separator: "; "))") }
    guard new != tuning else { return }
    tuning = new
    box.put(new)
    sink.tell()
  }

  /// Logs a problem, within ``complaintLimit``: an agent must not fill the service's log.
  private func complain(_ text: String) {
    let now = MonotonicClock.now()
    if now >= nextComplaint { (nextComplaint, complaints) = (now + Self.complaintInterval, []) }
    guard complaints.count < Self.complaintLimit, complaints.insert(text).inserted else { return }
    Diagnostics.say(text)
  }

  // MARK: The end

  /// Does what the watchdog waits for, if it is time; true if that was the end.
  private func finish() -> Bool {
    guard let request else { return false }
    let isLast: Bool
    let deadline: UInt64
    switch request {
    case .settle(let time): (isLast, deadline) = (false, time)
    case .close(let time): (isLast, deadline) = (true, time)
    }
    let isSettled =
      spool.isEmpty && !hasOwnUnderway && !(isLast && hasEarlierUnderway) && !(connection?.isSending ?? false)
    // Nobody who is not there comes back within a second.
    guard isSettled || connection == nil || MonotonicClock.now() >= deadline else { return false }
    self.request = nil
    if !spool.isEmpty, spool.save() { sink.settle(taken) }
    guard isLast else {
      sink.answer()
      return false
    }
    logRest()
    sink.willEnd()
    return true
  }

  /// Logs at the end what becomes of the reports that the agent has not acknowledged; nothing if there are none.
  private func logRest() {
    countLost()
    let (kept, lost) = (UInt64(spool.count), sink.takeDropped())
    guard kept + lost > 0 else { return }
    var outcomes: [String] = []
    if kept > 0, let file = spool.filePath {
      outcomes.append(
        "\(kept) \(kept == 1 ? "is" : "are") kept in \(file), and the next start of the service sends \(kept == 1 ? "it" : "them")"
      )
    }
    if lost > 0 { outcomes.append("\(lost) could not be kept and \(lost == 1 ? "is" : "are") lost") }
    let reports = kept + lost == 1 ? "1 report" : "\(kept + lost) reports"
    Diagnostics.say("the agent at \(path) has not accepted \(reports): \(outcomes.joined(separator: "; "))")
  }

  /// Releases its resources.
  private func end() {
    connection = nil
    spool.close()
    earlier.close()
  }

  // MARK: Waiting

  private func wait(_ woken: Int32?) {
    var deadline: UInt64?
    if connection == nil { deadline = nextAttempt }
    if connection != nil, let time = spool.oldestUnkept { deadline = min(deadline ?? .max, time + Self.patience + 1) }
    switch request {
    case .settle(let time), .close(let time): deadline = min(deadline ?? .max, time)
    case nil: break
    }
    let entry = pollfd(
      fd: connection?.descriptor ?? -1, events: Int16(isBlocked ? POLLIN | POLLOUT : POLLIN), revents: 0)
    sink.waker.sleep(on: woken, or: entry, until: deadline)
  }
}
