import Testing

@testable import stalld

struct TokenBucketTests {
  /// A rate of a few an hour admits one at once, and the next one when its time has come.
  @Test func slowRateAdmitsOne() {
    var bucket = TokenBucket(rate: 0.01)
    #expect(bucket.hasToken)
    bucket.take(1)
    #expect(!bucket.hasToken)
    #expect(bucket.time(until: 1, rate: 0.01) == .seconds(100))
    bucket.refill(rate: 0.01, at: .now.advanced(by: .seconds(1000)))
    #expect(bucket.hasToken && bucket.isFull(rate: 0.01))
    bucket.take(1)
    #expect(!bucket.hasToken, "the burst is one")
  }
}
