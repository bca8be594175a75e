import Glibc
import Testing

@testable import StallMonitor

/// When a turn is late, told to the nanosecond: the clock is handed in.
struct WatchedLoopTests {
  private let pulse = Pulse(semaphore: WatchdogSemaphore(), fencesItself: true)
  private let suspension = Suspension()
  private let loop: WatchedLoop
  private static let threshold: UInt64 = 250_000_000

  init() {
    loop = WatchedLoop(
      WatchedLoop.Subject(
        name: "main", kind: { "loop" }, threadID: getpid(), stackEnd: 0, threshold: Self.threshold, pulse: pulse,
        suspension: suspension, state: { (nil, nil) }), clock: PulseClock())
  }

  @Test func loopThatNeverTurnedIsQuiet() {
    #expect(loop.look(at: 10_000_000_000, frozen: 0) == .quiet)
  }

  @Test func turnThatWasUnderWayWhenTheWatchBeganIsTimedLikeAnyOther() {
    let pulse = Pulse(semaphore: WatchdogSemaphore(), fencesItself: true)
    pulse.turn(.beforeSources)
    let loop = WatchedLoop(
      WatchedLoop.Subject(
        name: "main", kind: { "loop" }, threadID: getpid(), stackEnd: 0, threshold: Self.threshold, pulse: pulse,
        suspension: suspension, state: { (nil, nil) }), clock: PulseClock())
    let since = pulse.word.stamp
    #expect(loop.look(at: since + 1, frozen: 0) == .lookAgain(at: since + Self.threshold))
  }

  @Test func turnIsLateAtTheThresholdAndNotBefore() {
    pulse.turn(.afterWaiting)
    let word = pulse.word
    let deadline = word.stamp + Self.threshold
    #expect(loop.look(at: word.stamp + 1, frozen: 0) == .lookAgain(at: deadline))
    #expect(loop.look(at: deadline - 1, frozen: 0) == .lookAgain(at: deadline))
    #expect(loop.look(at: deadline, frozen: 0) == .late(word))
  }

  @Test func eachTransitionBeginsATurnOfItsOwn() {
    pulse.turn(.afterWaiting)
    let first = pulse.word
    _ = loop.look(at: first.stamp, frozen: 0)
    usleep(1000)
    pulse.turn(.beforeSources)
    #expect(pulse.word.stamp > first.stamp)
    #expect(loop.look(at: first.stamp + Self.threshold, frozen: 0) == .lookAgain(at: pulse.word.stamp + Self.threshold))
  }

  /// Beside other loops it would look as if the process had stood still.
  @Test func overlookedTurnHasNoAge() {
    pulse.turn(.afterWaiting)
    let turn = pulse.word
    let late = turn.stamp + Self.threshold
    #expect(loop.look(at: late, frozen: 0) == .late(turn))
    #expect(loop.age(at: late) == Self.threshold)
    #expect(loop.beginEpisode(turn: turn, id: "x", now: late))
    loop.overlookTurn()
    #expect(loop.age(at: late) == 0)
  }
  @Test func idleLoopIsWatchedForOneMoreThresholdAndThenLetGo() {
    pulse.turn(.beforeSources)
    pulse.idle()
    let now = MonotonicClock.now()
    #expect(loop.look(at: now, frozen: 0) == .lookAgain(at: now + Self.threshold))
    #expect(loop.look(at: now + Self.threshold, frozen: 0) == .quiet)
  }

  @Test func loopIsHealthyUntilATurnIsLate() {
    #expect(loop.isHealthy(at: 10_000_000_000), "it has never turned")
    pulse.turn(.afterWaiting)
    let deadline = pulse.word.stamp + Self.threshold
    #expect(loop.isHealthy(at: deadline - 1))
    #expect(!loop.isHealthy(at: deadline), "before anybody has looked at it")
    suspension.begin()
    #expect(loop.isHealthy(at: deadline), "it is paused")
    #expect(suspension.end())
    #expect(loop.isHealthy(at: suspension.resumedAt + Self.threshold - 1))
    #expect(!loop.isHealthy(at: suspension.resumedAt + Self.threshold))
    pulse.idle()
    #expect(loop.isHealthy(at: deadline + 10 * Self.threshold), "it waits")
  }

  @Test func stalledLoopIsHealthyAgainWhenItsTurnHasEnded() {
    pulse.turn(.afterWaiting)
    let word = pulse.word
    let late = word.stamp + Self.threshold
    #expect(loop.look(at: late, frozen: 0) == .late(word))
    #expect(loop.beginEpisode(turn: word, id: "0", now: late))
    suspension.begin()
    #expect(!loop.isHealthy(at: late), "a pause does not end a stall")
    pulse.turn(.beforeSources)
    #expect(loop.isHealthy(at: late))
  }

  @Test func frozenProcessForgivesTheTurn() {
    pulse.turn(.afterWaiting)
    let since = pulse.word.stamp
    _ = loop.look(at: since, frozen: 0)
    let thawed = since + 5_000_000_000
    let deadline = since + 4_900_000_000 + Self.threshold
    #expect(loop.look(at: thawed, frozen: 4_900_000_000) == .lookAgain(at: deadline))
    #expect(loop.look(at: deadline, frozen: 0) == .late(pulse.word))
    // What is not held against the turn is not part of the stall either, and the report has it.
    #expect(loop.beginEpisode(turn: pulse.word, id: "0", now: deadline))
    #expect(loop.episode?.duration(at: deadline) == Self.threshold)
    #expect(loop.episode?.frozen == 4_900_000_000)
  }

