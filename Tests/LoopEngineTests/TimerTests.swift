import LoopEngine
import Testing

@testable import LoopEngine

@Suite struct TimerTests {
  @Test func missedRepeatsCoalesceOntoTheGrid() {
    let ms: Int64 = 1_000_000
    // Due at 10, held up for 35: the next are 50, 60, 70.
    #expect(Loop.Timer.nextDeadline(after: 45 * ms, due: 10 * ms, interval: 10 * ms) == 50 * ms)
    #expect(Loop.Timer.nextDeadline(after: 50 * ms, due: 50 * ms, interval: 10 * ms) == 60 * ms)
    // A date that is set ahead is honoured; a thousand years of nanosecond ticks take no longer than one.
    #expect(Loop.Timer.nextDeadline(after: 5, due: 9, interval: 3) == 9)
    #expect(Loop.Timer.nextDeadline(after: .max - 1, due: 0, interval: 1) == .max)
  }

  @Test func aRepeatingTimerKeepsItsGridWhenItIsHeldUp() throws {
    let start = Loop.Instant.now
    let log = Log<Loop.Instant>()
    _ = try onFreshLoop { loop in
      let timer = Loop.Timer(at: start.advanced(by: .milliseconds(5)), every: .milliseconds(5)) { timer in
        log.append(timer.nextFireDate)
        if log.count == 1 { sleepBriefly(microseconds: 12_000) }
        if log.count == 3 { timer.invalidate() }
      }
      loop.add(timer)
      return loop.run()
    }
    #expect(log.count == 3)
    for date in log.all {
      #expect(start.duration(to: date).clampedNanoseconds % 5_000_000 == 0)
    }
    // At least two were missed.
    #expect(log.all[0].duration(to: log.all[1]) >= .milliseconds(15))
  }

  @Test func aTimerNeverFiresAtItsCreation() throws {
    let log = Log<Int>()
    let before = try onFreshLoop { loop in
      loop.perform(after: .seconds(-5)) { _ in log.append(1) }
      let count = log.count
      loop.run()
      return count
    }
    #expect(before == 0)
    #expect(log.count == 1)
  }

  @Test func aOneShotTimerIsValidInItsClosureAndGoneAfterwards() throws {
    let log = Log<Bool>()
    let (after, finished) = try onFreshLoop { loop in
      let timer = loop.perform(after: .zero) { log.append($0.isValid) }
      let result = loop.run()
      return (timer.isValid, result)
    }
    #expect(log.all == [true])
    #expect(!after)
    #expect(finished == .finished)
  }

