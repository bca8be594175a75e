import LoopEngine
import Testing

@Suite struct InstantTests {
  typealias Instant = Loop.Instant

  @Test func sumsOfInstantsSaturate() {
    #expect(Instant.distantFuture.advanced(by: .nanoseconds(1)) == .distantFuture)
    #expect(Instant.distantPast.advanced(by: .nanoseconds(-1)) == .distantPast)
    #expect(Instant(nanoseconds: 1).advanced(by: .seconds(Int64.max)) == .distantFuture)
    #expect(Instant(nanoseconds: -2).advanced(by: .seconds(Int64.min)) == .distantPast)
    #expect(Instant(nanoseconds: 5).advanced(by: .nanoseconds(-7)).nanoseconds == -2)
  }

  @Test func differencesOfInstantsSaturate() {
    #expect(Instant.distantPast.duration(to: .distantFuture) == .nanoseconds(Int64.max))
    #expect(Instant.distantFuture.duration(to: .distantPast) == .nanoseconds(Int64.min))
    #expect(Instant(nanoseconds: 3).duration(to: Instant(nanoseconds: 10)) == .nanoseconds(7))
  }

  @Test func everyInstantLiesBetweenTheDistantPastAndTheDistantFuture() {
    let dates = [Instant.distantPast, Instant(nanoseconds: -1), Instant(nanoseconds: 0), .now, .distantFuture]
    #expect(dates == dates.sorted() && Set(dates).count == 5)
  }

  @Test func theClockNeverGoesBack() {
    var last = Instant.now
    for _ in 0..<10_000 {
      let now = Instant.now
      #expect(now >= last)
      last = now
    }
  }
}
