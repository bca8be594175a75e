import TestSupport
import Testing

@testable import StallDetection

/// What the watchdog decides about a loop, in virtual time: no thread, no clock, no pulse.
struct TurnMonitorTests {
  private static let threshold: UInt64 = 250
  private var monitor = TurnMonitor(threshold: threshold)

  private typealias Reading = TurnMonitor.Reading

  /// A loop in a turn that began at `began`.
  private func turn(
    at now: UInt64, since began: UInt64, phase: TurnPhase = .afterWaiting, paused: UInt64 = 0
  ) -> Reading {
    Reading(
      now: Instant(now), word: TurnWord(phase: phase, stamp: began), turnBegan: Instant(began),
      paused: paused)
  }

  /// A loop that waits, after a turn that began at `began`; 0 for none.
  private func idle(
    at now: UInt64, since began: UInt64 = 0, _ heartbeat: TurnMonitor.HeartbeatState = .none
  ) -> Reading {
    Reading(
      now: Instant(now), word: TurnWord(phase: .idle, stamp: began), turnBegan: Instant(began), heartbeat: heartbeat)
  }

  private mutating func decide(_ reading: Reading, frozen: UInt64 = 0) -> TurnMonitor.Decision {
    monitor.check(reading, frozen: frozen).decision
  }

  // MARK: Late turns

  @Test mutating func loopThatNeverTurnedIsQuiet() {
    #expect(decide(idle(at: 1_000_000)) == .quiet)
  }

  @Test mutating func turnIsLateAtTheThresholdAndNotBefore() {
    #expect(decide(turn(at: 1001, since: 1000)) == .checkAgain(at: 1250))
    #expect(decide(turn(at: 1249, since: 1000)) == .checkAgain(at: 1250))
    #expect(decide(turn(at: 1250, since: 1000)) == .late(TurnWord(phase: .afterWaiting, stamp: 1000)))
  }

  @Test mutating func turnThatIsFirstSeenWhenItIsLateIsLate() {
    #expect(decide(turn(at: 9000, since: 1000)) == .late(TurnWord(phase: .afterWaiting, stamp: 1000)))
  }

  @Test mutating func turnIsNewOnce() {
    #expect(monitor.check(turn(at: 1001, since: 1000), frozen: 0).isNewTurn)
    #expect(!monitor.check(turn(at: 1002, since: 1000), frozen: 0).isNewTurn)
    #expect(monitor.check(turn(at: 1100, since: 1050), frozen: 0).isNewTurn)
  }

  /// The sources of the next pass belong to the turn, and change the phase alone.
  @Test mutating func phaseChangesWithinATurn() {
    _ = decide(turn(at: 1001, since: 1000))
    #expect(decide(turn(at: 1100, since: 1000, phase: .beforeSources)) == .checkAgain(at: 1250))
  }

  @Test mutating func eachTurnHasItsOwnThreshold() {
    _ = decide(turn(at: 1001, since: 1000))
    #expect(decide(turn(at: 1250, since: 1100)) == .checkAgain(at: 1350))
  }

  /// The rate of the processor's counter is corrected from time to time.
  @Test mutating func beginningOfATurnStaysAsItWasFirstRead() {
    _ = decide(turn(at: 1001, since: 1000))
    var reading = turn(at: 1240, since: 1000)
    reading.turnBegan = 980
    #expect(decide(reading) == .checkAgain(at: 1250))
  }

  @Test mutating func loopThatFallsIdleIsCheckedOnceMore() {
    _ = decide(turn(at: 1001, since: 1000))
    #expect(decide(idle(at: 1100, since: 1000)) == .checkAgain(at: 1350))
    #expect(decide(idle(at: 1350, since: 1000)) == .quiet)
    #expect(decide(idle(at: 9000, since: 1000)) == .quiet)
  }

  @Test mutating func changedThresholdAppliesToTheCurrentTurn() {
    _ = decide(turn(at: 1001, since: 1000))
    monitor.threshold = 500
    #expect(decide(turn(at: 1250, since: 1000)) == .checkAgain(at: 1500))
  }

  @Test mutating func moveIsJudgedAgainstTheLastCheck() {
    let word = TurnWord(phase: .afterWaiting, stamp: 1000)
    #expect(monitor.hasMoved(word) && !monitor.hasSeen(word))
    _ = decide(turn(at: 1001, since: 1000))
    #expect(!monitor.hasMoved(word) && monitor.hasSeen(word))
    #expect(monitor.hasMoved(TurnWord(phase: .idle, stamp: 1000)))
  }

