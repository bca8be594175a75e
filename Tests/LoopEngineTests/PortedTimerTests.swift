import Glibc
import Testing

@testable import LoopEngine

/// What libuv's and libdispatch's suites ask of timers, asked of ours.
///
/// Each test names the test that asks there. Nothing is copied but the question; where the answer
/// differs on purpose, it is ours.
@Suite struct PortedTimerTests {
  /// libuv: timer.
  @Test func oneShotRepeatingAndRemovedTimersFireAsOftenAsTheyShould() throws {
    let log = Log<String>()
    let result = try onFreshLoop { loop in
      for number in 0..<10 { loop.perform(after: .microseconds(100 * number)) { _ in log.append("once") } }
      loop.perform(every: .microseconds(100)) { timer in
        log.append("repeating")
        if log.all.filter({ $0 == "repeating" }).count == 5 { timer.invalidate() }
      }
      loop.remove(loop.perform(every: .microseconds(100)) { _ in log.append("removed") })
      return loop.run()
    }
    #expect(result == .finished)
    #expect(log.all.sorted() == Array(repeating: "once", count: 10) + Array(repeating: "repeating", count: 5))
  }

  /// libuv: timer_start_twice.
  @Test func aTimerThatIsStartedAgainFiresAtItsLastDateAlone() throws {
    let log = Log<Loop.Instant>()
    let date = Loop.Instant.now.advanced(by: .microseconds(50))
    let result = try onFreshLoop { loop in
      let timer = Loop.Timer(after: .seconds(86_400)) { log.append($0.nextFireDate) }
      loop.add(timer)
      timer.nextFireDate = .now.advanced(by: .seconds(1000))
      timer.nextFireDate = date
      return loop.run()
    }
    #expect(log.all == [date])
    #expect(result == .finished)
  }

