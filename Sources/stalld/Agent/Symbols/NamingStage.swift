import LoopEngine

/// Names the frames of lines between the services and the outputs, and never delays a line for long.
///
/// Lines of one process keep their order. If names take too long, or too many lines wait for them,
/// lines are written without names; `stalld symbolicate` can still name them. Belongs to the
/// agent's loop.
final class NamingStage {
  struct Counters: Equatable {
    /// Frames that were named, and frames of builds that no file was found for.
    var hits: UInt64 = 0
    var misses: UInt64 = 0
    /// What the tables and answers take.
    var bytes = 0
    /// Lines without names that were written without a look-up, or before it ended.
    var unnamedLines: UInt64 = 0
    /// How often the worker had to be started again.
    var restarts: UInt64 = 0
  }

  private struct Entry {
    var delivery: PendingLine
    /// Nil if it only waits for earlier lines of its process, or for the line that it repeats.
    var lane: String?
    var since = Loop.Instant.now
    var isReady: Bool
  }

  private let loop: Loop
  /// What has been in force since the start.
  let settings: AgentSettings.Symbolication
  private let forward: ([PendingLine]) -> Void
  /// For everybody's lines, and for those whose files take long.
  private var desk: NamingDesk!
  private var patientDesk: NamingDesk!
  private var missingBuilds = MissingBuilds()
  private var lanes = NamingLanes()
  private var entries: [UInt64: Entry] = [:]
  /// The lines of each process, in order.
  private var processes: [Int32: ArraySlice<UInt64>] = [:]
  /// Lines that want names by their identity, and the repetitions that wait for each.
  private var originals: [ReportIdentity: UInt64] = [:]
  private var repetitions: [UInt64: [UInt64]] = [:]
  /// All lines that want names, oldest first.
  private var order: ArraySlice<UInt64> = []
  private var nextNumber: UInt64 = 1
  private var timer: Loop.Timer?
  private var done: [PendingLine] = []
  private var unnamed: UInt64 = 0

  /// The number of lines that are released together: shortening them takes time.
  private static let portion = 64

  /// `forward` gets lines, and what only keeps its place, in an order that is each process's own.
  ///
  /// `executable` is what the workers run. The patient one ends after `patientIdleTime` without a line.
  init(
    loop: Loop, settings: AgentSettings.Symbolication, executable: String = "/proc/self/exe",
    patientIdleTime: Duration = .seconds(60), forward: @escaping ([PendingLine]) -> Void
  ) {
    self.loop = loop
    self.settings = settings
    self.forward = forward
    func desk(isPatient: Bool) -> NamingDesk {
      NamingDesk(
        loop: loop, settings: settings, isPatient: isPatient, executable: executable, idleTime: patientIdleTime,
        delegate: NamingDesk.Delegate(
          next: { [unowned self] in nextRequest(isPatient: isPatient) },
          didAnswer: { [unowned self] in didAnswer($0, $1, isPatient: isPatient) },
          didGiveBack: { [unowned self] in didGiveBack($0, suspect: $1, isSlow: $2) },
          didPass: { [unowned self] in passOn() }))
    }
    self.desk = desk(isPatient: false)
    patientDesk = desk(isPatient: true)
  }

  /// A service has connected: the worker is started, so that its first line need not wait for that.
  func prepare() { if settings.enabled { desk.prepare() } }

  var counters: Counters {
    var counters = desk.counters
    let patient = patientDesk.counters
    counters.hits &+= patient.hits
    counters.misses &+= patient.misses
    counters.bytes += patient.bytes
    counters.restarts &+= patient.restarts
    counters.unnamedLines = unnamed
    return counters
  }

  /// The workers, for tests.
  var workerProcess: Int32? { desk.workerProcess }
  var patientWorkerProcess: Int32? { patientDesk.workerProcess }
  var patientCounters: Counters { patientDesk.counters }
  var backlog: Int { entries.count }