  // MARK: Freezes

  @Test mutating func freezeInsideATurnIsForgiven() {
    _ = decide(turn(at: 1000, since: 1000))
    let next: Instant = 1000 + 4900 + 250
    #expect(decide(turn(at: 6000, since: 1000), frozen: 4900) == .checkAgain(at: next))
    #expect(decide(turn(at: 6149, since: 1000)) == .checkAgain(at: 6150))
    #expect(decide(turn(at: 6150, since: 1000)) == .late(TurnWord(phase: .afterWaiting, stamp: 1000)))
    let late = monitor.checkedTurn
    #expect(late.start == 1000 && late.frozen == 4900 && late.frozenUntil == 6000)
  }

  @Test mutating func freezesAddUp() {
    _ = decide(turn(at: 1000, since: 1000))
    _ = decide(turn(at: 2000, since: 1000), frozen: 900)
    let next: Instant = 1000 + 1800 + 250
    #expect(decide(turn(at: 3000, since: 1000), frozen: 900) == .checkAgain(at: next))
  }

  @Test mutating func freezeIsNoLongerThanTheTurn() {
    let next: Instant = 1000 + 10 + 250
    #expect(decide(turn(at: 1010, since: 1000), frozen: 5000) == .checkAgain(at: next))
  }

  @Test mutating func freezeOfOneTurnIsNotForgivenToTheNext() {
    _ = decide(turn(at: 1000, since: 1000))
    _ = decide(turn(at: 6000, since: 1000), frozen: 4900)
    #expect(decide(turn(at: 6100, since: 6050)) == .checkAgain(at: 6300))
  }

  // MARK: Suspension

  @Test mutating func suspendedLoopIsQuiet() {
    var reading = turn(at: 9000, since: 1000)
    reading.isSuspended = true
    #expect(decide(reading) == .quiet)
    #expect(monitor.lateTurn(reading) == nil)
    #expect(monitor.isHealthy(reading))
    #expect(!monitor.hasMoved(reading.word), "nobody is to be woken for it")
  }

  @Test mutating func pauseIsNotOfTheTurn() {
    var reading = turn(at: 9000, since: 1000)
    reading.isSuspended = true
    _ = decide(reading)
    #expect(decide(turn(at: 9200, since: 1000, paused: 8100)) == .checkAgain(at: 9350))
    #expect(decide(turn(at: 9350, since: 1000, paused: 8100)) == .late(reading.word))
    #expect(monitor.checkedTurn.start == 9100)
  }

  /// What was counted before the pause is not the stall's.
  @Test mutating func turnIsNewAfterAPause() {
    #expect(monitor.check(turn(at: 1001, since: 1000), frozen: 0).isNewTurn)
    var reading = turn(at: 1100, since: 1000)
    reading.isSuspended = true
    #expect(!monitor.check(reading, frozen: 0).isNewTurn)
    #expect(monitor.check(turn(at: 9200, since: 1000, paused: 8000), frozen: 0).isNewTurn)
    #expect(!monitor.check(turn(at: 9201, since: 1000, paused: 8000), frozen: 0).isNewTurn)
  }

  @Test mutating func pauseBeforeTheTurnForgivesNothing() {
    var rest = idle(at: 900, since: 100)
    rest.paused = 500
    _ = decide(rest)
    #expect(decide(turn(at: 1100, since: 1000, paused: 500)) == .checkAgain(at: 1250))
  }

  /// Another thread pauses the watch for 1 ms repeatedly: a turn that is late without these times is found.
  @Test mutating func shortPausesHideNoTurn() {
    var paused: UInt64 = 0
    for now in stride(from: UInt64(1010), to: 1260, by: 10) {
      paused += 1
      guard case .checkAgain(let next) = decide(turn(at: now, since: 1000, paused: paused)) else {
        Issue.record("late at \(now)")
        return
      }
      #expect(next == Instant(1250 + paused))
    }
    let late = turn(at: 1275, since: 1000, paused: paused)
    #expect(decide(late) == .late(late.word))
    #expect(monitor.checkedTurn.start == Instant(1000 + paused))
  }