  @Test func anEarlyCallbackCancelsALaterOneThatIsDueAsWell() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      let now = Loop.Instant.now
      let second = Loop.Timer(at: now.advanced(by: .microseconds(2))) { _ in log.append("second") }
      let first = Loop.Timer(at: now.advanced(by: .microseconds(1))) { _ in
        log.append("first")
        second.invalidate()
      }
      loop.add(second)
      loop.add(first)
      sleepBriefly(microseconds: 100)
      return loop.run()
    }
    #expect(log.all == ["first"])
  }

  @Test func aTimerAddedByACallbackWaitsForTheNextPass() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      loop.observe(.beforeTimers) { _, _ in log.append("pass") }
      loop.perform(after: .zero) { _ in
        log.append("a")
        loop.add(Loop.Timer(at: .distantPast) { _ in log.append("b") })
      }
      return loop.run()
    }
    #expect(log.all == ["pass", "a", "pass", "b"])
  }

  @Test func equalDatesFireInTheOrderOfAddition() throws {
    let log = Log<Int>()
    _ = try onFreshLoop { loop in
      let date = Loop.Instant.now
      for number in 0..<100 { loop.add(Loop.Timer(at: date) { _ in log.append(number) }) }
      return loop.run()
    }
    #expect(log.all == Array(0..<100))
  }

  @Test func theFireDateCanBeMovedFromAnywhereAlsoFromItsClosure() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      let far = loop.perform(after: .seconds(1000)) { _ in log.append("moved nearer") }
      loop.perform(after: .zero) { _ in TestThread { far.nextFireDate = .now }.join() }
      let repeating = Loop.Timer(at: .now, every: .seconds(1000)) { timer in
        log.append("again")
        if log.count < 3 { timer.nextFireDate = .now } else { timer.invalidate() }
      }
      loop.add(repeating)
      return loop.run()
    }
    #expect(log.all.filter { $0 == "again" }.count >= 2)
    #expect(log.all.contains("moved nearer"))
  }

  @Test func toleranceMergesWakeUps() throws {
    let log = Log<UInt>()
    let fired = Log<Int>()
    _ = try onFreshLoop { loop in
      loop.observe(.afterWaiting) { _, _ in log.append(1) }
      let now = Loop.Instant.now
      for number in 0..<10 {
        let date = now.advanced(by: .milliseconds(20 + number))
        loop.add(Loop.Timer(at: date, tolerance: .milliseconds(100)) { _ in fired.append(number) })
      }
      return loop.run()
    }
    #expect(fired.all == Array(0..<10))
    // None, if the machine paused for so long that all were due at once.
    #expect(log.count <= 1)
  }

  @Test func toleranceMergesWakeUpsForCancellableWork() throws {
    let wakes = Log<Int>()
    let fired = Log<Int>()
    _ = try onFreshLoop { loop in
      loop.observe(.afterWaiting) { _, _ in wakes.append(1) }
      for number in 0..<10 {
        loop.performCancellable(after: .milliseconds(20 + number), tolerance: .milliseconds(100)) {
          fired.append(number)
        }
      }
      return loop.run()
    }
    #expect(fired.all == Array(0..<10))
    #expect(wakes.count <= 1)
  }

  @Test func withoutToleranceATimerIsNeverEarly() throws {
    let log = Log<Duration>()
    _ = try onFreshLoop { loop in
      for delay in [1, 3, 7] {
        loop.perform(after: .milliseconds(delay)) { timer in log.append(timer.nextFireDate.duration(to: .now)) }
      }
      return loop.run()
    }
    #expect(log.count == 3)
    #expect(log.all.allSatisfy { $0 >= .zero })
  }

  @Test func aTimerInSeveralModesFiresOncePerDate() throws {
    let log = Log<Int>()
    _ = try onFreshLoop { loop in
      let timer = Loop.Timer(after: .zero) { _ in log.append(1) }
      loop.add(timer, to: .default)
      loop.add(timer, to: .common)
      loop.add(timer, to: .tests)
      #expect(
        loop.contains(timer, in: .tests) && loop.contains(timer, in: .common) && loop.contains(timer, in: .default))
      loop.remove(timer, from: .default)
      #expect(!loop.contains(timer, in: .default) && loop.contains(timer, in: .common))
      loop.run(mode: .tests, for: .zero)
      return loop.run(mode: .default, for: .zero)
    }
    #expect(log.count == 1)
  }

  @Test func aTimerBelongsToOneLoop() throws {
    let timer = Loop.Timer(after: .seconds(1)) { _ in }
    #expect(try onFreshLoop { $0.add(timer) })
    #expect(try !onFreshLoop { $0.add(timer) })
  }

  @Test func theClosureIsReleasedWithTheTimersValidity() throws {
    final class Witness: Sendable {}
    weak let forOnce: Witness?
    weak let forInvalidated: Witness?
    let timers = Log<Loop.Timer>()
    do {
      let one = Witness()
      let two = Witness()
      forOnce = one
      forInvalidated = two
      _ = try onFreshLoop { loop in
        timers.append(loop.perform(after: .zero) { _ in withExtendedLifetime(one) {} })
        let repeating = loop.perform(every: .seconds(9)) { _ in withExtendedLifetime(two) {} }
        timers.append(repeating)
        loop.perform(after: .zero) { _ in repeating.invalidate() }
        return loop.run()
      }
    }
    #expect(timers.count == 2)
    #expect(forOnce == nil)
    #expect(forInvalidated == nil)
  }

  @Test func aMillionTimersComeAndGo() throws {
    let (left, order) = try onFreshLoop { loop in
      var timers: [Loop.Timer] = []
      let now = Loop.Instant.now
      let log = Log<Int64>()
      var state: UInt64 = 42
      for _ in 0..<1_000_000 {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        let date = now.advanced(by: .nanoseconds(Int64(state >> 44)))
        let timer = Loop.Timer(at: date) { log.append($0.nextFireDate.nanoseconds) }
        loop.add(timer)
        timers.append(timer)
      }
      for (index, timer) in timers.enumerated() where index % 100 != 0 { timer.invalidate() }
      let result = loop.run()
      return (result, log.all)
    }
    #expect(left == .finished)
    #expect(order.count == 10_000)
    let isInOrder = order == order.sorted()
    #expect(isInOrder)
  }

  @Test func whatEndsWithARemovedTimerMayLeaveWork() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      loop.add(Loop.Source {})
      func removeTimer(_ token: Token) {
        let timer = Loop.Timer(at: .distantFuture) { _ in withExtendedLifetime(token) {} }
        loop.add(timer)
        loop.remove(timer)
      }
      removeTimer(
        Token {
          loop.perform {
            log.append("block")
            loop.perform(after: .milliseconds(1)) { _ in
              log.append("timer")
              loop.stop()
            }
          }
        })
      return loop.run(mode: .default, for: .seconds(60))
    }
    #expect(log.all == ["block", "timer"])
  }

  /// What another thread does to a timer that is due.
  enum Change: CaseIterable { case invalidation, removal, laterDate }

  @Test(arguments: Change.allCases)
  func whatAnotherThreadDidBeforeTheWakeUpCounts(_ change: Change) throws {
    let log = Log<Int>()
    _ = try onFreshLoop { loop in
      let timer = loop.perform(after: .milliseconds(2)) { _ in log.append(1) }
      loop.observe(.afterWaiting) { _, _ in
        TestThread {
          switch change {
          case .invalidation: timer.invalidate()
          case .removal: loop.remove(timer)
          case .laterDate: timer.nextFireDate = .distantFuture
          }
        }.join()
      }
      loop.add(Loop.Source {})
      return loop.run(mode: .default, for: .milliseconds(20))
    }
    #expect(log.count == 0)
  }

  @Test func aModeHasItsOwnTimers() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      loop.add(Loop.Source {}, to: .tests)
      for mode in [Loop.Mode.common, .other, .default] {
        loop.add(Loop.Timer(at: .distantPast) { _ in log.append(mode.name) }, to: mode)
      }
      return loop.run(mode: .tests, for: .zero)
    }
    #expect(log.all == [])
  }

  @Test func anInvalidTimerHoldsNothingInAnyLoop() throws {
    // @unchecked: written before other code has the object.
    final class Owner: @unchecked Sendable { var timer: Loop.Timer? }
    weak var unbound: Owner?
    weak var late: Owner?
    func make() -> Owner {
      let owner = Owner()
      owner.timer = Loop.Timer(at: .distantFuture) { _ in withExtendedLifetime(owner) {} }
      return owner
    }
    do {
      let owner = make()
      unbound = owner
      owner.timer?.invalidate()
    }
    do {
      let owner = make()
      late = owner
      _ = try onFreshLoop { loop in
        loop.add(owner.timer!)
        loop.remove(owner.timer!)
      }
      owner.timer?.invalidate()
    }
    #expect(unbound == nil)
    #expect(late == nil)
  }

  @Test func theLoopHoldsATimerWhileItIsScheduled() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      // Nobody but the loop has it.
      func schedule(_ token: Token) {
        loop.add(Loop.Timer(after: .zero) { _ in withExtendedLifetime(token) { log.append("fired") } })
      }
      schedule(Token { log.append("freed") })
      log.append("scheduled")
      return loop.run()
    }
    #expect(log.all == ["scheduled", "fired", "freed"])
  }

  @Test func theClosureOfATimerThatAnotherThreadEndsIsReleasedWhenTheLoopNextTurns() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      func schedule(_ token: Token) -> Loop.Timer {
        loop.perform(after: .seconds(1000)) { _ in withExtendedLifetime(token) {} }
      }
      let timer = schedule(Token { log.append("released on \(loop.isCurrent ? "the loop's thread" : "another")") })
      TestThread {
        timer.invalidate()
        log.append("invalidated")
      }.join()
      return loop.run(mode: .default, for: .zero)
    }
    #expect(log.all == ["invalidated", "released on the loop's thread"])
  }

  @Test func aNegativeToleranceIsZero() throws {
    let timer = Loop.Timer(after: .seconds(1), tolerance: .seconds(-1)) { _ in }
    #expect(timer.permittedDelay == .zero)
    timer.permittedDelay = .milliseconds(3)
    #expect(timer.permittedDelay == .milliseconds(3))
    timer.permittedDelay = .seconds(-5)
    #expect(timer.permittedDelay == .zero)
  }

  @Test func aDateThatWasSetBeforeTheAdditionHolds() throws {
    let log = Log<Int>()
    _ = try onFreshLoop { loop in
      let timer = Loop.Timer(at: .distantFuture) { _ in log.append(1) }
      timer.nextFireDate = .now
      loop.add(timer)
      return loop.run()
    }
    #expect(log.count == 1)
  }

  @Test func aTimerMayFireInAnyOfItsModesAndLeavesAllOfThem() throws {
    let log = Log<String?>()
    let results = try onFreshLoop { loop in
      let timer = Loop.Timer(after: .zero) { _ in log.append(loop.currentMode?.name) }
      for mode in [Loop.Mode.default, .tests, .other] { loop.add(timer, to: mode) }
      return [Loop.Mode.tests, .default, .other].map { loop.run(mode: $0, for: .seconds(60)) }
    }
    #expect(log.all == ["tests"])
    #expect(results == [.finished, .finished, .finished])
  }
}