  func submit(_ deliveries: [PendingLine]) {
    if processes.isEmpty, !deliveries.contains(where: wantsNames) {
      unnamed += UInt64(deliveries.count { $0.line?.lacksNames ?? false })
      return forward(deliveries.contains(where: isLong) ? deliveries.map(shortened) : deliveries)
    }
    for delivery in deliveries {
      let wantsNames = wantsNames(delivery)
      if let line = delivery.line, line.lacksNames, !wantsNames { unnamed += 1 }
      let original = original(of: delivery)
      guard wantsNames || original != nil || processes[delivery.process] != nil else {
        done.append(shortened(delivery))
        continue
      }
      let number = nextNumber
      nextNumber += 1
      let lane = wantsNames ? delivery.line?.lane : nil
      entries[number] = Entry(
        delivery: wantsNames ? delivery : shortened(delivery), lane: lane, isReady: !wantsNames && original == nil)
      processes[delivery.process, default: []].append(number)
      if let original { repetitions[original, default: []].append(number) }
      guard let lane else { continue }
      order.append(number)
      lanes.add(number, to: lane)
      if let identity = delivery.line?.identity { originals[identity] = number }
    }
    work()
    passOn()
    watchTime()
  }

  /// The line that this one repeats, if that still waits: another process may have sent it.
  private func original(of delivery: PendingLine) -> UInt64? {
    delivery.repeats.flatMap { originals[$0] ?? originals[$0.ofRoot] }
  }

  private func work() {
    desk.work()
    patientDesk.work()
  }

  private func isLong(_ delivery: PendingLine) -> Bool {
    delivery.line.map { $0.bytes.count > Ingest.longestReport } ?? false
  }

  private func wantsNames(_ delivery: PendingLine) -> Bool {
    guard settings.enabled, let line = delivery.line, line.lacksNames || line.bytes.count > Ingest.longestReport else {
      return false
    }
    return !missingBuilds.contains(line) && isServing(line.lane) && lanes.hasRoom(line.lane)
      && !lanes.isPunished(line.lane)
  }

  private func isServing(_ lane: String) -> Bool { (lanes.isSlow(lane) ? patientDesk : desk).isServing }

  private func shortened(_ delivery: PendingLine) -> PendingLine {
    guard let line = delivery.line, line.bytes.count > Ingest.longestReport else { return delivery }
    var result = delivery
    result.line?.shorten()
    return result
  }

  // MARK: The worker's side

  private func nextRequest(isPatient: Bool) -> NamingMessage.Request? {
    while let (number, lane) = lanes.next(isPatient: isPatient) {
      // What came while the first of its kind was asked for has no hope, either.
      if let entry = entries[number], !entry.isReady, let line = entry.delivery.line, !lanes.isPunished(lane),
        !missingBuilds.contains(line)
      {
        return NamingMessage.Request(
          number: number, process: line.processID, user: line.userID, controlGroup: line.controlGroup, lane: lane,
          line: Array(line.bytes.dropLast()))
      }
      // It was written without names, or is now.
      lanes.didReturn(to: lane)
      giveUp(number)
    }
    return nil
  }

  private func didAnswer(_ sent: NamingDesk.Sent, _ answer: NamingMessage.Answer, isPatient: Bool) {
    if answer.kind == .cut, !isPatient { return slowDown(sent) }
    lanes.didReturn(to: sent.lane)
    guard let entry = entries[sent.number], !entry.isReady, var line = entry.delivery.line else { return }
    if answer.kind == .completed { line.takeNames(answer.line) }
    if answer.flag { missingBuilds.insert(line) }
    settle(sent.number, line)
  }

  /// The line needs more time than everybody's worker has for it.
  private func slowDown(_ sent: NamingDesk.Sent) {
    lanes.slowDown(sent.lane)
    lanes.sendAgain([sent.number], of: sent.lane)
    patientDesk.work()
  }