  @Test func freezeBeforeTheTurnIsNotDeductedFromIt() {
    pulse.turn(.afterWaiting)
    let since = pulse.word.stamp
    #expect(loop.look(at: since + 10, frozen: 4_900_000_000) == .lookAgain(at: since + 10 + Self.threshold))
  }

  @Test func suspendedLoopIsOverlookedAndTimedFromItsResumption() {
    pulse.turn(.afterWaiting)
    let since = pulse.word.stamp
    suspension.begin()
    suspension.begin()
    #expect(loop.look(at: since + 10 * Self.threshold, frozen: 0) == .quiet)
    #expect(!loop.hasMoved)
    #expect(suspension.end())
    #expect(loop.look(at: since + 20 * Self.threshold, frozen: 0) == .quiet)
    #expect(suspension.end())
    let resumed = MonotonicClock.now()
    guard case .lookAgain(let deadline) = loop.look(at: resumed, frozen: 0) else {
      Issue.record("not watched after its resumption")
      return
    }
    #expect(deadline > since + Self.threshold && deadline <= resumed + Self.threshold)
    #expect(!suspension.end())
  }

  @Test func resumptionWithoutAPauseForgivesNothing() {
    pulse.turn(.afterWaiting)
    let late = pulse.word.stamp + Self.threshold
    for _ in 0..<3 { #expect(!suspension.end()) }
    #expect(suspension.resumedAt == 0)
    #expect(loop.look(at: late, frozen: 0) == .late(pulse.word))
  }

  /// By its age the watchdog judges whether the process stood still while it was parked.
  @Test func turnIsNoOlderThanTheLoopsResumption() {
    pulse.turn(.afterWaiting)
    suspension.begin()
    usleep(20_000)
    _ = suspension.end()
    #expect(loop.age(at: MonotonicClock.now()) < 20_000_000)
    pulse.idle()
    #expect(loop.age(at: MonotonicClock.now()) == 0)
  }

  @Test func episodeEndsAtTheTransitionAndNotWhenItIsSeen() throws {
    pulse.turn(.afterWaiting)
    let turn = pulse.word
    let late = turn.stamp + Self.threshold
    #expect(loop.look(at: late, frozen: 0) == .late(turn))
    #expect(loop.beginEpisode(turn: turn, id: "x", now: late))
    #expect(loop.look(at: late, frozen: 0) == .lookAgain(at: late + 100_000_000))
    let before = MonotonicClock.now()
    pulse.idle()
    let after = MonotonicClock.now()
    // Turns that follow before the watchdog looks do not move the end.
    usleep(2000)
    pulse.turn(.afterWaiting)
    guard case .ended(let end) = loop.look(at: late, frozen: 0) else {
      Issue.record("the episode did not end")
      return
    }
    #expect(end >= before && end <= after)
  }

  @Test func turnThatEndsJustInTimeIsNoStall() {
    pulse.turn(.afterWaiting)
    let turn = pulse.word
    pulse.idle()
    #expect(!loop.beginEpisode(turn: turn, id: "x", now: turn.stamp + Self.threshold))
    #expect(!loop.isStalled)
  }

  @Test func ongoingIsDueAtGrowingIntervals() {
    var episode = Episode(id: "x", turn: Pulse.Word(phase: .afterWaiting, stamp: 0), start: 0, now: 250)
    var times: [UInt64] = []
    for _ in 0..<9 {
      times.append(episode.nextOngoing / 1_000_000_000)
      episode.didReportOngoing(at: episode.nextOngoing)
    }
    #expect(times == [1, 2, 4, 8, 16, 32, 64, 124, 184])
  }

  @Test func halfAMinuteCostsAtMostFortySamples() {
    var episode = Episode(id: "x", turn: Pulse.Word(phase: .afterWaiting, stamp: 0), start: 0, now: 250_000_000)
    episode.add(.stub(cause: .running), at: 250_000_000)
    while episode.nextSample < 30_000_000_000 { episode.add(.stub(cause: .running), at: episode.nextSample) }
    #expect(episode.sampleCount <= 40)
    #expect(episode.sampleCount >= 25)
  }

  @Test func verdictIsOverTheWholeStallAndNotItsLastMoment() {
    var episode = Episode(id: "x", turn: Pulse.Word(phase: .afterWaiting, stamp: 0), start: 0, now: 0)
    episode.add(.stub(cause: .sleep, symbol: "sleeper()"), at: 800)
    episode.add(.stub(cause: .running, symbol: "computer()"), at: 1000)
    #expect(episode.cause == .sleep)
    #expect(episode.heaviest?.stack.first?.symbol == "sleeper()")
  }

  @Test func frozenTimeIsNotPartOfTheDuration() {
    var episode = Episode(id: "x", turn: Pulse.Word(phase: .afterWaiting, stamp: 100), start: 100, now: 350)
    episode.frozen = 300
    #expect(episode.duration(at: 1100) == 700)
  }
}

extension Episode.Sample {
  fileprivate static func stub(cause: Cause, symbol: String = "f()") -> Episode.Sample {
    Episode.Sample(activity: .running, cause: cause, stack: [StackFrame(symbol: symbol)])
  }
}
