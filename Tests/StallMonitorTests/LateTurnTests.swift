import CLinux
import Glibc
import StallReport
import TestSupport
import Testing

@testable import StallCapture
@testable import StallDetection
@testable import StallMonitor

/// A turn that was late and over before the watchdog met it is known by the loop's own note.
struct LateTurnTests {
  private static let threshold: UInt64 = 5_000_000
  private let pulse = Pulse(semaphore: WakeSemaphore(), fencesItself: true)
  private let suspension = Suspension()
  private let loop: WatchedLoop

  init() {
    loop = WatchedLoop(
      WatchedLoop.Subject(
        label: .init(name: "main", kind: { .loop }), thread: .init(id: getpid()),
        limits: .init(threshold: Self.threshold, suspension: suspension),
        publication: LoopPublication(pulse: pulse)), pulseClock: PulseClock(),
      clock: SystemClock(WakeSemaphore()), counters: ProcessCounters(of: .own))
    // The first check has the loop note its turns.
    _ = loop.takeUnseenTurns(at: .now(), frozen: 0)
  }

  /// A turn of at least so many nanoseconds; returns when it began.
  @discardableResult
  private func turn(lasting time: UInt64 = 2 * threshold) -> UInt64 {
    let begin = MonotonicClock.now()
    pulse.turn(.afterWaiting, stamp: begin)
    while MonotonicClock.now() < begin + time { usleep(500) }
    pulse.idle()
    return begin
  }

  private func stalls(frozen: UInt64 = 0) -> [Episode] {
    loop.takeUnseenTurns(at: .now(), frozen: frozen).stalls
  }

  @Test func lateTurnIsAStallWithItsExactTime() throws {
    let begin = turn()
    let end = MonotonicClock.now()
    let stalls = stalls()
    #expect(stalls.count == 1)
    let stall = try #require(stalls.first)
    #expect(stall.start.nanoseconds == begin && stall.turn.stamp == begin)
    #expect((begin + 2 * Self.threshold...end).contains(stall.lastSampleTime.nanoseconds))
    #expect(stall.heaviest?.failure == .turnEnded && stall.heaviest?.stack.isEmpty == true)
    #expect(self.stalls().isEmpty, "it is reported once")
  }

  /// The watchdog may have no processor, or wait for memory, when the watch begins.
  @Test(arguments: [false, true])
  func turnThatIsOverBeforeTheFirstCheckIsKnown(countsTicks: Bool) {
    let pulse = Pulse(semaphore: WakeSemaphore(), fencesItself: true, countsTicks: countsTicks)
    let clock = PulseClock(countingTicks: countsTicks)
    let subject = WatchedLoop.Subject(
      label: .init(name: "main", kind: { .loop }), thread: .init(id: getpid()),
      limits: .init(threshold: Self.threshold, suspension: suspension), publication: LoopPublication(pulse: pulse))
    WatchList(semaphore: WakeSemaphore()).watch(subject)
    for time in [0, 2 * Self.threshold] {
      pulse.turn(.afterWaiting)
      usleep(UInt32(time / 1000))
      pulse.idle()
    }
    clock.learnRate()
    let loop = WatchedLoop(
      subject, pulseClock: clock, clock: SystemClock(WakeSemaphore()), counters: ProcessCounters(of: .own))
    let late = loop.takeUnseenTurns(at: .now(), frozen: 0)
    #expect(late.stalls.count == 1 && late.lost == 0)
    #expect(late.stalls.first.map { $0.duration(at: $0.lastSampleTime) >= 2 * Self.threshold } == true)
  }

  @Test func turnInTimeIsNone() {
    pulse.turn(.afterWaiting)
    pulse.idle()
    #expect(pulse.lateTurns.count == 0 && stalls().isEmpty)
  }

  /// Without a wait, the next pass begins another turn.
  @Test func turnThatTheNextOneEndsIsNotedToo() {
    let begin = MonotonicClock.now()
    pulse.turn(.beforeSources, stamp: begin - 2 * Self.threshold)
    pulse.turn(.beforeSources, stamp: begin)
    #expect(stalls().map(\.lastSampleTime.nanoseconds) == [begin])
  }

