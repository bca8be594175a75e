import CLinux
import Foundation
import Glibc
import LoopEngine
import StallDetection
import Synchronization
import TestSupport
import Testing

@testable import StallCapture
@testable import StallMonitor

/// A pulse between a loop's thread and the watchdog's, both at full speed: what the watchdog asks for is always answered.
///
/// `make sanitize` runs these under the thread sanitizer.
@Suite(.timeLimit(.minutes(5)))
struct PulseThreadsTests {
  /// What the two threads share.
  private final class Shared: Sendable {
    let semaphore = WakeSemaphore()
    let isOver = Atomic<Bool>(false)
    let pulse: Pulse
    let stamper: TurnStamper

    init(kind: TurnStamper.Kind = .loop) {
      pulse = Pulse(
        semaphore: semaphore, fencesItself: !clinux_barrier_register(), countsTicks: PulseClock.countsTicks())
      stamper = TurnStamper(pulse: pulse, kind: kind)
    }

    /// Asks for the next transition and waits for the answer; false if none comes within ten seconds.
    func isAnswered() -> Bool {
      pulse.requestWake()
      pulse.fence()
      return semaphore.wait(until: MonotonicClock.now() + 10_000_000_000)
    }

    /// Asks for the end of the current turn and waits for it; false if it is not known within ten seconds.
    func isEndKnown() -> Bool {
      pulse.beginEpisode()
      pulse.fence()
      guard semaphore.wait(until: MonotonicClock.now() + 10_000_000_000) else { return false }
      return pulse.episodeEnd != nil
    }
  }

  /// Runs a closure on a thread of its own for as long as another one asks.
  private func run(_ shared: Shared, _ loop: @escaping @Sendable (Shared) -> Void, whileAsking ask: (Shared) -> Void) {
    let ended = DispatchSemaphore(value: 0)
    Thread.detachNewThread {
      loop(shared)
      ended.signal()
    }
    ask(shared)
    shared.isOver.store(true, ordering: .releasing)
    ended.wait()
  }

  @Test func eachRequestOfTheWatchdogIsAnswered() {
    run(Shared()) { shared in
      let stamp = shared.stamper.makeStamp(.loop, owner: 0)
      defer { TurnStamper.release(stamp) }
      while !shared.isOver.load(ordering: .acquiring) {
        clinux_turn_entry(stamp)
        clinux_turn_before_sources(stamp)
        clinux_turn_before_wait(stamp)
        clinux_turn_after_wait(stamp, 0)
        clinux_turn_before_sources(stamp)
        clinux_turn_exit(stamp)
      }
    } whileAsking: { shared in
      for round in 0..<2000 {
        #expect(round % 2 == 0 ? shared.isAnswered() : shared.isEndKnown(), "round \(round)")
        _ = (shared.pulse.word, shared.stamper.kind, shared.stamper.knownFoundationRuns)
      }
    }
  }

  /// A wake-up's work is one turn, up to the next wait; unless the watchdog has asked for the end of what was late.
  @Test func turnContinuesInTheSourcesOfTheNextPass() {
    let shared = Shared()
    let stamp = shared.stamper.makeStamp(.loop, owner: 0)
    let context = stamp.pointee.context
    defer {
      stamp.pointee.context = context
      TurnStamper.release(stamp)
    }
    clinux_turn_after_wait(stamp, 0)
    let turn = shared.pulse.word
    clinux_turn_before_sources(stamp)
    #expect(shared.pulse.word == TurnWord(phase: .beforeSources, stamp: turn.stamp))
    // A pass without a wait.
    clinux_turn_before_sources(stamp)
    #expect(shared.pulse.word.stamp > turn.stamp)
    clinux_turn_after_wait(stamp, 0)
    let late = shared.pulse.word
    shared.pulse.beginEpisode()
    // What the watchdog finds from the answer on is not the late turn.
    struct Answer { nonisolated(unsafe) static var word: UInt64 = 0 }
    stamp.pointee.context = UnsafeMutableRawPointer(stamp)
    stamp.pointee.answer = { Answer.word = $0!.load(as: clinux_turn_stamp.self).word.pointee }
    clinux_turn_before_sources(stamp)
    #expect(TurnWord(raw: Answer.word).stamp > late.stamp)
    #expect(shared.pulse.word.phase == .beforeSources && shared.pulse.word.stamp > late.stamp)
  }

