import Glibc
import StallReport
import TestSupport
import Testing

@testable import StallCapture
@testable import StallDetection
@testable import StallMonitor

/// When a turn is late, to the nanosecond: the test sets the clock.
struct WatchedLoopTests {
  private let pulse = Pulse(semaphore: WakeSemaphore(), fencesItself: true)
  private let suspension = Suspension()
  private let loop: WatchedLoop
  private static let threshold: UInt64 = 250_000_000

  init() {
    loop = WatchedLoop(
      WatchedLoop.Subject(
        label: .init(name: "main", kind: { .loop }), thread: .init(id: getpid()),
        limits: .init(threshold: Self.threshold, suspension: suspension),
        publication: LoopPublication(pulse: pulse)), pulseClock: PulseClock(),
      clock: SystemClock(WakeSemaphore()), counters: ProcessCounters(of: .own))
  }

  @Test func loopThatNeverTurnedIsQuiet() {
    #expect(loop.check(at: 10_000_000_000, freeze: nil) == .quiet)
  }

  @Test func turnThatBeganBeforeTheWatchIsTimedLikeAnyOther() {
    let pulse = Pulse(semaphore: WakeSemaphore(), fencesItself: true)
    pulse.turn(.beforeSources)
    let loop = WatchedLoop(
      WatchedLoop.Subject(
        label: .init(name: "main", kind: { .loop }), thread: .init(id: getpid()),
        limits: .init(threshold: Self.threshold, suspension: suspension),
        publication: LoopPublication(pulse: pulse)), pulseClock: PulseClock(),
      clock: SystemClock(WakeSemaphore()), counters: ProcessCounters(of: .own))
    let since = pulse.word.began
    #expect(loop.check(at: since + 1, freeze: nil) == .checkAgain(at: since + Self.threshold))
  }

  @Test func turnIsLateAtTheThresholdAndNotBefore() {
    pulse.turn(.afterWaiting)
    let word = pulse.word
    let deadline = word.began + Self.threshold
    #expect(loop.check(at: word.began + 1, freeze: nil) == .checkAgain(at: deadline))
    #expect(loop.check(at: deadline - 1, freeze: nil) == .checkAgain(at: deadline))
    #expect(loop.check(at: deadline, freeze: nil) == .late(word))
  }