  /// The worker has ended: these are to be sent again, but for the one that it ended of, unless that only took long.
  private func didGiveBack(_ sent: [NamingDesk.Sent], suspect: UInt64?, isSlow: Bool) {
    if isSlow, let line = sent.first(where: { $0.number == suspect }) { lanes.slowDown(line.lane) }
    let suspect = isSlow ? nil : suspect
    for (lane, own) in Dictionary(grouping: sent, by: \.lane) {
      lanes.sendAgain(own.map(\.number).filter { $0 != suspect }.sorted(), of: lane)
    }
    // What is overdue now need not wait for its time.
    timer?.invalidate()
    timer = nil
    defer { watchTime() }
    if isSlow { patientDesk.work() }
    guard let suspect, let lane = sent.first(where: { $0.number == suspect })?.lane else { return }
    lanes.didReturn(to: lane)
    let time = lanes.punish(lane)
    let user = entries[suspect]?.delivery.line?.userID
    let unit = user.map { "a unit of user \($0)" } ?? "unit \(lane)"
    desk.complain("lines of \(unit) are written without names for \(time)", of: lane)
    if let line = entries[suspect]?.delivery.line { missingBuilds.insert(line) }
    giveUp(suspect)
  }

  // MARK: On their way

  /// A line leaves the stage, with names or without, after the earlier ones of its process.
  private func settle(_ number: UInt64, _ line: ReportLine) {
    guard var entry = entries[number], let lane = entry.lane, !entry.isReady else { return }
    entry.delivery.line = line
    entry.delivery = shortened(entry.delivery)
    entry.isReady = true
    entries[number] = entry
    lanes.didSettle(lane)
    release(entry.delivery.process)
  }

  /// Passes on what is ready of a process, and the repetitions that waited for it.
  private func release(_ process: Int32) {
    var processes = [process]
    while let process = processes.popLast() {
      while let first = self.processes[process]?.first, let entry = entries[first], entry.isReady {
        self.processes[process]?.removeFirst()
        entries[first] = nil
        done.append(entry.delivery)
        if let identity = entry.delivery.line?.identity, originals[identity] == first { originals[identity] = nil }
        for repetition in repetitions.removeValue(forKey: first) ?? [] {
          entries[repetition]?.isReady = true
          if let other = entries[repetition]?.delivery.process { processes.append(other) }
        }
      }
      if self.processes[process]?.isEmpty ?? false { self.processes[process] = nil }
    }
  }

  private func giveUp(_ number: UInt64) {
    guard let entry = entries[number], !entry.isReady, let line = entry.delivery.line else { return }
    unnamed += 1
    settle(number, line)
  }

  private func passOn() {
    guard !done.isEmpty else { return }
    let lines = done
    done = []
    forward(lines)
  }

  // MARK: Time

  private func watchTime() {
    guard timer == nil, let time = timeToNext() else { return }
    let stage = UncheckedReference(self)
    timer = loop.perform(after: max(.milliseconds(1), time), name: "names take too long") { _ in
      guard let stage = stage.object else { return }
      stage.timer = nil
      stage.giveUpOverdue()
      stage.watchTime()
    }
  }

  /// Nil if nothing waits.
  private func timeToNext() -> Duration? {
    while let first = order.first, entries[first].map(\.isReady) ?? true { order.removeFirst() }
    guard let first = order.first, let entry = entries[first] else { return nil }
    if isOverdue(entry) { return .zero }
    return settings.timeLimit - entry.since.duration(to: .now)
  }

  private func isOverdue(_ entry: Entry) -> Bool {
    let lane = entry.lane ?? ""
    return entry.since.duration(to: .now) >= settings.timeLimit || !isServing(lane) || lanes.isPunished(lane)
  }

  private func giveUpOverdue() {
    var count = 0
    while count < Self.portion, timeToNext() == .zero, let first = order.popFirst() {
      giveUp(first)
      count += 1
    }
    passOn()
  }

  /// Forwards all that waits as it came, in order, and ends the worker.
  func stop() {
    timer?.invalidate()
    for number in order { giveUp(number) }
    order = []
    passOn()
    desk.stop()
    patientDesk.stop()
  }
}