  /// A run that is met in the middle of a turn, and one that is met between its last observer and its wait.
  @Test func turnThatWasNotSeenToBeginEndsWithTheLoopsNextTransition() throws {
    let shared = Shared(kind: .foundation)
    let turn = try #require(shared.stamper.beginUnseenTurn(.foundation))
    #expect(shared.pulse.word == turn && turn.phase == .heartbeat)
    #expect(shared.stamper.knownFoundationRuns == 1)
    shared.stamper.endUnseenTurn(turn)
    #expect(shared.pulse.word.phase == .idle && shared.pulse.word.raw != 0)

    shared.pulse.turn(.afterWaiting)
    let loops = shared.pulse.word
    #expect(shared.stamper.beginUnseenTurn(.foundation) == nil)
    shared.stamper.endUnseenTurn(turn)
    #expect(shared.pulse.word == loops)
    #expect(shared.stamper.knownFoundationRuns == 0)
  }

  /// CoreFoundation's observers stamp in C.
  @Test func turnsOfFoundationsRunLoopAnswer() throws {
    let shared = Shared(kind: .foundation)
    run(shared) { shared in
      let timer = Timer(timeInterval: 0.0005, repeats: true) { _ in }
      RunLoop.current.add(timer, forMode: .default)
      guard let attachment = FoundationPulseObserver.attachToCurrent(shared.stamper) else {
        Issue.record("Foundation is not here")
        return
      }
      while !shared.isOver.load(ordering: .acquiring) {
        _ = RunLoop.current.run(mode: .default, before: Date(timeIntervalSinceNow: 0.01))
      }
      attachment.end()
      timer.invalidate()
    } whileAsking: { shared in
      for round in 0..<100 {
        #expect(round % 2 == 0 ? shared.isAnswered() : shared.isEndKnown(), "round \(round)")
      }
    }
    #expect(shared.pulse.word.phase == .idle)
    #expect(shared.stamper.knownFoundationRuns == 0)
  }

  /// A watch begins and ends while its loop turns.
  @Test func loopIsWatchedAndReleasedWhileItTurns() throws {
    let thread = PermanentThread(name: "turning")
    try thread.start()
    let loop = try #require(thread.loop)
    for round in 0..<100 {
      let shared = Shared()
      let stamping = LoopStamping(of: loop, by: shared.stamper)
      shared.pulse.requestWake()
      shared.pulse.fence()
      loop.perform {}
      #expect(shared.semaphore.wait(until: MonotonicClock.now() + 10_000_000_000), "round \(round)")
      stamping.end()
    }
    thread.stop()
  }

  /// The pool may be full of other tests: there is no limit to how late an answer is.
  @Test func beatOnTheCooperativePoolIsAnswered() async {
    let pulse = Pulse(semaphore: WakeSemaphore(), fencesItself: true)
    let heartbeat = CooperativePoolHeartbeat(
      pulse: pulse, courier: Courier(name: "stall-beats")
    ) {}
    for _ in 0..<200 {
      heartbeat.beat()
      let beat = pulse.word
      while pulse.word.phase != .idle { await Task.yield() }
      #expect(beat.phase == .heartbeat || beat.phase == .idle)
    }
    heartbeat.end()
  }

