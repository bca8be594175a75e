/// When the samples and the `stall.ongoing` reports of one stall are due.
///
/// The time between two samples doubles up to a quarter of the stall's age, so that no sample counts for much more than a quarter of the
/// stall. It is at most a second for the first 40 samples, and at most a minute then. Each interval is up to a quarter shorter or longer, so
/// that samples of periodic work meet all of it. `stall.ongoing` is due 1, 2, 4 … s after the beginning, and then every minute.
struct SampleSchedule: Equatable {
  /// The longest time between two of the first samples, and how many the first ones are.
  private static let steadySampleInterval: UInt64 = 1_000_000_000
  private static let steadySamples = 40
  private static let longestInterval: UInt64 = 60_000_000_000

  /// When the next sample is due.
  private(set) var nextSample: Instant
  /// When the next `stall.ongoing` is due.
  private(set) var nextOngoing: Instant

  private let start: Instant
  private let shortestInterval: UInt64
  private var sampleInterval: UInt64
  private var ongoingInterval: UInt64 = 1_000_000_000
  private var samples = 0
  private var times: IrregularTimes

  /// The schedule of a stall that was found at `now`.
  ///
  /// - Parameters:
  ///   - start: When the late turn began, without the time in which the process was frozen.
  ///   - now: When it was found to be late, and sampled first.
  ///   - sampling: How long after the first sample the second one comes.
  init(start: Instant, now: Instant, sampling: UInt64 = 100_000_000) {
    self.start = start
    shortestInterval = sampling
    sampleInterval = sampling
    times = IrregularTimes(seed: now.nanoseconds)
    nextSample = now
    nextOngoing = max(start + ongoingInterval, now + 1)
    planNext(after: now)
  }

  /// Plans the next sample, after one at `time`.
  ///
  /// The first one, and one that was taken for `stall.ongoing`, changes no plan: the latter are at regular times.
  mutating func didSample(at time: Instant) {
    if time >= nextSample { planNext(after: time) }
  }

  private mutating func planNext(after time: Instant) {
    samples += 1
    nextSample = time + irregular(sampleInterval)
    // The interval after the next sample.
    let isSteady = samples + 1 < Self.steadySamples
    // A loop may have been resumed since the stall was found.
    let age = nextSample.since(start)
    let longest = min(age / 4, isSteady ? Self.steadySampleInterval : Self.longestInterval)
    sampleInterval = max(shortestInterval, min(2 * sampleInterval, longest))
  }

  private mutating func irregular(_ interval: UInt64) -> UInt64 {
    times.next(interval - interval / 4, interval + interval / 4)
  }

  /// Plans the next `stall.ongoing`, after one at `time`.
  mutating func didReportOngoing(at time: Instant) {
    while nextOngoing <= time {
      nextOngoing += ongoingInterval
      if ongoingInterval < Self.longestInterval { ongoingInterval = min(2 * ongoingInterval, Self.longestInterval) }
    }
  }
}