  @Test mutating func suspensionDoesNotEndAStall() {
    let word = follow(turn(at: 1250, since: 1000))
    var reading = Reading(now: 1300, word: word, turnBegan: 1000, isSuspended: true)
    #expect(isSampled(in: 1325...1375, decide(reading)))
    #expect(!monitor.isHealthy(reading))
    reading.turnEnd = 1290
    #expect(decide(reading) == .ended(at: 1290))
  }

  // MARK: Age and health

  @Test mutating func ageCountsFromTheTurnOrTheResumption() {
    #expect(monitor.age(turn(at: 1100, since: 1000)) == 100)
    #expect(monitor.age(turn(at: 1100, since: 1000, paused: 60)) == 40)
    #expect(monitor.age(turn(at: 1100, since: 1000, paused: 200)) == 0)
    #expect(monitor.age(idle(at: 1100, since: 1000)) == 0)
  }

  @Test mutating func loopIsHealthyUntilATurnIsLate() {
    #expect(monitor.isHealthy(idle(at: 9000)), "it has never turned")
    #expect(monitor.isHealthy(turn(at: 1249, since: 1000)))
    #expect(!monitor.isHealthy(turn(at: 1250, since: 1000)), "before any check")
    #expect(monitor.isHealthy(turn(at: 1250, since: 1000, paused: 1)))
    #expect(monitor.isHealthy(idle(at: 9000, since: 1000)), "it waits")
  }

  @Test mutating func frozenTurnIsHealthy() {
    _ = decide(turn(at: 1000, since: 1000))
    _ = decide(turn(at: 6000, since: 1000), frozen: 4900)
    #expect(monitor.isHealthy(turn(at: 6149, since: 1000)))
    #expect(!monitor.isHealthy(turn(at: 6150, since: 1000)))
    // Another turn has not been frozen.
    #expect(!monitor.isHealthy(turn(at: 6150, since: 5900)))
  }

  @Test mutating func stalledLoopIsHealthyWhenItsTurnHasEnded() {
    let word = follow(turn(at: 1250, since: 1000))
    #expect(!monitor.isHealthy(Reading(now: 1300, word: word, turnBegan: 1000)))
    #expect(monitor.isHealthy(Reading(now: 1300, word: word, turnBegan: 1000, turnEnd: 1290)))
  }

  // MARK: Ignored turns

  @Test mutating func ignoredTurnIsQuietHealthyAndHasNoAge() {
    let word = follow(turn(at: 1250, since: 1000))
    monitor.ignore(word)
    monitor.stopFollowing()
    let reading = turn(at: 9000, since: 1000)
    #expect(decide(reading) == .quiet)
    #expect(monitor.isHealthy(reading) && monitor.age(reading) == 0 && monitor.lateTurn(reading) == nil)
    #expect(decide(turn(at: 9100, since: 9050)) == .checkAgain(at: 9300), "the next one is watched")
  }

  // MARK: The stall

  /// Follows the turn of a reading that is late.
  private mutating func follow(_ reading: Reading, sampling: UInt64 = 100) -> TurnWord {
    guard case .late(let word) = decide(reading) else {
      Issue.record("not late")
      return reading.word
    }
    monitor.follow(monitor.checkedTurn, foundAt: reading.now, sampling: sampling)
    return word
  }

  @Test mutating func stallIsSampledAtTheTimesOfItsSchedule() {
    let word = follow(turn(at: 1250, since: 1000))
    #expect(monitor.isFollowing)
    monitor.didSample(at: 1250)
    #expect(isSampled(in: 1325...1375, decide(Reading(now: 1324, word: word, turnBegan: 1000))))
    #expect(decide(Reading(now: 1375, word: word, turnBegan: 1000)) == .due(sample: true, ongoing: false))
    monitor.didSample(at: 1380)
    #expect(isSampled(in: 1455...1505, decide(Reading(now: 1380, word: word, turnBegan: 1000))))
  }

  /// Whether the next sample is due then: intervals are irregular.
  private func isSampled(in times: ClosedRange<Instant>, _ decision: TurnMonitor.Decision) -> Bool {
    if case .checkAgain(let time) = decision { times.contains(time) } else { false }
  }

