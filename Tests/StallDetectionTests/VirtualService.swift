import StallCapture
import StallDetection
import StallReport
import TestSupport

@testable import StallMonitor

/// A service in virtual time: loops whose turns are written down, and the clock by which their watchdog works.
///
/// Time passes only while the watchdog waits, or takes a sample.
final class VirtualService: WatchdogClock {
  /// What happens at a moment.
  struct Event {
    var time: Instant
    var run: () -> Void
  }

  /// A loop of the service.
  final class Loop {
    let pulse: Pulse
    let suspension = Suspension()
    /// What its thread does at a moment.
    var activity: (Instant) -> ThreadActivity = { _ in .running }
    /// What was counted in its turn up to a moment.
    var usage: (Instant) -> ResourceUsage? = { _ in nil }

    fileprivate init(pulse: Pulse) { self.pulse = pulse }
  }

  /// How long the watchdog goes on when nothing more happens.
  private static let timeAtTheEnd: UInt64 = 10_000_000_000

  private(set) var time: Instant
  let semaphore = WakeSemaphore()
  let state = WatchdogState()
  let counter = Counter()
  /// Called before each wait, with its deadline.
  var willWait: (Instant?) -> Void = { _ in }
  /// How long the watchdog needs for a sample.
  var sampleTime: UInt64 = 500_000
  // The pulses read the time by a closure that must be sendable. Unchecked: all of it is on the test's thread.
  private final class Now: @unchecked Sendable { var time = Instant.zero }
  private let shared = Now()
  private var events: [Event] = []
  private var next = 0
  private var end = Instant.zero
  private(set) var loops: [Loop] = []
  private var subjects: [WatchedLoop.Subject] = []

  init(at start: Instant = 1_000_000_000) {
    time = start
    shared.time = start
  }

  /// Adds a loop.
  func loop(
    _ name: String, threshold: UInt64 = 250_000_000, heartbeat: ((Pulse) -> any HeartbeatSource)? = nil,
    work: (any TurnWork)? = nil
  ) -> Loop {
    let loop = Loop(
      pulse: Pulse(semaphore: semaphore, fencesItself: true, now: { [shared] in shared.time }))
    var subject = WatchedLoop.Subject(
      label: .init(name: name, kind: { .loop }), thread: .init(id: 1),
      limits: .init(threshold: threshold, hasOwnThreshold: true, suspension: loop.suspension),
      publication: LoopPublication(pulse: loop.pulse), work: work)
    subject.heartbeat = heartbeat?(loop.pulse)
    loops.append(loop)
    subjects.append(subject)
    return loop
  }

  /// Plans that something happens.
  func at(_ time: Instant, _ run: @escaping () -> Void) { events.append(Event(time: time, run: run)) }

  /// The same while the driver runs.
  func later(_ time: Instant, _ run: @escaping () -> Void) {
    events.insert(Event(time: time, run: run), at: events[next...].firstIndex { $0.time > time } ?? events.endIndex)
  }

  /// Plans a turn.
  func turn(of loop: Loop, from begin: Instant, lasting duration: UInt64) {
    at(begin) { loop.pulse.turn(.afterWaiting, stamp: begin.nanoseconds) }
    let end = begin + duration
    at(end) {
      // The next pass begins, and waits at once: unlike the end of a turn, its beginning is given its time.
      loop.pulse.turn(.beforeSources, stamp: end.nanoseconds)
      loop.pulse.end(loop.pulse.word)
    }
  }

  /// Plans that the whole process is stopped.
  func freeze(at begin: Instant, for duration: UInt64) {
    at(begin) { [unowned self] in stop(for: duration) }
  }

  /// Stops the whole process from now on.
  func stop(for duration: UInt64) {
    pass(to: time + duration)
    counter.value.sleeps += 1
  }

  // MARK: The clock

  func now() -> Instant { time }

  func wait(until deadline: Instant?) -> Bool {
    willWait(deadline)
    counter.value.sleeps += 1
    while !semaphore.wait(until: 0) {
      guard time < end + Self.timeAtTheEnd, next < events.count || deadline != nil else {
        state.isStopping.store(true, ordering: .relaxed)
        return true
      }
      let event = next < events.count ? events[next].time : .never
      if let deadline, deadline < event {
        pass(to: deadline)
        return false
      }
      runNext()
    }
    return true
  }

  func sleep(for duration: UInt64) { pass(to: time + duration) }

  /// Lets the watchdog work for a while.
  func work(for duration: UInt64) {
    let until = time + duration
    while next < events.count, events[next].time <= until { runNext() }
    pass(to: until)
  }

