import CLinux
import Glibc
import StallDetection
import Testing

@testable import StallCapture
@testable import StallMonitor

struct TickScaleTests {
  private typealias Reading = TickScale.Reading
  private static let second: UInt64 = 1_000_000_000

  /// Three ticks a nanosecond, from a moment on.
  private func reading(_ time: UInt64, rate: Double = 3) -> Reading {
    Reading(ticks: UInt64(Double(time) * rate), time: time)
  }

  private func scale() throws -> TickScale {
    try #require(TickScale(from: reading(10 * Self.second), to: reading(10 * Self.second + 2_000_000)))
  }

  @Test func timesAreExactNearTheReadings() throws {
    var scale = try scale()
    for step in 1...100 as ClosedRange<UInt64> {
      scale.observe(reading(10 * Self.second + step * 300_000_000))
      let time = 10 * Self.second + step * 300_000_000 - 250_000_000
      #expect(abs(Int64(scale.time(of: time * 3)) - Int64(time)) < 1000)
    }
  }

  @Test func kernelsCorrectionsAreFollowed() throws {
    var scale = try scale()
    // The kernel slows its clock by 400 parts in a million.
    var ticks = 3 * (10 * Self.second + 2_000_000)
    var time = 10 * Self.second + 2_000_000
    for _ in 0..<10 {
      ticks += UInt64(3.0012 * Double(Self.second))
      time += Self.second
      scale.observe(Reading(ticks: ticks, time: time))
    }
    let age = UInt64(3.0012 * 250_000_000)
    #expect(abs(Int64(time - scale.time(of: ticks - age)) - 250_000_000) < 1000)
  }

  /// The counter ran while the machine slept, and the monotonic clock did not: no turn was that
  /// long.
  @Test func sleepOfTheMachineCountsForNoTurn() throws {
    var scale = try scale()
    let before = 3 * (11 * Self.second)
    let woken = Reading(ticks: 3 * (3611 * Self.second), time: 12 * Self.second)
    scale.observe(woken)
    #expect(scale.time(of: before) == woken.time)
    #expect(scale.time(of: woken.ticks + 300) == woken.time + 100)
  }

  @Test func counterThatWasSetCountsForNoTurn() throws {
    var scale = try scale()
    let reset = Reading(ticks: 1000, time: 12 * Self.second)
    scale.observe(reset)
    #expect(scale.time(of: 500) == reset.time)
    #expect(scale.time(of: 1000 + 3000) == reset.time + 1000)
  }

  /// The machine has moved to another one, or the first reading was disturbed.
  @Test func newRateIsLearnt() throws {
    var scale = try scale()
    var reading = reading(11 * Self.second)
    for _ in 0..<3 {
      reading = Reading(ticks: reading.ticks + 4 * 100_000_000, time: reading.time + 100_000_000)
      scale.observe(reading)
    }
    reading = Reading(ticks: reading.ticks + 4 * 100_000_000, time: reading.time + 100_000_000)
    scale.observe(reading)
    #expect(scale.time(of: reading.ticks - 4 * 50_000_000) == reading.time - 50_000_000)
  }

  @Test func counterThatDoesNotAdvanceIsNoClock() {
    #expect(TickScale(from: Reading(ticks: 5, time: 0), to: Reading(ticks: 5, time: 2_000_000)) == nil)
  }

  /// The watchdog may get a processor long after `start()` has returned.
  @Test(
    "a turn that begins before the watchdog knows the rate is timed from its beginning",
    .enabled(if: PulseClock.countsTicks(), "the kernel keeps its time by another clock than the counter"))
  func turnBeforeTheRateIsKnown() {
    let clock = PulseClock(countingTicks: true)
    let word = TurnWord(phase: .afterWaiting, stamp: clinux_time_stamp_counter())
    let after = MonotonicClock.now()
    usleep(50_000)
    clock.learnRate()
    #expect(clock.time(of: word, now: .never).nanoseconds <= after + 1_000_000)
  }

  /// The real counter against the real clock.
  @Test(.enabled(if: PulseClock.countsTicks(), "the kernel keeps its time by another clock than the counter"))
  func agreesWithTheKernel() {
    let clock = PulseClock(countingTicks: true)
    clock.learnRate()
    for _ in 0..<20 {
      usleep(3000)
      clock.observe()
      let before = MonotonicClock.now()
      let word = TurnWord(phase: .afterWaiting, stamp: clinux_time_stamp_counter())
      let after = MonotonicClock.now()
      let time = clock.time(of: word, now: .never).nanoseconds
      #expect(time + 100_000 >= before && time <= after + 100_000)
    }
  }
}