  @Test mutating func ongoingIsDueASecondAfterTheBeginning() {
    let start: UInt64 = 1_000_000_000
    monitor.threshold = 250_000_000
    let word = follow(turn(at: start + 250_000_000, since: start), sampling: 60_000_000_000)
    let due = start + 1_000_000_000
    #expect(
      decide(Reading(now: Instant(due - 1), word: word, turnBegan: Instant(start))) == .checkAgain(at: Instant(due)))
    #expect(
      decide(Reading(now: Instant(due), word: word, turnBegan: Instant(start))) == .due(sample: false, ongoing: true))
    monitor.didReportOngoing(at: Instant(due))
    #expect(
      decide(Reading(now: Instant(due), word: word, turnBegan: Instant(start)))
        == .checkAgain(at: Instant(start + 2_000_000_000)))
  }

  /// The word of a later turn does not move the end, and the end outranks a sample that is due.
  @Test mutating func stallEndsWithThePulsesEndTime() {
    _ = follow(turn(at: 1250, since: 1000))
    var reading = turn(at: 9000, since: 8990)
    reading.turnEnd = 1300
    #expect(decide(reading) == .ended(at: 1300))
    monitor.stopFollowing()
    #expect(!monitor.isFollowing)
    #expect(decide(turn(at: 9000, since: 8990)) == .checkAgain(at: 9240))
  }

  @Test mutating func stallOfALoopThatIsOverEndsNow() {
    let word = follow(turn(at: 1250, since: 1000, phase: .heartbeat))
    var reading = Reading(now: 1290, word: word, turnBegan: 1000, heartbeat: .over)
    #expect(decide(reading) == .ended(at: 1290))
    reading.turnEnd = 1280
    #expect(decide(reading) == .ended(at: 1280), "the loop knows better")
  }

  /// What the watchdog finds when it asks the pulse for the end: the turn ended in that instant.
  @Test mutating func lateTurnThatIsNotFollowedLeavesNoState() {
    guard case .late = decide(turn(at: 1250, since: 1000)) else {
      Issue.record("not late")
      return
    }
    #expect(!monitor.isFollowing)
    #expect(decide(idle(at: 1251, since: 1000)) == .checkAgain(at: 1501))
    #expect(decide(idle(at: 1501, since: 1000)) == .quiet)
  }

  // MARK: Without memory

  @Test mutating func lateTurnIsKnownWithoutACheck() {
    #expect(monitor.lateTurn(turn(at: 1249, since: 1000)) == nil)
    let late = monitor.lateTurn(turn(at: 1250, since: 1000))
    #expect(late?.start == 1000 && late?.frozen == 0)
    _ = decide(turn(at: 1000, since: 1000))
    _ = decide(turn(at: 6000, since: 1000), frozen: 4900)
    #expect(monitor.lateTurn(turn(at: 6149, since: 1000)) == nil)
    #expect(monitor.lateTurn(turn(at: 6150, since: 1000))?.frozen == 4900)
  }

  @Test mutating func deferredTurnWaitsUntilItIsFollowed() {
    _ = decide(turn(at: 1100, since: 1000))
    monitor.postpone()
    #expect(monitor.isDeferred && !monitor.isFollowing)
    var ended = idle(at: 9000, since: 1000)
    ended.turnEnd = 1300
    #expect(decide(ended) == .deferred, "its end is reported when there is memory")
    let late = TurnMonitor.LateTurn(word: TurnWord(phase: .afterWaiting, stamp: 1000), start: 1000)
    monitor.follow(late, foundAt: 1260, sampling: 100)
    #expect(decide(ended) == .ended(at: 1300))
  }

  // MARK: Heartbeats

  private mutating func beat(_ reading: Reading) -> Bool { decide(reading) == .beat }

  @Test mutating func heartbeatIsSentOnTheGridOfTheThreshold() {
    #expect(beat(idle(at: 1010, .beating)))
    // The loop rests, and got none.
    #expect(monitor.didBeat(idle(at: 1010, .beating), frozen: 0).decision == .checkAgain(at: 1250))
    #expect(decide(idle(at: 1249, .beating)) == .checkAgain(at: 1250), "woken for another reason")
    #expect(beat(idle(at: 1250, .beating)))
    #expect(monitor.didBeat(idle(at: 1250, .beating), frozen: 0).decision == .checkAgain(at: 1500))
    // After a long wait for another loop it is the next line of the same grid.
    #expect(beat(idle(at: 2110, .beating)))
    #expect(monitor.didBeat(idle(at: 2110, .beating), frozen: 0).decision == .checkAgain(at: 2250))
  }

  @Test mutating func heartbeatIsATurn() {
    #expect(beat(idle(at: 1010, .beating)))
    var sent = turn(at: 1010, since: 1010, phase: .heartbeat)
    sent.heartbeat = .beating
    let outcome = monitor.didBeat(sent, frozen: 0)
    #expect(outcome.decision == .checkAgain(at: 1260) && outcome.isNewTurn)
    sent.now = 1259
    #expect(decide(sent) == .checkAgain(at: 1260))
    sent.now = 1260
    #expect(decide(sent) == .late(sent.word))
  }

  @Test mutating func answeredHeartbeatIsFollowedByTheNextOnTheGrid() {
    #expect(beat(idle(at: 1010, .beating)))
    var sent = turn(at: 1010, since: 1010, phase: .heartbeat)
    sent.heartbeat = .beating
    _ = monitor.didBeat(sent, frozen: 0)
    #expect(decide(idle(at: 1240, since: 1010, .beating)) == .checkAgain(at: 1250))
    #expect(beat(idle(at: 1250, since: 1010, .beating)))
  }

  /// A freeze that was noticed at this check came before the heartbeat.
  @Test mutating func freezeBeforeTheHeartbeatIsNotForgivenToIt() {
    #expect(beat(idle(at: 9000, .beating)))
    var sent = turn(at: 9000, since: 9000, phase: .heartbeat)
    sent.heartbeat = .beating
    #expect(monitor.didBeat(sent, frozen: 4000).decision == .checkAgain(at: 9250))
  }

  @Test mutating func frozenProcessForgivesTheHeartbeat() {
    #expect(beat(idle(at: 1000, .beating)))
    var sent = turn(at: 1000, since: 1000, phase: .heartbeat)
    sent.heartbeat = .beating
    _ = monitor.didBeat(sent, frozen: 0)
    sent.now = 6000
    #expect(decide(sent, frozen: 4900) == .checkAgain(at: 6150))
  }

  @Test mutating func suspendedLoopGetsNoHeartbeat() {
    var reading = idle(at: 1000, .beating)
    reading.isSuspended = true
    #expect(decide(reading) == .quiet)
  }

  @Test mutating func loopThatIsOverIsQuiet() {
    var reading = turn(at: 9000, since: 1000, phase: .heartbeat)
    reading.heartbeat = .over
    #expect(decide(reading) == .quiet)
  }

  // MARK: The search for the thread that serves a loop

  @Test mutating func searchContinuesAtGrowingIntervals() {
    monitor.threshold = 250_000_000
    let start: UInt64 = 1_000_000_000
    var (now, searches) = (start, 0)
    while now < start + 600_000_000_000 {
      guard case .checkAgain(let next) = decide(idle(at: now, .searching)) else {
        Issue.record("no search")
        return
      }
      #expect(decide(idle(at: now + 1, .searching)) == .checkAgain(at: next), "woken for another reason")
      #expect((10_000_000...max(10_000_000, (now - start) / 8)).contains(next.nanoseconds - now))
      #expect(next.nanoseconds - now <= 60_000_000_000)
      searches += 1
      now = next.nanoseconds
    }
    #expect(searches < 100)
  }

  @Test mutating func searchEndsAfterFourThresholdsOfTurns() {
    for round in 0..<4 as Range<UInt64> {
      var reading = turn(at: 1000 + round * Self.threshold, since: 1000 + round * Self.threshold)
      reading.heartbeat = .searching
      #expect(!monitor.check(reading, frozen: 0).endsSearch, "round \(round)")
    }
    var reading = turn(at: 1000 + 4 * Self.threshold, since: 1000 + 4 * Self.threshold)
    reading.heartbeat = .searching
    #expect(monitor.check(reading, frozen: 0).endsSearch)
  }

  @Test mutating func loopThatHasTurnedAndRestsIsNotSearchedFor() {
    var reading = turn(at: 1001, since: 1000)
    reading.heartbeat = .searching
    _ = decide(reading)
    #expect(decide(idle(at: 1100, since: 1000, .searching)) == .checkAgain(at: 1350))
    #expect(decide(idle(at: 1350, since: 1000, .searching)) == .quiet)
  }
}

