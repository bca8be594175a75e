import LoopEngine

/// Keeps a worker busy with lines, and watches over it: one that takes too long or too much is killed and started again.
///
/// There are two: one for everybody's lines, which gives other users' files little time, and a patient one for the lines of those whose files
/// need more, so that they wait for each other and nobody waits for them.
///
/// Belongs to the agent's loop. It has many dependencies because one state decides what is sent next
/// and when the worker is killed or started: its lines, its time, its failures in a row, and the
/// ends of earlier workers.
final class NamingDesk {
  /// Whose lines they are.
  struct Delegate {
    /// The next line to be named, if there is one.
    var next: () -> NamingMessage.Request?
    var didAnswer: (Sent, NamingMessage.Answer) -> Void
    /// The worker has ended; `suspect` is the line that it ended of, if that is known, and `isSlow` says that the line only took long.
    var didGiveBack: (_ sent: [Sent], _ suspect: UInt64?, _ isSlow: Bool) -> Void
    /// Some lines have been answered or given back.
    var didPass: () -> Void
  }

  /// A line that the worker has.
  struct Sent {
    var number: UInt64
    var lane: String
  }

  /// What the worker is at: since when, and with what processor time at that moment.
  private struct Work {
    var number: UInt64?
    var isTrusted = true
    var since = Loop.Instant.now
    var processorTime: UInt64?
  }

  private let loop: Loop
  private let isPatient: Bool
  private let settings: AgentSettings.Symbolication
  private let program: NameWorkerProcess.Program
  private let delegate: Delegate
  private var worker: NameWorkerProcess?
  /// Killed, and not yet waited for.
  private var ending: [Int32: NameWorkerProcess] = [:]
  private var sent: [UInt64: Sent] = [:]
  private var current = Work()
  private var timer: Loop.Timer?
  private var idleTimer: Loop.Timer?
  private let idleTime: Duration
  /// After an end that no line is known for: that many are sent one by one.
  private var single = 0
  /// Starts in a row that came to nothing, and until when there is no other one.
  private var failures = 0
  private var restUntil: Loop.Instant?
  private var clientLog = ClientLog()
  private(set) var counters = NamingStage.Counters()

  /// Lines and bytes that the worker is given at a time.
  private static let window = 64
  private static let windowBytes = 256 << 10
  private static let checkInterval: Duration = .milliseconds(50)
  private static let endingLimit = 4
  /// What another user's file may take of everybody's worker: to be read, and to be opened.
  private static let quickTime: Duration = .milliseconds(10)
  private static let quickLimit: Duration = .milliseconds(50)
  private static let quickWait: Duration = .milliseconds(100)

  init(
    loop: Loop, settings: AgentSettings.Symbolication, isPatient: Bool, executable: String, idleTime: Duration,
    delegate: Delegate
  ) {
    self.idleTime = idleTime
    self.loop = loop
    self.isPatient = isPatient
    self.settings = settings
    self.delegate = delegate
    program = NameWorkerProcess.Program(
      path: executable,
      // So that three tries, each with twice the time, stay below what ``check()`` grants.
      arguments: [
        "name-worker", "--cache", String(settings.cache), "--slice",
        String(max(10, Int(settings.timeLimit / .milliseconds(40)))),
      ] + (isPatient ? [] : ["--strangers", String(Int(Self.quickTime / .milliseconds(1)))])
        + settings.debugDirectories.flatMap { ["--debug-dir", $0] })
  }

  var workerProcess: Int32? { worker?.process }

  /// Whether lines can be named now, or soon.
  var isServing: Bool { restUntil.map { $0 <= .now } ?? true }

  /// Starts the worker, unless it is there: its start is not to be waited for by the first line.
  func prepare() { if worker == nil, isServing { _ = start() } }

  // MARK: Lines

  /// Gives the worker what it has space for.
  func work() {
    while sent.count < (single > 0 ? 1 : Self.window), (worker?.unsentBytes ?? 0) < Self.windowBytes, isServing,
      let request = delegate.next()
    {
      if sent.isEmpty { begin(nil) }
      sent[request.number] = Sent(number: request.number, lane: request.lane)
      guard let worker = worker ?? start() else { break }
      worker.send(request)
    }
    worker?.flush()
    if !sent.isEmpty { watch() }
    endWhenIdle()
  }

  /// Ends the worker when nothing has been asked of it for a while, if the next one need not be fast.
  private func endWhenIdle() {
    guard isPatient, sent.isEmpty, worker != nil, idleTimer == nil else { return }
    let desk = UncheckedReference(self)
    idleTimer = loop.perform(after: idleTime, name: "end of an idle name worker") { _ in
      guard let desk = desk.object else { return }
      desk.idleTimer = nil
      guard desk.sent.isEmpty, let worker = desk.worker else { return }
      let rest = desk.idleTime - desk.current.since.duration(to: .now)
      // It has worked meanwhile.
      guard rest <= .zero else { return desk.endWhenIdle() }
      desk.worker = nil
      desk.ending[worker.process] = worker
      worker.kill()
    }
  }

  private func take(_ answer: NamingMessage.Answer) {
    guard let line = sent[answer.number] else {
      // It says what it was not asked.
      return kill("it answered for a line that it was not given", suspect: nil)
    }
    if answer.kind == .begun { return begin(answer.number, isTrusted: answer.flag) }
    sent[answer.number] = nil
    begin(nil)
    failures = 0
    single = max(0, single - 1)
    counters.hits &+= UInt64(answer.hits)
    counters.misses &+= UInt64(answer.misses)
    counters.bytes = Int(clamping: answer.cacheBytes)
    delegate.didAnswer(line, answer)
    loopPass()
  }

  private var isPassing = false