  /// The loop says what it calls in a turn, and reads the clock for it from the second callout on.
  @Test func calloutsOfATurnAreTimed() throws {
    let shared = Shared()
    let seen = Mutex<[clinux_callouts?]>([])
    try onFreshThread { loop in
      let stamping = LoopStamping(of: loop, by: shared.stamper)
      @Sendable func look() { seen.withLock { $0.append(shared.pulse.callouts(of: shared.pulse.word)) } }
      for pause in [1, 30, 2, 0] as [UInt32] {
        loop.perform { @Sendable in
          usleep(pause * 1000)
          look()
        }
      }
      loop.run(mode: .default, for: .zero)
      // Another turn's.
      loop.perform { @Sendable in look() }
      loop.run(mode: .default, for: .zero)
      stamping.end()
    }
    let callouts = try seen.withLock { try $0.map { try #require($0) } }
    #expect(callouts.map(\.count) == [1, 2, 3, 4, 1])
    #expect(callouts[0].began == callouts[0].turn && callouts[0].longest_number == 0)
    #expect(callouts[1].longest_number == 1)
    let clock = PulseClock(countingTicks: PulseClock.countsTicks())
    clock.learnRate()
    let times = clock.times(of: callouts[3], now: .now())
    #expect(times.longest >= 30_000_000 || times.longestNumber != 2)
    #expect(callouts[4].longest == 0 && callouts[4].turn != callouts[3].turn)
  }

  /// A watch that begins within a turn counts the rest of it, and the callouts from the current one on.
  @Test func turnInWhichAWatchBeginsIsOne() throws {
    let shared = Shared()
    let seen = Mutex<[(phase: TurnPhase, callouts: UInt64?)]>([])
    @Sendable func look() {
      let turn = shared.pulse.word
      seen.withLock { $0.append((turn.phase, shared.pulse.callouts(of: turn)?.count)) }
    }
    // Within a run of its own in a block of the thread's.
    try onFreshThread { loop in
      loop.perform { @Sendable in
        look()
        let stamping = LoopStamping(of: loop, by: shared.stamper)
        look()
        loop.perform(in: "nested") { @Sendable in look() }
        loop.run(mode: "nested", for: .zero)
        // The callout continues after a nested run.
        look()
        loop.perform { @Sendable in
          look()
          stamping.end()
        }
      }
      loop.run(mode: .default, for: .zero)
      loop.run(mode: .default, for: .zero)
    }
    let all = seen.withLock { $0 }
    #expect(all.map { $0.phase != .idle } == [false, true, true, true, true])
    #expect(all.dropFirst().map(\.callouts) == [1, 1, nil, 1])
  }

  /// What a thread does before it runs its loop is no turn, and neither is the rest of a loop.
  @Test func watchOfALoopThatDoesNotTurnBeginsIdle() throws {
    let (own, other) = (Shared(), Shared())
    let ended = DispatchSemaphore(value: 0)
    Thread.detachNewThread {
      let loop = Loop.current
      let stamping = LoopStamping(of: loop, by: own.stamper)
      #expect(own.pulse.word.raw == 0)
      // Neither is what it does after a run.
      loop.perform {}
      loop.run(mode: .default, for: .zero)
      #expect(own.pulse.word.raw != 0 && own.pulse.word.phase == .idle)
      stamping.end()
      ended.signal()
    }
    ended.wait()
    let thread = PermanentThread(name: "resting")
    try thread.start()
    let loop = try #require(thread.loop)
    while !loop.isWaiting { usleep(100) }
    let stamping = LoopStamping(of: loop, by: other.stamper)
    usleep(10_000)
    #expect(other.pulse.word.raw == 0)
    // It waits again after a turn in which it learnt of the watch.
    loop.perform {}
    while other.pulse.word.raw == 0 || other.pulse.word.phase != .idle { usleep(100) }
    stamping.end()
    thread.stop()
  }

  /// A turn that is in progress when another thread begins the watch counts from that call, and ends with the callout or the run.
  @Test(.enabled(if: clinux_barrier_register(), "the kernel has no membarrier"), arguments: [false, true])
  func turnInProgressCountsFromTheCallOfAnotherThread(endsRun: Bool) throws {
    let shared = Shared()
    let (isBlocked, release, isOver) = (
      DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0)
    )
    let loop = Mutex<Loop?>(nil)
    Thread.detachNewThread {
      let current = Loop.current
      loop.withLock { $0 = current }
      current.perform { @Sendable in
        isBlocked.signal()
        release.wait()
      }
      // Otherwise the run goes on, and waits.
      current.run(mode: .default, for: endsRun ? .zero : .seconds(60))
      isOver.wait()
    }
    isBlocked.wait()
    let stamping = LoopStamping(of: try #require(loop.withLock { $0 }), by: shared.stamper)
    let turn = shared.pulse.word
    #expect(turn.phase == .heartbeat)
    release.signal()
    while shared.pulse.word.phase != .idle { usleep(100) }
    stamping.end()
    loop.withLock { $0 }?.stop()
    isOver.signal()
  }

  /// Whenever a watch begins, a loop whose run is over is in no turn.
  @Test func watchThatBeginsAsARunEndsLeavesNoTurn() {
    let (begin, isDone) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    let loop = Mutex<Loop?>(nil)
    let isOver = Atomic<Bool>(false)
    Thread.detachNewThread {
      let current = Loop.current
      loop.withLock { $0 = current }
      isDone.signal()
      while true {
        begin.wait()
        if isOver.load(ordering: .acquiring) { break }
        current.perform {}
        current.run(mode: .default, for: .zero)
        isDone.signal()
      }
      isDone.signal()
    }
    isDone.wait()
    for round in 0..<2000 {
      let shared = Shared()
      begin.signal()
      for _ in 0..<(round % 40) * 10 { clinux_compiler_barrier() }
      let stamping = loop.withLock { LoopStamping(of: $0!, by: shared.stamper) }
      isDone.wait()
      #expect(shared.pulse.word.phase == .idle, "round \(round)")
      stamping.end()
    }
    isOver.store(true, ordering: .releasing)
    begin.signal()
    isDone.wait()
  }

  private func onFreshThread(_ body: @escaping @Sendable (Loop) -> Void) throws {
    let thread = PermanentThread(name: "callouts")
    try thread.start()
    let loop = try #require(thread.loop)
    let isOver = DispatchSemaphore(value: 0)
    loop.perform {
      body(loop)
      isOver.signal()
    }
    isOver.wait()
    thread.stop()
  }
}
