import CLinux

extension Loop {
  /// A point in time on the kernel's monotonic clock, in nanoseconds.
  ///
  /// One 64-bit word: comparing is a single instruction, and reading the clock is one call into the vDSO
  /// (about 22 ns). The clock (`CLOCK_MONOTONIC`) does not run while the machine is suspended and never jumps. Sums
  /// saturate at ``distantPast`` and ``distantFuture``.
  @frozen
  public struct Instant: InstantProtocol, Sendable {
    /// Nanoseconds since the clock's origin.
    public let nanoseconds: Int64

    /// The point that is this many nanoseconds after the clock's origin.
    @inlinable
    public init(nanoseconds: Int64) {
      self.nanoseconds = nanoseconds
    }

    /// The time now.
    public static var now: Instant { Instant(nanoseconds: clinux_monotonic()) }
    /// Later than every other instant: "never".
    @inlinable
    public static var distantFuture: Instant { Instant(nanoseconds: .max) }
    /// Earlier than every other instant.
    @inlinable
    public static var distantPast: Instant { Instant(nanoseconds: .min) }

    /// This instant moved by a duration, saturating.
    @inlinable
    public func advanced(by duration: Duration) -> Instant {
      Instant(nanoseconds: nanoseconds.addingSaturated(duration.clampedNanoseconds))
    }

    /// The time from this instant to another.
    @inlinable
    public func duration(to other: Instant) -> Duration {
      .nanoseconds(other.nanoseconds.subtractingSaturated(nanoseconds))
    }

    /// Whether the left instant is the earlier one.
    @inlinable
    public static func < (left: Instant, right: Instant) -> Bool {
      left.nanoseconds < right.nanoseconds
    }
  }
}

extension Duration {
  /// This duration in whole nanoseconds, clamped to what 64 bits hold (292 years).
  @inlinable
  var clampedNanoseconds: Int64 {
    let (seconds, attoseconds) = components
    let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
    if overflow { return seconds < 0 ? .min : .max }
    return product.addingSaturated(attoseconds / 1_000_000_000)
  }
}

extension Int64 {
  @inlinable
  func addingSaturated(_ other: Int64) -> Int64 {
    let (sum, overflow) = addingReportingOverflow(other)
    return overflow ? (other < 0 ? .min : .max) : sum
  }

  @inlinable
  func subtractingSaturated(_ other: Int64) -> Int64 {
    let (difference, overflow) = subtractingReportingOverflow(other)
    return overflow ? (other < 0 ? .max : .min) : difference
  }
}
