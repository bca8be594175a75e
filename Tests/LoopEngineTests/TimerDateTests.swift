import Glibc
import Testing

@testable import LoopEngine

/// Dates and intervals at the edges, and timers that change themselves.
@Suite struct TimerDateTests {
  @Test func aZeroIntervalRepeatsAndDoesNotStarveOthers() throws {
    let pipe = Pipe()
    defer { pipe.close() }
    pipe.write()
    let log = Log<String>()
    let result = try onFreshLoop { loop in
      loop.perform(every: .zero) { timer in
        log.append("timer")
        let seen = log.all
        if seen.count >= 4, seen.contains("descriptor"), seen.contains("block") { timer.invalidate() }
      }
      try loop.watch(pipe.reading) { source, _ in
        pipe.read()
        source.invalidate()
        log.append("descriptor")
      }
      loop.perform { log.append("block") }
      return loop.run(mode: .default, for: .seconds(60))
    }
    #expect(result == .finished)
    #expect(log.all.contains("descriptor") && log.all.contains("block"))
    #expect(log.all.filter { $0 == "timer" }.count >= 2)
  }

  @Test func intervalsOfAllSizesAreWhatTheySay() {
    func interval(_ every: Duration?) -> Duration { Loop.Timer(at: .now, every: every) { _ in }.interval }
    #expect(interval(nil) == .zero)
    #expect(interval(.seconds(-1)) == .zero)
    #expect(interval(.zero) == .zero)
    #expect(interval(Duration(secondsComponent: 0, attosecondsComponent: 5)) == .nanoseconds(1))
    #expect(interval(.seconds(Int64.max)) == .nanoseconds(Int64.max))
    #expect(Loop.Timer(after: .seconds(3), repeats: false) { _ in }.interval == .zero)
    #expect(Loop.Timer(after: .seconds(-3), repeats: true) { _ in }.interval == .microseconds(100))
  }

  @Test func aDistantDateIsNeverAndKeepsTheModeAlive() throws {
    let (result, next) = try onFreshLoop { loop in
      for date in [Loop.Instant.distantFuture, .now.advanced(by: .seconds(Int64.max))] {
        loop.add(Loop.Timer(at: date, every: .seconds(Int64.max), tolerance: .seconds(Int64.max)) { _ in loop.stop() })
      }
      return (loop.run(mode: .default, for: .milliseconds(5)), loop.nextTimerDate(in: .default))
    }
    #expect(result == .timedOut)
    #expect(next == .distantFuture)
  }

