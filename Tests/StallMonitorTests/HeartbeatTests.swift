import Glibc
import StallDetection
import StallReport
import Synchronization
import TestSupport
import Testing

@testable import StallCapture
@testable import StallMonitor

/// A loop without observers, to the nanosecond: the test sets the clock and the heartbeat.
struct HeartbeatTests {
  /// A loop that answers, or does not, as the test has it.
  private final class Loop: HeartbeatSource {
    struct State {
      var isBeating = true
      var mayBegin = false
      var isIdle = false
      var server = LoopServer.unknown
      var beats = 0
      var hasGivenUp = false
    }

    let state = Mutex(State())
    let pulse: Pulse

    init(pulse: Pulse) { self.pulse = pulse }

    var isBeating: Bool { state.withLock { $0.isBeating } }
    var mayBegin: Bool { state.withLock { $0.mayBegin } }
    func begin() {}
    func giveUpSearch() { state.withLock { $0.hasGivenUp = true } }
    var hasGivenUp: Bool { state.withLock { $0.hasGivenUp } }
    var server: LoopServer { state.withLock { $0.server } }
    var pool: WorkerPool? { .dispatch }
    var beats: Int { state.withLock { $0.beats } }

    func beat() {
      guard state.withLock({ !$0.isIdle }) else { return }
      state.withLock { $0.beats += 1 }
      pulse.turn(.heartbeat)
    }
  }

  private static let threshold: UInt64 = 250_000_000
  private let pulse = Pulse(semaphore: WakeSemaphore(), fencesItself: true)
  private let suspension = Suspension()
  private let host: Loop
  private let loop: WatchedLoop
  private let now = Instant.now()

  init() {
    host = Loop(pulse: pulse)
    var subject = WatchedLoop.Subject(
      label: .init(name: "main", kind: { .mainQueue }), thread: .init(id: getpid()),
      limits: .init(threshold: Self.threshold, suspension: suspension), publication: LoopPublication(pulse: pulse))
    subject.heartbeat = host
    loop = WatchedLoop(
      subject, pulseClock: PulseClock(), clock: SystemClock(WakeSemaphore()), counters: ProcessCounters(of: .own))
  }

  @Test func loopThatIsNotBeatenIsQuiet() {
    host.state.withLock { $0.isBeating = false }
    #expect(loop.check(at: now, freeze: nil) == .quiet)
    #expect(host.beats == 0)
  }

  /// A program that has not come to `dispatchMain()` yet, and may never.
  @Test func unservedLoopIsSearchedForAtGrowingIntervals() {
    host.state.withLock { ($0.isBeating, $0.mayBegin) = (false, true) }
    var time = now
    for _ in 0..<150 {
      guard case .checkAgain(let next) = loop.check(at: time, freeze: nil) else {
        Issue.record("not looked for")
        return
      }
      #expect(loop.check(at: time + 1, freeze: nil) == .checkAgain(at: next))
      // A loop that comes is found before it is an eighth older; a program without one is woken once a minute in the end.
      #expect(next.since(time) == min(max(time.since(now) / 8, 10_000_000), 60_000_000_000))
      time = next
    }
    #expect(time.since(now) > 3_600_000_000_000, "150 checks are more than an hour's")
    #expect(host.beats == 0)
    // And no more when a run loop turns.
    pulse.turn(.beforeSources)
    pulse.idle()
    _ = loop.check(at: time, freeze: nil)
    #expect(loop.check(at: time + Self.threshold, freeze: nil) == .quiet)
  }

  /// A loop that never rests needs no other thread either: the one that would post beats shares the service's descriptors.
  @Test func loopThatOnlyTurnsIsNotSearchedForElsewhere() {
    host.state.withLock { ($0.isBeating, $0.mayBegin) = (false, true) }
    for round in 0..<5 {
      #expect(host.hasGivenUp == false, "round \(round)")
      pulse.turn(.beforeSources)
      _ = loop.check(at: now + UInt64(round) * Self.threshold, freeze: nil)
    }
    #expect(host.hasGivenUp)
  }

  /// Also while another thread may come to serve it.
  @Test func turnAfterTheFirstRestHasAKnownBeginning() {
    host.state.withLock { ($0.isBeating, $0.mayBegin) = (false, true) }
    pulse.turn(.beforeSources)
    pulse.idle()
    _ = loop.check(at: .now(), freeze: nil)
    pulse.turn(.afterWaiting)
    _ = loop.check(at: pulse.word.began + 200_000_000, freeze: nil)
    #expect(loop.thread.beginning != nil)
  }

  /// Beats are on a grid of the threshold, so that one wake-up serves all loops.
  private var nextBeat: Instant { now.next(onGridOf: Self.threshold) }

  @Test func idleLoopIsCheckedOncePerThresholdAndGetsNoBeat() {
    host.state.withLock { $0.isIdle = true }
    #expect(loop.check(at: now, freeze: nil) == .checkAgain(at: nextBeat))
    // Woken for another reason.
    #expect(loop.check(at: nextBeat - 1, freeze: nil) == .checkAgain(at: nextBeat))
    #expect(loop.check(at: nextBeat, freeze: nil) == .checkAgain(at: nextBeat + Self.threshold))
    #expect(host.beats == 0)
  }

  @Test func answeredBeatIsFollowedByTheNextAfterAThreshold() {
    _ = loop.check(at: now, freeze: nil)
    #expect(host.beats == 1)
    pulse.idle()
    #expect(loop.check(at: nextBeat - 1, freeze: nil) == .checkAgain(at: nextBeat))
    #expect(host.beats == 1)
    _ = loop.check(at: nextBeat, freeze: nil)
    #expect(host.beats == 2)
  }

