import CLinux
import PlatformLibc
import StallCapture
import StallDetection
import StallReport

/// Reads the times in a pulse's words.
///
/// Belongs to the watchdog's thread.
///
/// Where the kernel itself keeps its time by the processor's counter, so do the pulses: it is what `clock_gettime` reads, at less
/// than half the cost for the loop. Everywhere else a stamp is the monotonic time.
final class PulseClock {
  /// Whether pulses are stamped with the processor's counter on this machine.
  ///
  /// The kernel chooses it only where it is constant and the same on all processors.
  static func countsTicks() -> Bool {
    #if arch(x86_64)
    let counter = "tsc\n"
    #elseif arch(arm64)
    let counter = "arch_sys_counter\n"
    #else
    let counter = "no counter"
    #endif
    let file = ProcFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    return file?.parse { $0.starts(with: counter.utf8) } ?? false
  }

  /// How long the first rate is measured, in nanoseconds.
  private static let firstInterval: UInt64 = 2_000_000

  private let first: TickScale.Reading?
  private var scale: TickScale?

  /// A clock for stamps of the counter, or of the monotonic time.
  ///
  /// It knows the time of no earlier stamp. Call ``learnRate()`` before it reads one.
  init(countingTicks: Bool = false) { first = countingTicks ? Self.read() : nil }

  /// Learns the counter's rate; waits until 2 ms have passed since the clock was made.
  func learnRate() {
    guard let first else { return }
    let age = MonotonicClock.now() - first.time
    if age < Self.firstInterval {
      var pause = timespec(tv_sec: 0, tv_nsec: Int(Self.firstInterval - age))
      nanosleep(&pause, nil)
    }
    scale = TickScale(from: first, to: Self.read())
  }

  /// Follows the rate.
  ///
  /// Call it at each wake-up.
  func observe() { scale?.observe(Self.read()) }

  /// The monotonic time in a word, never later than now.
  func time(of word: TurnWord, now: Instant) -> Instant { time(of: word.stamp, now: now) }

  private func time(of stamp: UInt64, now: Instant) -> Instant {
    min(Instant(scale?.time(of: stamp) ?? stamp), now)
  }

  /// What turns that last for so many nanoseconds exceed, in the unit of stamps; ``Pulse/noLimit`` while that is not known.
  ///
  /// A little less than that: the rate changes, and the watchdog judges by the times.
  func limit(for threshold: UInt64) -> UInt64 { Self.limit(for: threshold, by: scale, countsTicks: first != nil) }

  /// The same, of stamps with this scale.
  static func limit(for threshold: UInt64, by scale: TickScale?, countsTicks: Bool) -> UInt64 {
    let limit = threshold - threshold / 500
    guard countsTicks else { return min(limit, Pulse.noLimit) }
    return scale?.ticks(in: limit) ?? Pulse.noLimit
  }

  /// How long so many units of stamps are.
  func duration(of units: UInt64) -> UInt64 { scale?.duration(of: units) ?? units }

  /// A turn that the loop has noted, with its monotonic times.
  func note(_ note: clinux_late_turn, now: Instant) -> UnseenTurns.Note {
    let turn = TurnWord(raw: note.word)
    let end = time(of: note.end, now: now)
    let callouts = note.callouts.turn == turn.stamp ? times(of: note.callouts, now: end) : nil
    return UnseenTurns.Note(turn: turn, start: time(of: turn, now: now), end: end, callouts: callouts)
  }

  /// What is known of a turn's callouts, in nanoseconds.
  func times(of callouts: clinux_callouts, now: Instant) -> CalloutTimes {
    CalloutTimes(
      count: callouts.count, age: now.since(time(of: callouts.began, now: now)),
      longest: scale?.duration(of: callouts.longest) ?? callouts.longest,
      longestNumber: callouts.longest_number)
  }

  /// Reads both clocks as close together as possible: the best of five tries.
  static func read() -> TickScale.Reading {
    var best = TickScale.Reading(ticks: 0, time: 0)
    var width = UInt64.max
    for _ in 0..<5 {
      let before = clinux_time_stamp_counter()
      let time = MonotonicClock.now()
      let after = clinux_time_stamp_counter()
      if after &- before < width {
        width = after &- before
        best = TickScale.Reading(ticks: before &+ width / 2, time: time)
      }
    }
    return best
  }
}