/// When samples and `stall.ongoing` are due.
struct SampleScheduleTests {
  /// Each interval is up to a quarter shorter or longer.
  ///
  /// This stall is old when it is found.
  @Test func samplesGrowFurtherApartUpToASecond() {
    var schedule = SampleSchedule(start: 0, now: 4_000_000_000, sampling: 100_000_000)
    // The first was due when the stall was found; what comes next counts from it.
    schedule.didSample(at: 4_000_000_000)
    var last: Instant = 4_000_000_000
    for expected: UInt64 in [100, 200, 400, 800, 1000, 1000] {
      let interval = schedule.nextSample.since(last)
      #expect((expected * 750_000...expected * 1_250_000).contains(interval), "\(expected): \(interval)")
      last = schedule.nextSample
      schedule.didSample(at: last)
    }
  }

  /// The last sample may count for the time up to the next one.
  @Test func noSampleCountsForAThirdOfAStall() {
    for stall in 0..<200 {
      let start = Instant(UInt64(stall) * 1_000_003)
      var schedule = SampleSchedule(start: start, now: start + 250_000_000, sampling: 100_000_000)
      var last = start + 250_000_000
      schedule.didSample(at: last)
      while last.since(start) < 10_000_000_000 {
        #expect(schedule.nextSample.since(last) <= schedule.nextSample.since(start) / 3)
        last = schedule.nextSample
        schedule.didSample(at: last)
      }
    }
  }

