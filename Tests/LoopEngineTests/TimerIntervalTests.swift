import LoopEngine
import Testing

/// The interval of a timer, changed before, between and during its firings.
@Suite struct TimerIntervalTests {
  @Test func theIntervalOfAScheduledTimerCanBeChanged() throws {
    try onFreshLoop { loop in
      let start = Loop.Instant.now.advanced(by: .milliseconds(1))
      let log = Log<Int>()
      let timer = Loop.Timer(at: start, every: .seconds(1)) { _ in
        log.append(1)
        loop.stop()
      }
      loop.add(timer)
      timer.interval = .seconds(700)
      #expect(timer.nextFireDate == start && timer.interval == .seconds(700))
      loop.run()
      #expect(timer.nextFireDate == start.advanced(by: .seconds(700)) && log.count == 1)
      // The date that is set already stays.
      timer.interval = .seconds(1)
      #expect(timer.nextFireDate == start.advanced(by: .seconds(700)))
    }
  }

  @Test func aTimersClosureAndOtherThreadsMaySetItsInterval() throws {
    try onFreshLoop { loop in
      let start = Loop.Instant.now
      for isElsewhere in [false, true] {
        let timer = Loop.Timer(at: start, every: .milliseconds(1)) { timer in
          if isElsewhere {
            TestThread { timer.interval = .seconds(900) }.join()
          } else {
            timer.interval = .seconds(800)
          }
        }
        loop.add(timer)
        loop.run(mode: .default, for: .zero)
        #expect(timer.nextFireDate == start.advanced(by: isElsewhere ? .seconds(900) : .seconds(800)))
      }
    }
  }

  @Test func withoutAnIntervalTheNextFiringIsTheLast() throws {
    let log = Log<Int>()
    let freed = Log<Int>()
    let result = try onFreshLoop { loop in
      func add(_ token: Token) -> Loop.Timer {
        loop.perform(every: .microseconds(100)) { _ in withExtendedLifetime(token) { log.append(1) } }
      }
      let timer = add(Token { freed.append(1) })
      timer.interval = .zero
      #expect(timer.isValid && timer.interval == .zero)
      let result = loop.run()
      #expect(!timer.isValid)
      return result
    }
    #expect(result == .finished && log.count == 1 && freed.count == 1)
  }

  @Test func aFiringThatTakesItsIntervalAwayIsTheLastUnlessItMovesTheTimer() throws {
    let log = Log<String>()
    let freed = Log<Int>()
    let result = try onFreshLoop { loop in
      func add(_ name: String, _ token: Token, moves: Bool) {
        loop.perform(every: .microseconds(100)) { timer in
          withExtendedLifetime(token) { log.append(name) }
          timer.interval = .seconds(-1)
          if moves { timer.nextFireDate = .now }
        }
      }
      add("once", Token { freed.append(1) }, moves: false)
      add("twice", Token { freed.append(2) }, moves: true)
      return loop.run()
    }
    #expect(result == .finished && log.all.sorted() == ["once", "twice", "twice"])
    #expect(freed.all.sorted() == [1, 2])
  }

  @Test func aTimerThatWasToFireOnceCanBeMadeToRepeat() throws {
    let log = Log<Int>()
    _ = try onFreshLoop { loop in
      let timer = loop.perform(after: .zero) { timer in
        log.append(1)
        if log.count == 3 { timer.invalidate() }
      }
      timer.interval = .microseconds(100)
      return loop.run()
    }
    #expect(log.count == 3)
  }

  @Test func aTimerThatFiresForTheOnlyTimeDoesNotBeginToRepeat() throws {
    let log = Log<Int>()
    let (result, isValid) = try onFreshLoop { loop in
      let timer = loop.perform(after: .zero) { timer in
        log.append(1)
        timer.interval = .microseconds(1)
      }
      return (loop.run(), timer.isValid)
    }
    #expect(result == .finished && !isValid && log.count == 1)
  }
}