  private func runNext() {
    let event = events[next]
    next += 1
    pass(to: event.time)
    event.run()
  }

  private func pass(to moment: Instant) {
    time = max(time, moment)
    shared.time = time
  }

  // MARK: The driver

  /// Runs the watchdog's driver until nothing more happens; returns what it has reported.
  func run() -> [Reported] {
    // In the order in which they were planned, if at the same time.
    events = events.enumerated().sorted { ($0.element.time, $0.offset) < ($1.element.time, $1.offset) }.map(\.element)
    end = events.last?.time ?? .zero
    let sink = Sink()
    let list = WatchList(semaphore: semaphore)
    for subject in subjects { list.watch(subject) }
    let configuration = StallMonitorConfiguration()
    let work = WatchdogWork(
      CheckedLoops(list, pulseClock: PulseClock(), clock: self, counters: NoCounters()), clock: self, freezes: counter,
      stalls: StallFollower(
        origin: Sink.origin, clock: self, sampler: Sampler(self), sink: sink, keepsRecords: false,
        plan: ActionPlan([])),
      settings: SettingsFollower(
        configuration, tunings: TuningBox(), suspension: Suspension(), sinkNames: true, list: list),
      serviceManager: nil, telemetry: nil, keepsRecords: false)
    work.run(state)
    list.removeAll()
    return sink.reported
  }

  /// What the watchdog has counted, for freezes.
  final class Counter: FreezeCounter {
    var value = FreezeEvidence.Counts()
    func counts() -> FreezeEvidence.Counts { value }
    var isInFreezerGroup: Bool { false }
  }

  private struct NoCounters: UsageCounter {
    func usage(of probe: borrowing ThreadProbe, at time: UInt64) -> ThreadUsage? { nil }
    func usageOfThread(_ probe: borrowing ThreadProbe, at time: UInt64) -> ThreadUsage? { nil }
  }

  private final class Sampler: StallSampling {
    private unowned let service: VirtualService
    var samplesRunningThreads = true

    init(_ service: VirtualService) { self.service = service }

    func prepare(_ loop: WatchedLoop) {}
    func followUp(_ loop: WatchedLoop, budget: UInt64) {}
    func buffer(_ thread: ServingThread) -> BufferedSnapshot? { nil }
    func finishThread() {}

    func sample(_ loop: WatchedLoop) -> StallSampler.Finding {
      guard let turn = loop.episode?.turn, let known = service.loops.first(where: { $0.pulse === loop.subject.pulse })
      else { return .nothing }
      let now = service.time
      service.work(for: service.sampleTime)
      guard loop.isLasting(turn) else {
        guard loop.episode?.sampleCount == 0 else { return .nothing }
        loop.add(Episode.Sample(activity: .unknown, stack: [], failure: .turnEnded), at: service.time)
        return .added
      }
      loop.add(
        Episode.Sample(thread: 1, activity: known.activity(now), stack: [StackFrame(symbol: "work()")]),
        at: service.time, usage: known.usage(service.time))
      return .added
    }

    func addSample(of deferred: WatchedLoop.DeferredTurn, to loop: WatchedLoop) -> StallSampler.Finding { .nothing }
  }
}

/// A stall that the driver has reported.
struct Reported: Equatable, CustomStringConvertible {
  var loop: String
  var event: String
  /// In milliseconds.
  var began: UInt64
  var duration: UInt64
  var cause: Cause

  var description: String { "\(loop) \(event) \(began)+\(duration) \(cause)" }
}

private final class Sink: StallSink {
  static let origin = Report.Origin(processID: 1, executablePath: "/service", serviceName: "service", hostName: "host")
  var reported: [Reported] = []

  func post(_ update: StallUpdate) {
    guard update.isReportDue else { return }
    let report = update.report(of: Self.origin)
    reported.append(
      Reported(
        loop: update.loop.name, event: report.event.rawValue, began: update.episode.start.nanoseconds / 1_000_000,
        duration: report.durationNanoseconds / 1_000_000, cause: report.verdict.cause))
  }

  func post(freeze report: Report) {
    reported.append(
      Reported(
        loop: "process", event: report.event.rawValue, began: 0, duration: report.durationNanoseconds / 1_000_000,
        cause: report.verdict.cause))
  }

  func post(lost count: UInt64, lasting total: UInt64, like update: StallUpdate) {}
  func tune(window: UInt64, budget: Int) {}
  func summarize() {}
  func end(abandoning: Bool) {}
}
