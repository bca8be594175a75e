import Synchronization

/// Counts of durations in log-linear buckets: eight to each power of two, so a value is known to within 12.5 %, from 1
/// ns to centuries.
///
/// One thread adds, any thread reads; adding is a load and a store.
final class DurationHistogram: @unchecked Sendable {
  // @unchecked: the pointer is constant and the words are atomic.
  static let bucketCount = 8 * 62
  private let buckets: UnsafeMutablePointer<Atomic<UInt>>

  init() {
    buckets = .allocate(capacity: Self.bucketCount)
    for index in 0..<Self.bucketCount { (buckets + index).initialize(to: Atomic(0)) }
  }

  deinit {
    buckets.deinitialize(count: Self.bucketCount)
    buckets.deallocate()
  }

  @inline(__always)
  func add(_ nanoseconds: Int64) {
    let bucket = buckets + Self.bucket(of: UInt64(max(0, nanoseconds)))
    bucket.pointee.store(bucket.pointee.load(ordering: .relaxed) &+ 1, ordering: .relaxed)
  }

  var counts: [UInt] { (0..<Self.bucketCount).map { buckets[$0].load(ordering: .relaxed) } }

  @inline(__always)
  static func bucket(of value: UInt64) -> Int {
    if value < 8 { return Int(value) }
    let shift = 60 - value.leadingZeroBitCount
    return shift * 8 + Int(value >> UInt64(shift))
  }

  /// The largest value that a bucket counts.
  static func upperBound(of bucket: Int) -> UInt64 {
    if bucket < 16 { return UInt64(bucket) }
    let shift = UInt64(bucket / 8 - 1)
    return ((UInt64(bucket % 8) + 9) << shift) - 1
  }
}
