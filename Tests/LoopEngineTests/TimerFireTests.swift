import LoopEngine
import TestSupport
import Testing

/// A timer that is called before its date.
@Suite struct TimerFireTests {
  @Test func aFiringByHandKeepsTheDatesOfARepeatingTimer() throws {
    let log = Log<Loop.Instant>()
    let (dates, isValid) = try onFreshLoop { loop in
      let ahead = Loop.Timer(at: .now.advanced(by: .seconds(60)), every: .seconds(7)) { _ in log.append(.now) }
      let overdue = Loop.Timer(at: .now.advanced(by: .seconds(-1)), every: .seconds(60)) { _ in log.append(.now) }
      for timer in [ahead, overdue] { loop.add(timer) }
      let before = [ahead, overdue].map(\.nextFireDate)
      #expect(ahead.fire() && ahead.fire() && overdue.fire())
      #expect(log.takeAll().count == 3)
      let dates = [before, [ahead, overdue].map(\.nextFireDate)]
      // The date that was past is still served.
      loop.run(mode: .default, for: .zero)
      return (dates, ahead.isValid && overdue.isValid)
    }
    #expect(dates[0] == dates[1] && isValid)
    #expect(log.count == 1)
  }

  @Test func aTimerThatFiresOnceIsFiredByHandForTheOnlyTime() throws {
    let log = Log<String>()
    let freed = Log<Int>()
    let results = try onFreshLoop { loop in
      let token = Token { freed.append(1) }
      let timer = loop.perform(after: .seconds(60)) { timer in
        withExtendedLifetime(token) { log.append("fired, valid: \(timer.isValid)") }
        log.append("again: \(timer.fire())")
      }
      return [timer.fire(), timer.isValid, timer.fire(), loop.run(mode: .default, for: .zero) == .finished]
    }
    #expect(log.all == ["fired, valid: true", "again: false"])
    #expect(results == [true, false, false, true])
    #expect(freed.count == 1)
  }

  /// What its closure changes holds, as in any firing.
  @Test func aTimerThatIsFiredByHandMayBeMovedOrEndedByItsClosure() throws {
    let date = Loop.Instant.now.advanced(by: .seconds(1000))
    let results = try onFreshLoop { loop in
      let moved = loop.perform(every: .seconds(60)) { $0.nextFireDate = date }
      let ended = loop.perform(every: .seconds(60)) { $0.invalidate() }
      let nested = loop.perform(every: .seconds(60)) { _ in loop.run(mode: .default, for: .zero) }
      for timer in [moved, ended, nested] { timer.fire() }
      return [moved.nextFireDate == date, moved.isValid, !ended.isValid, nested.isValid]
    }
    #expect(results == [true, true, true, true])
  }

  @Test func aTimerIsFiredByHandInAnyModeAndByAnyThread() throws {
    let log = Log<String>()
    let (own, other, none) = try onFreshLoop { loop in
      let timer = Loop.Timer(after: .seconds(60), repeats: true) { _ in
        log.append("on the loop: \(loop.isCurrent) in \(loop.currentMode?.name ?? "no mode")")
      }
      let none = timer.fire()
      loop.add(timer, to: .tests)
      let own = timer.fire()
      let other = Log<Bool>()
      TestThread { other.append(timer.fire()) }.join()
      loop.run(mode: .default, for: .zero)
      return (own, other.all, none)
    }
    #expect(own && other == [true])
    #expect(!none, "it belongs to no loop")
    #expect(log.all == ["on the loop: true in no mode", "on the loop: true in default"])
  }

  @Test func aTimerOfAnEndedLoopIsNotFired() throws {
    let log = Log<Int>()
    let timers = try onFreshLoop { loop in
      [
        loop.perform(after: .seconds(60)) { _ in log.append(1) },
        loop.perform(every: .seconds(60)) { _ in log.append(2) },
      ]
    }
    #expect(timers.map { $0.fire() } == [false, false])
    #expect(log.count == 0)
  }
}