  /// A loop that was suspended and resumed meanwhile.
  @Test func stallMayBeginAfterItWasFound() {
    var schedule = SampleSchedule(start: 5_000_000_000, now: 4_000_000_000, sampling: 10_000_000)
    schedule.didSample(at: schedule.nextSample)
    #expect(schedule.nextSample < 4_100_000_000)
  }

  /// Work with a period of 50 ms that computes for 30 of them: regular samples would always meet the same part.
  @Test func samplesMeetAllOfPeriodicWork() {
    var computing = 0
    for stall in 0..<200 {
      let start = Instant(UInt64(stall) * 1_000_003)
      var schedule = SampleSchedule(start: start, now: start + 250_000_000, sampling: 100_000_000)
      for time in sequence(first: start + 250_000_000, next: { _ in schedule.nextSample }).prefix(5) {
        if time.since(start) % 50_000_000 < 30_000_000 { computing += 1 }
        schedule.didSample(at: time)
      }
    }
    // 600 of 1000; the first sample of each stall is at its beginning.
    #expect((550...750).contains(computing), "\(computing) of 1000")
  }

  /// `stall.ongoing` comes at regular times, and its sample is one more.
  @Test func sampleForOngoingChangesNoPlan() {
    var schedule = SampleSchedule(start: 0, now: 250_000_000)
    schedule.didSample(at: 250_000_000)
    let planned = schedule
    schedule.didSample(at: planned.nextSample - 1)
    #expect(schedule == planned)
    schedule.didSample(at: planned.nextSample)
    #expect(schedule != planned)
  }

  @Test func longSamplingIsKept() {
    var schedule = SampleSchedule(start: 0, now: 0, sampling: 30_000_000_000)
    schedule.didSample(at: 0)
    #expect((22_500_000_000...37_500_000_000).contains(schedule.nextSample))
  }

  @Test func ongoingIsDueAtGrowingIntervals() {
    var schedule = SampleSchedule(start: 0, now: 250)
    var times: [UInt64] = []
    for _ in 0..<9 {
      times.append(schedule.nextOngoing.nanoseconds / 1_000_000_000)
      schedule.didReportOngoing(at: schedule.nextOngoing)
    }
    #expect(times == [1, 2, 4, 8, 16, 32, 64, 124, 184])
  }

  /// The watchdog may have been kept from running for longer than one interval.
  @Test func missedOngoingIsReportedOnce() {
    var schedule = SampleSchedule(start: 0, now: 250)
    schedule.didReportOngoing(at: 5_000_000_000)
    #expect(schedule.nextOngoing == 8_000_000_000)
  }

  /// The threshold may be longer than a second.
  @Test func ongoingComesAfterTheBeginning() {
    #expect(SampleSchedule(start: 0, now: 5_000_000_000).nextOngoing == 5_000_000_001)
  }

  @Test func halfAMinuteCostsAtMostFortySamples() {
    var schedule = SampleSchedule(start: 0, now: 250_000_000)
    schedule.didSample(at: 250_000_000)
    var samples = 1
    while schedule.nextSample < 30_000_000_000 {
      schedule.didSample(at: schedule.nextSample)
      samples += 1
    }
    #expect(samples <= 40)
    #expect(samples >= 25)
  }
}