  @Test func followedTurnIsReportedOnce() {
    let begin = MonotonicClock.now()
    pulse.turn(.afterWaiting, stamp: begin - 2 * Self.threshold)
    #expect(loop.check(at: Instant(begin), freeze: nil) == .late(pulse.word))
    #expect(loop.beginEpisode(turn: pulse.word, id: "x", now: Instant(begin)))
    pulse.idle()
    #expect(pulse.lateTurns.count == 1)
    #expect(stalls().isEmpty)
    loop.endEpisode()
    turn()
    #expect(stalls().count == 1, "the next one is another stall")
  }

  /// What the process did not have is not part of the turn.
  @Test func freezeIsDeducted() {
    turn(lasting: 3 * Self.threshold)
    #expect(stalls(frozen: 1_000_000_000).isEmpty)
    turn(lasting: 3 * Self.threshold)
    let stall = loop.takeUnseenTurns(at: .now(), frozen: Self.threshold / 2).stalls.first
    // The freeze was in the last moments, of which the turn had most.
    #expect((stall?.frozen ?? 0) <= Self.threshold / 2)
    #expect(stall.map { $0.duration(at: $0.lastSampleTime) >= Self.threshold } == true)
  }

  @Test func pauseIsForgiven() {
    suspension.begin()
    turn()
    #expect(stalls().isEmpty, "it is paused")
    let begin = MonotonicClock.now()
    pulse.turn(.afterWaiting, stamp: begin - 2 * Self.threshold)
    #expect(suspension.end())
    pulse.idle()
    #expect(stalls().isEmpty, "it counts from the resumption")
  }

  /// More than are kept: their number and their time are known.
  @Test func turnsThatAreNotKeptAreCounted() {
    let base = MonotonicClock.now()
    for number in (1...40).reversed() {
      pulse.turn(.afterWaiting, stamp: base - UInt64(number) * 10 * Self.threshold)
      pulse.turn(.beforeSources, stamp: base - UInt64(number) * 10 * Self.threshold + 2 * Self.threshold)
      // Ended by the next turn, a while later.
    }
    pulse.turn(.afterWaiting, stamp: base)
    let unseen = loop.takeUnseenTurns(at: Instant(base + 1), frozen: 0)
    let all = UInt64(unseen.stalls.count) + unseen.lost
    #expect(all == 80)
    #expect(unseen.stalls.count == Int(CLINUX_LATE_TURNS))
    let known = unseen.stalls.reduce(0) { $0 + $1.duration(at: $1.lastSampleTime) }
    #expect(known + unseen.lostTime == 40 * 10 * Self.threshold)
  }

  /// Of a job of the pool it is not known whether it was one or several.
  @Test func threadsOfTheTaskPoolNoteNothing() {
    #expect(PulseClock(countingTicks: true).limit(for: Self.threshold) == Pulse.noLimit, "the rate is not known yet")
    let pulse = Pulse(semaphore: WakeSemaphore(), fencesItself: true)
    pulse.turn(.afterWaiting, stamp: MonotonicClock.now() - 2 * Self.threshold)
    pulse.idle()
    #expect(pulse.lateTurns.count == 0, "nobody has set a limit")
  }

  /// The reader meets notes that are being written.
  @Test func notesAreReadWholeOrNotAtAll() async {
    let pulse = pulse
    pulse.noteTurns(longerThan: 10)
    await withTaskGroup(of: Void.self) { group in
      group.addTask {
        for number in 1...200_000 as ClosedRange<UInt64> {
          pulse.turn(.afterWaiting, stamp: number << 20)
          pulse.turn(.beforeSources, stamp: number << 20 + number)
          pulse.turn(.afterWaiting, stamp: number << 20 + number)
        }
      }
      group.addTask {
        var read: UInt64 = 0
        while read < 190_000 {
          let count = pulse.lateTurns.count
          for number in max(read, count - min(count, 16))..<count {
            guard let note = pulse.lateTurn(number) else { continue }
            let (begin, length) = (note.word >> 2, note.end &- note.word >> 2)
            #expect(begin & 0xFFFFF == 0 ? length == begin >> 20 : true)
          }
          read = count
        }
      }
    }
    // Nobody writes any more.
    let count = pulse.lateTurns.count
    #expect((count - UInt64(CLINUX_LATE_TURNS)..<count).allSatisfy { pulse.lateTurn($0) != nil })
  }
}