  /// libuv: timer_order.
  @Test func equalDatesFireInTheOrderOfTheLastAddition() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      let date = Loop.Instant.now
      let a = Loop.Timer(at: date, every: .seconds(1000)) { _ in log.append("a") }
      let b = Loop.Timer(at: date, every: .seconds(1000)) { _ in log.append("b") }
      for timer in [a, b] { loop.add(timer) }
      loop.run(mode: .default, for: .zero)
      for timer in [a, b] { loop.remove(timer) }
      for timer in [b, a] {
        timer.nextFireDate = date
        loop.add(timer)
      }
      loop.run(mode: .default, for: .zero)
      // A date that is set again counts as an addition.
      for timer in [b, a] { timer.nextFireDate = date }
      a.nextFireDate = date
      b.nextFireDate = date
      loop.run(mode: .default, for: .zero)
    }
    #expect(log.all == ["a", "b", "b", "a", "a", "b"])
  }

  /// libuv: timer_zero_timeout.
  @Test func aTimerThatMovesItselfToNowAndStopsTheRunHasFiredOnce() throws {
    let log = Log<Int>()
    let results = try onFreshLoop { loop in
      let timer = Loop.Timer(at: .now, every: .seconds(1000)) { timer in
        log.append(1)
        timer.nextFireDate = .now
        loop.stop()
      }
      loop.add(timer)
      let first = loop.run()
      timer.invalidate()
      return [first, loop.run()]
    }
    #expect(results == [.stopped, .finished])
    #expect(log.count == 1)
  }

  /// libuv: timer_huge_timeout.
  @Test func hugeTimeOutsDoNotHideAShortOne() throws {
    let log = Log<String>()
    let result = try onFreshLoop { loop in
      let huge = [Duration.milliseconds(0xFFFF_FFFF_FFFF), .seconds(Int64.max), .nanoseconds(Int64.max)].map { delay in
        loop.perform(after: delay) { _ in log.append("huge") }
      }
      #expect(loop.nextTimerDate(in: .default)! > .now)
      #expect(huge[1].nextFireDate == .distantFuture && huge[2].nextFireDate == .distantFuture)
      loop.perform(after: .milliseconds(1)) { _ in
        log.append("short")
        for timer in huge { timer.invalidate() }
      }
      return loop.run()
    }
    #expect(log.all == ["short"])
    #expect(result == .finished)
  }

  /// libuv: timer_huge_repeat; libdispatch: dispatch_timer_bit63.
  @Test(arguments: [Duration.seconds(Int64.max), .nanoseconds(Int64.max), .seconds(0x2_1000_0000)])
  func aHugeIntervalIsNotReachedASecondTime(_ interval: Duration) throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      let huge = Loop.Timer(at: .now, every: interval) { _ in log.append("huge") }
      loop.add(huge)
      loop.perform(every: .microseconds(200)) { timer in
        log.append("tiny")
        if log.count < 10 { return }
        timer.invalidate()
        huge.invalidate()
      }
      return loop.run()
    }
    #expect(log.all == ["huge"] + Array(repeating: "tiny", count: 9))
  }

  /// libuv: timer_run_once.
  ///
  /// There a timer ends a run for one event; here it is no source.
  @Test func aTimerAloneEndsNoRunForOneSourceButFinishesIt() throws {
    let log = Log<Int>()
    let results = try onFreshLoop { loop in
      [Duration.zero, .microseconds(100)].map { delay in
        loop.perform(after: delay) { _ in log.append(1) }
        return loop.run(mode: .default, before: .distantFuture)
      }
    }
    #expect(results == [.finished, .finished])
    #expect(log.count == 2)
  }

  /// libuv: timer_no_double_call_once, timer_no_double_call_nowait.
  @Test(arguments: [Duration.zero, .nanoseconds(1)])
  func aRepeatingTimerThatIsTwoIntervalsLateFiresOnceInAPass(_ time: Duration) throws {
    let log = Log<Int>()
    _ = try onFreshLoop { loop in
      let start = Loop.Instant.now
      let timer = Loop.Timer(at: start.advanced(by: .seconds(-2100)), every: .seconds(1000)) { _ in log.append(1) }
      loop.add(timer)
      loop.run(mode: .default, for: time)
      #expect(start.duration(to: timer.nextFireDate) == .seconds(900))
    }
    #expect(log.count == 1)
  }

  /// libuv: timer_again.
  @Test func aTimerThatIsAlwaysMovedAheadFiresOnceTheOtherHasEnded() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      let late = Loop.Timer(at: .now.advanced(by: .seconds(1000)), every: .microseconds(100)) { timer in
        log.append("late")
        if log.count == 12 { timer.invalidate() }
      }
      loop.add(late)
      loop.perform(every: .microseconds(100)) { timer in
        log.append("early")
        late.nextFireDate = .now.advanced(by: .seconds(1000))
        if log.count < 10 { return }
        timer.invalidate()
        late.nextFireDate = .now
      }
      return loop.run()
    }
    #expect(log.all == Array(repeating: "early", count: 10) + ["late", "late"])
  }

  /// libuv: timer_from_check.
  @Test func aTimerIsReplacedBetweenTheWaitAndItsFiring() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      let old = loop.perform(after: .milliseconds(1)) { _ in log.append("old") }
      loop.observe(.afterWaiting, repeats: false) { _, _ in
        log.append("after waiting")
        old.invalidate()
        let new = loop.perform(after: .seconds(1000)) { _ in log.append("new") }
        // Due already: served by this pass, as timers come after the wait.
        loop.add(Loop.Timer(at: .distantPast) { _ in log.append("due") })
        loop.observe(.beforeTimers, repeats: false) { _, _ in
          log.append("next pass")
          new.nextFireDate = .now
        }
      }
      return loop.run(mode: .default, for: .seconds(60))
    }
    #expect(log.all == ["after waiting", "due", "next pass", "new"])
  }

  /// libuv: loop_backend_timeout.
  @Test func theTimeToTheNextTimerComesAndGoesWithTheTimers() throws {
    let dates = try onFreshLoop { loop in
      var dates = [loop.nextTimerDate(in: .default)]
      let date = Loop.Instant.now.advanced(by: .milliseconds(1))
      loop.add(Loop.Timer(at: date) { _ in })
      dates.append(loop.nextTimerDate(in: .default) == date ? .distantFuture : nil)
      loop.run()
      dates.append(loop.nextTimerDate(in: .default))
      return dates
    }
    #expect(dates == [nil, .distantFuture, nil])
  }

  /// libdispatch: dispatch_timer.
  @Test func timersAfterTheEndNeverFireAndTheirClosuresAreFreed() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      func schedule(_ token: Token) {
        loop.perform(after: .seconds(1000)) { _ in withExtendedLifetime(token) { log.append("later") } }
      }
      for _ in 0..<3 { schedule(Token { log.append("freed") }) }
      loop.perform(every: .microseconds(100)) { timer in
        log.append("tick")
        if log.count < 3 { return }
        // A date that is set just before the end does not count.
        timer.nextFireDate = .now
        timer.invalidate()
        loop.stop()
      }
      return loop.run()
    }
    #expect(log.all == ["tick", "tick", "tick", "freed", "freed", "freed"])
  }

  /// libdispatch: dispatch_timer_bit31.
  @Test(arguments: [0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 0x1_0000_0000] as [Int64])
  func anIntervalOfThirtyTwoBitsIsWhole(_ nanoseconds: Int64) throws {
    let log = Log<Int64>()
    _ = try onFreshLoop { loop in
      // Due now by a whole number of intervals, so that the next date is known without a wait for
      // it.
      let due = Loop.Instant(nanoseconds: Loop.Instant.now.nanoseconds)
      let timer = Loop.Timer(at: due, every: .nanoseconds(nanoseconds)) { _ in log.append(1) }
      loop.add(timer)
      loop.run(mode: .default, for: .zero)
      #expect(timer.interval == .nanoseconds(nanoseconds))
      let ahead = timer.nextFireDate.nanoseconds - due.nanoseconds
      #expect(ahead >= nanoseconds && ahead % nanoseconds == 0)
      let delayed = Loop.Timer(after: .nanoseconds(nanoseconds)) { _ in }
      #expect(delayed.nextFireDate.nanoseconds - due.nanoseconds >= nanoseconds)
    }
    #expect(log.count == 1)
  }

  /// libdispatch: dispatch_timer_set_time.
  ///
  /// There the interval can be set; here the date, from which the grid continues.
  @Test func aDateThatIsSetWhileTheTimerFiresBeginsAnotherGrid() throws {
    let log = Log<Int64>()
    _ = try onFreshLoop { loop in
      let first = Loop.Instant.now
      let second = first.advanced(by: .nanoseconds(12_345))
      let timer = Loop.Timer(at: first, every: .milliseconds(1)) { timer in
        switch log.count {
        case 0:
          log.append(timer.nextFireDate.nanoseconds - first.nanoseconds)
          timer.nextFireDate = second
        case 5: timer.invalidate()
        default: log.append((timer.nextFireDate.nanoseconds - second.nanoseconds) % 1_000_000)
        }
      }
      loop.add(timer)
      return loop.run()
    }
    #expect(log.all == [0, 0, 0, 0, 0])
  }

  /// libdispatch: dispatch_timer_short.
  @Test func shortTimersDoNotStarveEachOther() throws {
    let counts = try onFreshLoop { loop in
      let logs = (0..<50).map { _ in Log<Int>() }
      for log in logs { loop.add(Loop.Timer(at: .now, every: .nanoseconds(1)) { _ in log.append(1) }) }
      for _ in 0..<20 { loop.run(mode: .default, for: .zero) }
      return logs.map(\.count)
    }
    #expect(counts == Array(repeating: 20, count: 50))
  }

  /// libdispatch: dispatch_timer_timeout.
  @Test func aTimerWhoseClosureDoesNotReturnDelaysNoOtherInANestedRun() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      loop.add(
        Loop.Timer(at: .now, every: .nanoseconds(100)) { timer in
          log.append("short")
          loop.run()
          timer.invalidate()
          loop.stop()
        })
      loop.perform(after: .milliseconds(1)) { _ in
        log.append("long")
        loop.stop()
      }
      return loop.run(mode: .default, for: .seconds(60))
    }
    #expect(log.all == ["short", "long"])
  }

  /// libdispatch: dispatch_after.
  @Test func delaysThatAreAskedForInDelaysAreNeverShort() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      @Sendable func after(_ delay: Duration, _ name: String, _ body: @escaping @Sendable () -> Void) {
        let start = Loop.Instant.now
        loop.performCancellable(after: delay) {
          log.append("\(name) \(start.duration(to: .now) >= delay)")
          body()
        }
      }
      after(.milliseconds(6), "a") {
        after(.milliseconds(2), "b") { after(.zero, "c") {} }
        after(.seconds(-2), "at once") {}
      }
      return loop.run()
    }
    #expect(log.all == ["a true", "at once true", "b true", "c true"])
  }

  /// libdispatch: dispatch_suspend_timer.
  @Test func aTimerThatWasRemovedForAWhileFiresOnceForAllThatItMissed() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      loop.add(Loop.Source {})
      let start = Loop.Instant.now
      let timer = Loop.Timer(at: start, every: .microseconds(100)) { _ in log.append("tick") }
      loop.add(timer)
      loop.run(mode: .default, for: .zero)
      loop.remove(timer)
      spin(until: .now.advanced(by: .milliseconds(1)))
      loop.run(mode: .default, for: .zero)
      log.append("back")
      loop.add(timer)
      loop.run(mode: .default, for: .zero)
      #expect(start.duration(to: timer.nextFireDate).clampedNanoseconds % 100_000 == 0)
    }
    #expect(log.all == ["tick", "back", "tick"])
  }

  /// libdispatch: dispatch_drift.
  @Test func aHundredFiringsHaveNoDrift() throws {
    let log = Log<Int64>()
    let start = Loop.Instant.now
    _ = try onFreshLoop { loop in
      let timer = Loop.Timer(at: start, every: .microseconds(200)) { timer in
        log.append(timer.nextFireDate.nanoseconds - start.nanoseconds)
        if log.count == 100 { timer.invalidate() }
      }
      loop.add(timer)
      return loop.run()
    }
    #expect(log.count == 100)
    #expect(log.all == log.all.sorted() && Set(log.all).count == 100)
    #expect(log.all.allSatisfy { $0 % 200_000 == 0 })
  }

  /// libuv: benchmark-million-timers, as a question of order: many timers in every state end with
  /// one run.
  @Test func timersInEveryStateEndWithTheRun() throws {
    let (result, counts) = try onFreshLoop { loop in
      let log = Log<Int>()
      let start = Loop.Instant.now
      let timers = (0..<3000).map { number in
        Loop.Timer(
          at: start.advanced(by: .nanoseconds(number * 37 % 3000)), every: number % 3 == 2 ? .nanoseconds(50) : nil
        ) {
          log.append(number % 3)
          $0.invalidate()
        }
      }
      for timer in timers { loop.add(timer) }
      // Every third is moved or removed from within the first pass.
      loop.perform {
        for (number, timer) in timers.enumerated() where number % 3 == 1 { loop.remove(timer) }
        for (number, timer) in timers.enumerated() where number % 6 == 0 { timer.nextFireDate = .distantPast }
      }
      return (loop.run(), (0..<3).map { kind in log.all.filter { $0 == kind }.count })
    }
    #expect(result == .finished)
    #expect(counts == [1000, 0, 1000])
  }
}