  /// Once for all the answers of a turn.
  private func loopPass() {
    guard !isPassing else { return }
    isPassing = true
    let desk = UncheckedReference(self)
    loop.perform(name: "lines with names") {
      guard let desk = desk.object else { return }
      desk.isPassing = false
      desk.work()
      desk.delegate.didPass()
    }
  }

  /// Logs what a user's lines have caused, or what is wrong with the worker if no line is known for it.
  func complain(_ text: String, of lane: String? = nil) {
    clientLog.say(
      .warning, .clientContained, of: lane.flatMap(Peer.owner(ofLane:)),
      about: "names-\(lane ?? "")-\(text.prefix(40))", text)
  }

  // MARK: The worker

  private func start() -> NameWorkerProcess? {
    let desk = UncheckedReference(self)
    do {
      guard ending.count < Self.endingLimit else {
        throw NameWorkerProcess.Failure(
          description: "\(ending.count) earlier processes were killed but have not exited")
      }
      let worker = try NameWorkerProcess(
        program, loop: loop, didAnswer: { desk.object?.take($0) },
        didEnd: { worker, how in desk.object?.didEnd(worker, how) })
      if restUntil != nil { AgentLog.say(.notice, "function names are looked up again") }
      restUntil = nil
      self.worker = worker
      return worker
    } catch {
      rest("cannot start the process that looks up function names: \(error)")
      giveBack(suspect: nil)
      return nil
    }
  }

  private func rest(_ reason: String) {
    failures += 1
    let time = Duration.seconds(min(1 << min(failures - 1, 6), 60))
    if failures == 1 { AgentLog.say(.error, "\(reason); reports are written without names; retrying") }
    restUntil = .now.advanced(by: time)
  }

  private func didEnd(_ worker: NameWorkerProcess, _ how: String) {
    ending[worker.process] = nil
    guard worker === self.worker else { return }
    self.worker = nil
    counters.restarts += 1
    if worker.hasAnswered {
      complain("the process that looks up function names \(how); restarting it", of: lane(of: suspect))
    } else {
      rest("the process that looks up function names \(how) before its first answer")
    }
    giveBack(suspect: suspect)
  }

  /// The line that the worker was at, if that is known.
  private var suspect: UInt64? { current.number ?? onlyLine }

  /// The line that the worker has, if it has one alone.
  private var onlyLine: UInt64? { sent.count == 1 ? sent.keys.first : nil }

  private func lane(of line: UInt64?) -> String? { line.flatMap { sent[$0]?.lane } }

  private func kill(_ reason: String, suspect: UInt64?, isSlow: Bool = false) {
    guard let worker else { return }
    let suspect = suspect ?? onlyLine
    complain("restarting the process that looks up function names: \(reason)", of: lane(of: suspect))
    counters.restarts += 1
    self.worker = nil
    ending[worker.process] = worker
    worker.kill()
    giveBack(suspect: suspect, isSlow: isSlow)
  }

  private func giveBack(suspect: UInt64?, isSlow: Bool = false) {
    let lines = Array(sent.values)
    sent = [:]
    current = Work()
    // One by one, the line will be found.
    if suspect == nil { single = max(single, lines.count) }
    delegate.didGiveBack(lines, suspect, isSlow)
    loopPass()
  }

  // MARK: Limits

  private func begin(_ number: UInt64?, isTrusted: Bool = true) {
    current = Work(number: number, isTrusted: isTrusted, processorTime: worker?.processorTime)
  }

  private func watch() {
    guard timer == nil else { return }
    let desk = UncheckedReference(self)
    timer = loop.perform(after: Self.checkInterval, name: "the name worker's limits") { _ in
      guard let desk = desk.object else { return }
      desk.timer = nil
      desk.check()
      if !desk.sent.isEmpty { desk.watch() }
    }
  }

  private func check() {
    guard let worker, !sent.isEmpty else { return }
    // A file that another user can have written gets less time; root's files, and work without a file, get more.
    let share = current.number == nil || current.isTrusted ? 1 : 2
    let time = current.since.duration(to: .now)
    let used = Duration.nanoseconds(
      Int64(clamping: (worker.processorTime ?? 0) &- (current.processorTime ?? worker.processorTime ?? 0)))
    let isStrangers = !isPatient && current.number != nil && !current.isTrusted
    if isStrangers, used > min(Self.quickLimit, settings.timeLimit / 8) {
      kill("\(Self.untrusted) took \(used) of CPU time; \(Self.consequence)", suspect: current.number, isSlow: true)
    } else if isStrangers, time > min(Self.quickWait, settings.timeLimit / 4), !worker.isRunnable {
      kill("\(Self.untrusted) blocked for \(time); \(Self.consequence)", suspect: current.number, isSlow: true)
    } else if used > settings.timeLimit / (4 * share) {
      kill("it used \(used) of CPU time for one line", suspect: current.number)
    } else if time > settings.timeLimit / (2 * share), !worker.isRunnable {
      // It waits: for a file system of another user, say.
      kill("it waited for \(time) for one line", suspect: current.number)
    } else if time > settings.timeLimit * 4 {
      kill("it took \(time) for one line", suspect: current.number)
    } else if worker.residentBytes > settings.workerMemory {
      kill("it used \(worker.residentBytes >> 20) MiB of memory", suspect: current.number)
    }
  }

  private static let untrusted = "reading a file that another user can have written"
  private static let consequence = "a second process looks up function names for the lines of its unit"

  /// Ends the worker for good.
  func stop() {
    timer?.invalidate()
    idleTimer?.invalidate()
    sent = [:]
    restUntil = .distantFuture
    worker?.kill()
    ending.values.forEach { $0.kill() }
    if let worker { ending[worker.process] = worker }
    worker = nil
  }
}