  @Test func eachTransitionBeginsATurnOfItsOwn() {
    pulse.turn(.afterWaiting)
    let first = pulse.word
    _ = loop.check(at: first.began, freeze: nil)
    usleep(1000)
    pulse.turn(.beforeSources)
    #expect(pulse.word.began > first.began)
    #expect(
      loop.check(at: first.began + Self.threshold, freeze: nil) == .checkAgain(at: pulse.word.began + Self.threshold))
  }

  /// Beside other loops, it would look as if the process had been frozen.
  @Test func ignoredTurnHasNoAge() {
    pulse.turn(.afterWaiting)
    let turn = pulse.word
    let late = turn.began + Self.threshold
    #expect(loop.check(at: late, freeze: nil) == .late(turn))
    #expect(loop.age(at: late) == Self.threshold)
    #expect(loop.beginEpisode(turn: turn, id: "x", now: late))
    loop.ignoreTurn()
    #expect(loop.age(at: late) == 0)
  }
  @Test func idleLoopIsWatchedForOneMoreThresholdAndThenReleased() {
    pulse.turn(.beforeSources)
    pulse.idle()
    let now = Instant.now()
    #expect(loop.check(at: now, freeze: nil) == .checkAgain(at: now + Self.threshold))
    #expect(loop.check(at: now + Self.threshold, freeze: nil) == .quiet)
  }

  @Test func loopIsHealthyUntilATurnIsLate() {
    #expect(loop.isHealthy(at: 10_000_000_000), "it has never turned")
    pulse.turn(.afterWaiting)
    let deadline = pulse.word.began + Self.threshold
    #expect(loop.isHealthy(at: deadline - 1))
    #expect(!loop.isHealthy(at: deadline), "before anybody has looked at it")
    suspension.begin()
    #expect(loop.isHealthy(at: deadline), "it is paused")
    #expect(suspension.end())
    #expect(loop.isHealthy(at: deadline + suspension.paused - 1))
    #expect(!loop.isHealthy(at: deadline + suspension.paused))
    pulse.idle()
    #expect(loop.isHealthy(at: deadline + 10 * Self.threshold), "it waits")
  }

  @Test func stalledLoopIsHealthyAgainWhenItsTurnHasEnded() {
    pulse.turn(.afterWaiting)
    let word = pulse.word
    let late = word.began + Self.threshold
    #expect(loop.check(at: late, freeze: nil) == .late(word))
    #expect(loop.beginEpisode(turn: word, id: "0", now: late))
    suspension.begin()
    #expect(!loop.isHealthy(at: late), "a pause does not end a stall")
    pulse.turn(.beforeSources)
    #expect(loop.isHealthy(at: late))
  }

  /// systemd is not to kill a service that the machine gives no processor; but for ten minutes at most.
  @Test func loopThatIsStarvedIsHealthyForAWhile() {
    pulse.turn(.afterWaiting)
    let late = pulse.word.began + Self.threshold
    #expect(loop.check(at: late, freeze: nil) == .late(pulse.word))
    #expect(loop.beginEpisode(turn: pulse.word, id: "0", now: late))
    loop.add(Episode.Sample(activity: .running, stack: [], failure: .noProcessor), at: late)
    #expect(loop.isHealthy(at: late))
    #expect(!loop.isHealthy(at: late, asksWhy: false), "there is no memory to find out")
    #expect(!loop.isHealthy(at: late + 600_000_000_000))
    for time in [3, 20] as [UInt64] {
      loop.add(
        Episode.Sample(activity: .inCall(.lock), stack: [StackFrame(symbol: "f()")]), at: late + time * Self.threshold)
    }
    #expect(!loop.isHealthy(at: late + 20 * Self.threshold))
  }

  @Test func poolWithoutAThreadIsTheServicesFault() {
    pulse.turn(.heartbeat)
    let late = pulse.word.began + Self.threshold
    #expect(loop.check(at: late, freeze: nil) == .late(pulse.word))
    #expect(loop.beginEpisode(turn: pulse.word, id: "0", now: late))
    loop.add(Episode.Sample(activity: .unknown, stack: [], failure: .noServer), at: late)
    #expect(!loop.isHealthy(at: late))
  }

  @Test func frozenProcessForgivesTheTurn() {
    pulse.turn(.afterWaiting)
    let since = pulse.word.began
    _ = loop.check(at: since, freeze: nil)
    let thawed = since + 5_000_000_000
    let deadline = since + 4_900_000_000 + Self.threshold
    #expect(
      loop.check(at: thawed, freeze: .init(atLeast: 4_900_000_000, atMost: 4_900_000_000)) == .checkAgain(at: deadline))
    #expect(loop.check(at: deadline, freeze: nil) == .late(pulse.word))
    // What is not held against the turn is not part of the stall either, and the report has it.
    #expect(loop.beginEpisode(turn: pulse.word, id: "0", now: deadline))
    #expect(loop.episode?.duration(at: deadline) == Self.threshold)
    #expect(loop.episode?.frozen == 4_900_000_000)
  }

  @Test func freezeBeforeTheTurnIsNotDeductedFromIt() {
    pulse.turn(.afterWaiting)
    let since = pulse.word.began
    #expect(
      loop.check(at: since + 10, freeze: .init(atLeast: 4_900_000_000, atMost: 4_900_000_000))
        == .checkAgain(at: since + 10 + Self.threshold))
  }

  @Test func suspendedLoopIsIgnoredAndTimedFromItsResumption() {
    pulse.turn(.afterWaiting)
    let since = pulse.word.began
    suspension.begin()
    suspension.begin()
    #expect(loop.check(at: since + 10 * Self.threshold, freeze: nil) == .quiet)
    #expect(!loop.hasMoved)
    #expect(suspension.end())
    #expect(loop.check(at: since + 20 * Self.threshold, freeze: nil) == .quiet)
    #expect(suspension.end())
    let resumed = Instant.now()
    guard case .checkAgain(let deadline) = loop.check(at: resumed, freeze: nil) else {
      Issue.record("not watched after its resumption")
      return
    }
    #expect(deadline > since + Self.threshold && deadline <= resumed + Self.threshold)
    #expect(!suspension.end())
  }

  @Test func resumptionWithoutAPauseForgivesNothing() {
    pulse.turn(.afterWaiting)
    let late = pulse.word.began + Self.threshold
    for _ in 0..<3 { #expect(!suspension.end()) }
    #expect(suspension.paused == 0)
    #expect(loop.check(at: late, freeze: nil) == .late(pulse.word))
  }

  @Test func pausesThatOverlapCountOnce() {
    let suspension = Suspension()
    suspension.begin(at: 9000)
    suspension.begin(at: 9010)
    #expect(suspension.end(at: 9100) && suspension.paused == 0 && suspension.paused(until: 9100) == 100)
    #expect(suspension.end(at: 9150) && suspension.paused == 150 && !suspension.isActive)
    #expect(!suspension.end(at: 9200) && suspension.paused == 150, "there was no pause left")
    // The thread that read the clock first may be the last to resume.
    suspension.begin(at: 9300)
    #expect(suspension.end(at: 9290) && suspension.paused == 150)
  }

  /// The watchdog uses its age to decide whether the process was frozen while it was parked.
  @Test func turnIsNoOlderThanTheLoopsResumption() {
    pulse.turn(.afterWaiting)
    suspension.begin()
    usleep(20_000)
    _ = suspension.end()
    #expect(loop.age(at: Instant.now()) < 20_000_000)
    pulse.idle()
    #expect(loop.age(at: Instant.now()) == 0)
  }

  @Test func episodeEndsAtTheTransitionAndNotWhenItIsSeen() throws {
    pulse.turn(.afterWaiting)
    let turn = pulse.word
    let late = turn.began + Self.threshold
    #expect(loop.check(at: late, freeze: nil) == .late(turn))
    #expect(loop.beginEpisode(turn: turn, id: "x", now: late))
    let next = if case .checkAgain(let time) = loop.check(at: late, freeze: nil) { time } else { Instant.zero }
    #expect((late + 75_000_000...late + 125_000_000).contains(next))
    let before = Instant.now()
    pulse.idle()
    let after = Instant.now()
    // Turns that follow before the watchdog looks do not move the end.
    usleep(2000)
    pulse.turn(.afterWaiting)
    guard case .ended(let end) = loop.check(at: late, freeze: nil) else {
      Issue.record("the episode did not end")
      return
    }
    #expect(end >= before && end <= after)
  }

  @Test func turnThatEndsJustInTimeIsNoStall() {
    pulse.turn(.afterWaiting)
    let turn = pulse.word
    pulse.idle()
    #expect(!loop.beginEpisode(turn: turn, id: "x", now: turn.began + Self.threshold))
    #expect(!loop.isStalled)
  }

  /// On a busy machine the watchdog meets a turn late: what its thread did until then is known by the check before.
  @Test func firstTurnHasAKnownBeginning() {
    _ = loop.check(at: Instant.now(), freeze: nil)
    pulse.turn(.afterWaiting)
    _ = loop.check(at: pulse.word.began + 200_000_000, freeze: nil)
    #expect(loop.thread.beginning != nil)
  }
}