  @Test func unansweredBeatIsLateAfterAThreshold() {
    guard case .checkAgain(let deadline) = loop.check(at: now, freeze: nil) else {
      Issue.record("nothing to wait for")
      return
    }
    #expect(deadline == now + Self.threshold)
    #expect(loop.check(at: deadline - 1, freeze: nil) == .checkAgain(at: deadline))
    #expect(loop.check(at: deadline, freeze: nil) == .late(pulse.word))
    #expect(host.beats == 1)
  }

  @Test func frozenProcessForgivesTheBeat() {
    _ = loop.check(at: now, freeze: nil)
    let thawed = now + 10 * Self.threshold
    let frozen = 9 * Self.threshold + Self.threshold / 2
    #expect(
      loop.check(at: thawed, freeze: .init(atLeast: frozen, atMost: frozen))
        == .checkAgain(at: now + frozen + Self.threshold))
  }

  @Test func suspendedLoopGetsNoBeat() {
    suspension.begin()
    #expect(loop.check(at: now, freeze: nil) == .quiet)
    #expect(host.beats == 0)
  }

  private func report(of server: LoopServer) throws -> StallReport.Report {
    host.state.withLock { $0.server = server }
    _ = loop.check(at: now, freeze: nil)
    let turn = pulse.word
    #expect(loop.beginEpisode(turn: turn, id: "x", now: now))
    StallSampler(
      clock: SystemClock(WakeSemaphore()), capture: ThreadCapture(of: .own),
      reader: FrameReader(executablePath: "/proc/self/exe")
    ).sample(loop)
    let origin = StallReport.Report.Origin(
      processID: getpid(), executablePath: "/bin/x", serviceName: "x", hostName: "x")
    var update = try #require(loop.update(.started, end: now + 2 * Self.threshold))
    update.episode.name(by: FrameNamer())
    return update.report(of: origin)
  }

  @Test func unservedLoopIsStarvedAndNamesNoFunction() throws {
    let report = try report(of: .nobody)
    #expect(report.verdict.cause == .starved)
    #expect(report.threadID == nil && report.stack.isEmpty && report.culprit == nil)
    #expect(report.captureFailure == .noServer)
    #expect(report.message.hasSuffix(": no thread of libdispatch's pool has started the queued work"))
  }

  /// A libdispatch whose queues are laid out in another way.
  @Test func threadThatIsNotKnownIsNotGuessed() throws {
    let report = try report(of: .unknown)
    #expect(report.verdict.cause == .unknown)
    #expect(report.threadID == nil && report.stack.isEmpty && report.culprit == nil)
    #expect(report.captureFailure == .unknownServer)
  }

  @Test func poolsThreadsAreRecognisedByTheirFunctions() {
    func thread(_ name: String, _ symbols: [String]) -> StallReport.Report.OtherThread {
      let stack = symbols.map { StackFrame(symbol: $0, owner: $0 == "f()" ? .host : .runtime) }
      return StallReport.Report.OtherThread(id: 7, name: name, role: .other, stack: stack)
    }
    let task = ["usleep", "f()", "swift_job_run", "_dispatch_continuation_pop", "_dispatch_worker_thread"]
    #expect(WorkerPool.cooperative.owns(thread("oot.default-qos", task)))
    #expect(!WorkerPool.cooperative.owns(thread("oot.utility-qos", task)))
    // Blocks of the queue that has the same threads, and of others.
    let block = ["usleep", "f()", "_dispatch_root_queue_drain", "_dispatch_worker_thread"]
    #expect(WorkerPool.cooperative.owns(thread("oot.default-qos", block)))
    for name in ["oot.utility-qos", "-qos.overcommit", "app"] {
      #expect(!WorkerPool.cooperative.owns(thread(name, block)), "\(name)")
    }
    // The main actor's, one that has nothing to do, and one of the host's own.
    #expect(
      !WorkerPool.cooperative.owns(
        thread("-qos.overcommit", ["swift_job_run", "_dispatch_lane_invoke", "_dispatch_worker_thread"])))
    #expect(!WorkerPool.cooperative.owns(thread("oot.default-qos", ["sem_timedwait", "_dispatch_worker_thread"])))
    #expect(!WorkerPool.cooperative.owns(thread("app", ["f()", "swift_job_run", "start_thread"])))
    #expect(
      WorkerPool.dispatch.owns(thread("-qos.overcommit", ["f()", "_dispatch_lane_invoke", "_dispatch_worker_thread"])))
    #expect(!WorkerPool.dispatch.owns(thread("app", ["f()", "start_thread"])))
  }

  /// libdispatch's words as they were met: idle, being drained, drained with more to come, waiting for a worker.
  @Test func stateWordHasTheDrainingThread() {
    #expect(MainQueueWord(raw: 0x1f_fe10_0000_0000).isIdle)
    #expect(MainQueueWord(raw: 0x1f_fe10_0000_0000).drainer == nil)
    #expect(MainQueueWord(raw: 0x60_0010_8000_5a0a).drainer == 0x5a0a)
    #expect(!MainQueueWord(raw: 0x60_0010_8000_5a0a).isIdle)
    #expect(MainQueueWord(raw: 0x60_0090_8000_5a0a).drainer == 0x5a0a)
    #expect(!MainQueueWord(raw: 0x1f_fe10_8000_0000).isIdle)
    #expect(MainQueueWord(raw: 0x1f_fe10_8000_0000).drainer == nil)
    #expect(!MainQueueWord(raw: 0x1f_fe90_0000_0000).isIdle)
  }
}
