/// A moment of the monotonic clock, in nanoseconds.
///
/// Durations are `UInt64` nanoseconds.
@frozen
package struct Instant: Hashable, Comparable, Sendable {
  package var nanoseconds: UInt64

  @inlinable
  package init(_ nanoseconds: UInt64) { self.nanoseconds = nanoseconds }

  /// The clock's zero: no turn began before.
  package static let zero = Instant(0)
  /// A moment that never comes.
  package static let never = Instant(.max)

  @inlinable
  package static func < (a: Instant, b: Instant) -> Bool { a.nanoseconds < b.nanoseconds }

  /// The moment so many nanoseconds later; ``never`` stays what it is.
  @inlinable
  package static func + (moment: Instant, duration: UInt64) -> Instant {
    let (sum, isBeyond) = moment.nanoseconds.addingReportingOverflow(duration)
    return Instant(isBeyond ? .max : sum)
  }

  /// The moment so many nanoseconds earlier, but not before ``zero``.
  @inlinable
  package static func - (moment: Instant, duration: UInt64) -> Instant {
    Instant(moment.nanoseconds > duration ? moment.nanoseconds - duration : 0)
  }

  @inlinable
  package static func += (moment: inout Instant, duration: UInt64) { moment = moment + duration }

  /// Nanoseconds since an earlier moment; 0 if `other` is not earlier.
  @inlinable
  package func since(_ other: Instant) -> UInt64 {
    nanoseconds > other.nanoseconds ? nanoseconds - other.nanoseconds : 0
  }

  /// The next moment on a grid of `interval` nanoseconds.
  package func next(onGridOf interval: UInt64) -> Instant { Instant((nanoseconds / interval + 1) * interval) }
}