  @Test func aTimerOfADistantPastFiresOnceAPass() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      loop.observe(.beforeTimers) { _, _ in log.append("pass") }
      loop.add(
        Loop.Timer(at: .distantPast, every: .seconds(1000)) { timer in
          log.append("fires")
          // However often it says so, there is one firing in a pass.
          if log.count < 6 { timer.nextFireDate = .distantPast } else { timer.invalidate() }
        })
      return loop.run()
    }
    #expect(log.all == ["pass", "fires", "pass", "fires", "pass", "fires"])
  }

  @Test func aRepeatingTimerFromTheDistantPastContinues() throws {
    #expect(Loop.Timer.nextDeadline(after: 1_000, due: .min, interval: 100) > 1_000)
    #expect(Loop.Timer.nextDeadline(after: 1_000, due: .min, interval: 100) <= 1_100)
    let log = Log<Int>()
    _ = try onFreshLoop { loop in
      loop.add(
        Loop.Timer(at: .distantPast, every: .milliseconds(1)) { timer in
          log.append(1)
          if log.count == 3 { timer.invalidate() }
        })
      return loop.run(mode: .default, for: .seconds(60))
    }
    #expect(log.count == 3)
  }

  @Test func aDateThatAnotherThreadSetsWhileTheTimerFiresHolds() throws {
    let log = Log<Int>()
    _ = try onFreshLoop { loop in
      loop.perform(every: .milliseconds(1)) { timer in
        log.append(1)
        TestThread { timer.nextFireDate = .now.advanced(by: .seconds(1000)) }.join()
      }
      return loop.run(mode: .default, for: .milliseconds(10))
    }
    #expect(log.count == 1)
  }

  @Test func aToleranceThatIsSetInTheClosureMovesNothing() throws {
    let log = Log<Loop.Instant>()
    let start = Loop.Instant.now
    _ = try onFreshLoop { loop in
      let timer = Loop.Timer(at: start, every: .seconds(1000)) { timer in
        log.append(timer.nextFireDate)
        timer.permittedDelay = .milliseconds(1)
      }
      loop.add(timer)
      return loop.run(mode: .default, for: .milliseconds(10))
    }
    #expect(log.all == [start])
  }

  @Test func aOneShotTimerThatMovesItselfHasStillFiredForTheOnlyTime() throws {
    let log = Log<Int>()
    let (result, isValid, isAdded) = try onFreshLoop { loop in
      let timer = loop.perform(after: .zero) { timer in
        log.append(1)
        timer.nextFireDate = .now
        loop.add(timer, to: .default)
      }
      let result = loop.run()
      return (result, timer.isValid, loop.add(timer))
    }
    #expect(log.count == 1)
    #expect(result == .finished && !isValid && !isAdded)
  }

  @Test func aTimerMayEndOrLeaveWhileItFires() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      for interval in [nil, Duration.seconds(1000)] {
        loop.add(
          Loop.Timer(at: .now, every: interval) { timer in
            timer.invalidate()
            log.append("ended \(timer.isValid)")
          })
        loop.add(
          Loop.Timer(at: .now, every: interval) { timer in
            loop.remove(timer)
            log.append("left \(timer.isValid)")
          })
        loop.add(
          Loop.Timer(at: .now, every: interval) { timer in
            loop.remove(timer)
            loop.add(timer)
            timer.invalidate()
            log.append("left, came and ended")
          })
      }
      return loop.run()
    }
    #expect(
      log.all == [
        "ended false", "left true", "left, came and ended", "ended false", "left true", "left, came and ended",
      ])
  }

  @Test func datesDecideAndNotTheOrderOfAddition() throws {
    let log = Log<Int>()
    _ = try onFreshLoop { loop in
      let now = Loop.Instant.now
      for delay in [30, 10, 20, 0, 25, 15, 5] {
        let mode: Loop.Mode = delay % 2 == 0 ? .common : .default
        loop.add(Loop.Timer(at: now.advanced(by: .microseconds(delay))) { _ in log.append(delay) }, to: mode)
      }
      sleepBriefly()
      return loop.run(mode: .default, for: .zero)
    }
    #expect(log.all == [0, 5, 10, 15, 20, 25, 30])
  }

  @Test func aRepeatingTimerHeldUpForLongFiresOnceForAllThatItMissed() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      loop.perform(every: .milliseconds(1)) { timer in
        log.append("tick")
        if log.count > 2 { timer.invalidate() }
      }
      loop.perform { sleepBriefly(microseconds: 20_000) }
      loop.observe(.beforeTimers) { _, _ in log.append("pass") }
      return loop.run()
    }
    #expect(log.all.prefix(2) == ["pass", "tick"])
  }

  @Test func aTimerThatFiresIsNotEnteredAgainByANestedRun() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      loop.perform(every: .milliseconds(1)) { timer in
        log.append("in")
        log.append("\(loop.run(mode: .default, for: .milliseconds(5)))")
        log.append("out")
        timer.invalidate()
      }
      return loop.run()
    }
    // The mode is not empty meanwhile, so the nested run takes its time.
    #expect(log.all == ["in", "timedOut", "out"])
  }

  @Test func aTimerBelongsToItsModesUntilItsClosureReturns() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      loop.perform(after: .zero) { timer in
        log.append("\(loop.contains(timer, in: .common))")
        log.append("\(loop.run(mode: .default, for: .milliseconds(2)))")
        log.append("\(loop.run(mode: .tests, for: .milliseconds(2)))")
        timer.invalidate()
        log.append("\(loop.run(mode: .default, for: .milliseconds(2)))")
      }
      return loop.run()
    }
    #expect(log.all == ["true", "timedOut", "finished", "finished"])
  }
}
