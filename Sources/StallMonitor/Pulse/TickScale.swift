/// Turns readings of the processor's counter into monotonic times.
///
/// The rate is measured against `CLOCK_MONOTONIC` repeatedly, so that it follows the kernel's corrections. A machine that
/// was asleep, or a counter that was set, shows as a rate that cannot be: then everything before is taken to have happened at that
/// moment, so that it is not reported as a stall. If the next reading shows that rate again, it is the counter's new one, as after a
/// move to another machine.
struct TickScale: Equatable {
  /// Both clocks at one moment.
  struct Reading: Equatable {
    var ticks: UInt64
    var time: UInt64
  }

  private var anchor: Reading
  private var nanosecondsPerTick: Double
  // The rate up to the last reading, if that is none that the kernel's corrections make.
  private var otherRate: Double?
  // No moment before this one is known.
  private var horizon: Reading

  /// The kernel corrects its clock by 500 parts in a million at most (adjtimex(2)).
  private static let largestDeviation = 0.001
  /// Below it the readings' own error counts for too much.
  private static let shortestInterval: UInt64 = 1_000_000
  /// From it on, the rate is renewed.
  private static let renewalInterval: UInt64 = 1_000_000_000

  /// The rate between two readings, which should be milliseconds apart.
  ///
  /// Nil if the counter does not count.
  init?(from first: Reading, to second: Reading) {
    guard second.ticks > first.ticks, second.time > first.time else { return nil }
    anchor = second
    horizon = first
    nanosecondsPerTick = Double(second.time - first.time) / Double(second.ticks - first.ticks)
  }

  /// Learns from a new reading.
  mutating func observe(_ reading: Reading) {
    guard reading.time > anchor.time else { return }
    let interval = reading.time - anchor.time
    guard reading.ticks > anchor.ticks else { return beginAnew(at: reading) }
    guard interval >= Self.shortestInterval else { return }
    let rate = Double(interval) / Double(reading.ticks - anchor.ticks)
    guard Self.agree(rate, nanosecondsPerTick) else {
      if let otherRate, Self.agree(rate, otherRate) { nanosecondsPerTick = rate }
      beginAnew(at: reading)
      otherRate = rate
      return
    }
    otherRate = nil
    guard interval >= Self.renewalInterval else { return }
    nanosecondsPerTick = rate
    anchor = reading
  }

  private static func agree(_ rate: Double, _ other: Double) -> Bool { abs(rate / other - 1) <= largestDeviation }

  private mutating func beginAnew(at reading: Reading) {
    anchor = reading
    horizon = reading
    otherRate = nil
  }

  /// The time between two readings that are so far apart.
  func duration(of ticks: UInt64) -> UInt64 { UInt64(Double(ticks) * nanosecondsPerTick) }

  /// How many ticks are so many nanoseconds.
  func ticks(in nanoseconds: UInt64) -> UInt64 {
    UInt64(Double(min(nanoseconds, 1 << 62)) / max(nanosecondsPerTick, 0.01))
  }

  /// The monotonic time at which the counter was read.
  ///
  /// Within a few microseconds for the last seconds.
  func time(of ticks: UInt64) -> UInt64 {
    if ticks <= horizon.ticks { return horizon.time }
    if ticks >= anchor.ticks { return anchor.time + UInt64(Double(ticks - anchor.ticks) * nanosecondsPerTick) }
    let before = UInt64(Double(anchor.ticks - ticks) * nanosecondsPerTick)
    return before < anchor.time ? max(anchor.time - before, horizon.time) : horizon.time
  }
}
