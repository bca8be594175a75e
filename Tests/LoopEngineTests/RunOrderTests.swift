import Glibc
import LoopEngine
import Testing

/// The order of a run, line by line.
@Suite struct RunOrderTests {
  @Test func onePassHasCoreFoundationsOrder() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      loop.observe(.all) { _, activity in log.append("\(activity.rawValue)") }
      let source = Loop.Source {
        log.append("source")
        loop.perform { log.append("block after a source") }
      }
      loop.add(source)
      source.signal()
      loop.perform { log.append("block") }
      return loop.run(mode: .default, for: .zero)
    }
    // A source ran, so this pass polls: no waiting activities.
    #expect(log.all == ["1", "2", "4", "block", "source", "block after a source", "128"])
  }

  @Test func aPassThatWaitsCallsObserversAroundTheSleep() throws {
    let log = Log<String>()
    let result = try onFreshLoop { loop in
      loop.observe(.all) { _, activity in log.append("\(activity.rawValue)") }
      loop.perform(after: .milliseconds(1)) { _ in
        log.append("timer")
        loop.perform { log.append("block after a timer") }
        loop.stop()
      }
      loop.add(Loop.Source {})
      return loop.run()
    }
    #expect(result == .stopped)
    #expect(log.all == ["1", "2", "4", "32", "64", "timer", "block after a timer", "128"])
  }

  @Test func aStopAtEntryEndsTheRunBeforeAnyPass() throws {
    let log = Log<UInt>()
    let result = try onFreshLoop { loop in
      loop.add(Loop.Source {})
      loop.observe(.all) { _, activity in
        log.append(activity.rawValue)
        if activity == .entry { loop.stop() }
      }
      return loop.run()
    }
    #expect(result == .stopped)
    #expect(log.all == [1, 128])
  }

  @Test func aStopBeforeTheRunIsForgotten() throws {
    let result = try onFreshLoop { loop in
      loop.add(Loop.Source {})
      loop.stop()
      return loop.run(mode: .default, for: .milliseconds(2))
    }
    #expect(result == .timedOut)
  }

  @Test func twoStopsInANestedRunEndTheInnerOneOnly() throws {
    let log = Log<Loop.RunResult>()
    let outer = try onFreshLoop { loop in
      loop.add(Loop.Source {})
      loop.perform {
        loop.perform {
          loop.stop()
          loop.stop()
        }
        log.append(loop.run())
      }
      return loop.run(mode: .default, for: .milliseconds(5))
    }
    #expect(log.all == [.stopped])
    #expect(outer == .timedOut)
  }

  @Test func aStopMeantForTheOuterRunOutlivesTheInnerOne() throws {
    let log = Log<Loop.RunResult>()
    let outer = try onFreshLoop { loop in
      loop.add(Loop.Source {})
      loop.perform {
        loop.stop()
        log.append(loop.run(mode: .default, for: .milliseconds(1)))
      }
      return loop.run()
    }
    #expect(log.all == [.timedOut])
    #expect(outer == .stopped)
  }

  @Test func resultsHaveTheirOrder() throws {
    let results = try onFreshLoop { loop in
      var results: [Loop.RunResult] = []
      let source = Loop.Source { loop.stop() }
      loop.add(source)
      // Served, out of time and stopped at once: the source wins if it was asked for, the time if not.
      source.signal()
      results.append(loop.run(mode: .default, for: .zero, returnAfterSourceHandled: true))
      source.signal()
      results.append(loop.run(mode: .default, for: .zero))
      // Stopped and empty: stopped wins.
      let last = Loop.Source {}
      source.invalidate()
      loop.add(last)
      loop.perform {
        last.invalidate()
        loop.stop()
      }
      results.append(loop.run())
      // Empty.
      loop.perform {}
      results.append(loop.run())
      return results
    }
    #expect(results == [.handledSource, .timedOut, .stopped, .finished])
  }

  @Test func aWakeUpAloneEndsNoRunAndIsNotLostBetweenRuns() throws {
    let log = Log<UInt>()
    let result = try onFreshLoop { loop in
      loop.add(Loop.Source {})
      loop.observe(.afterWaiting) { _, activity in
        log.append(activity.rawValue)
        guard log.count == 1 else { return }
        loop.observe(.beforeWaiting, repeats: false) { _, _ in
          loop.perform(after: .milliseconds(1)) { _ in loop.stop() }
        }
      }
      // Nobody runs now: the wake-up must end the first sleep of the run that follows.
      loop.wakeUp()
      return loop.run()
    }
    #expect(result == .stopped)
    #expect(log.count == 2)
  }

  @Test func timersAndBlocksAreNoHandledSources() throws {
    let log = Log<String>()
    let result = try onFreshLoop { loop in
      loop.add(Loop.Source {})
      loop.perform { log.append("block") }
      loop.perform(after: .milliseconds(1)) { _ in log.append("timer") }
      return loop.run(mode: .default, before: .now.advanced(by: .milliseconds(20)))
    }
    #expect(result == .timedOut)
    #expect(log.all == ["block", "timer"])
  }

  @Test func currentModeFollowsNestedRuns() throws {
    let log = Log<Loop.Mode?>()
    _ = try onFreshLoop { loop in
      loop.perform {
        log.append(loop.currentMode)
        loop.perform(in: .tests) { log.append(loop.currentMode) }
        loop.run(mode: .tests, for: .zero)
        log.append(loop.currentMode)
      }
      let result = loop.run()
      log.append(loop.currentMode)
      return result
    }
    #expect(log.all == [.default, .tests, .default, nil])
  }

  @Test func runUntilEndsAtItsTimeEvenWhenBusy() throws {
    let result = try onFreshLoop { loop in
      @Sendable func again() { loop.perform { again() } }
      again()
      return loop.run(until: .now.advanced(by: .milliseconds(3)))
    }
    #expect(result == .timedOut)
  }

  @Test func aPassByHandFiresWhatIsDueAndNamesTheNext() throws {
    let log = Log<String>()
    let (none, next, future, expected) = try onFreshLoop { loop in
      let none = loop.runPass(in: .tests)
      loop.perform(after: .zero, in: .tests) { _ in log.append("due") }
      let later = loop.perform(after: .seconds(100), in: .tests) { _ in }
      let next = loop.runPass(in: .tests)
      let expected = later.nextFireDate
      later.invalidate()
      loop.add(Loop.Source {}, to: .tests)
      return (none, next, loop.runPass(in: .tests), expected)
    }
    #expect(none == nil)
    #expect(next == expected)
    #expect(future == .distantFuture)
    #expect(log.all == ["due"])
  }

  @Test func commonIsNoModeThatCanBeRun() throws {
    let log = Log<Int>()
    let result = try onFreshLoop { loop in
      loop.perform { log.append(1) }
      return loop.run(mode: .common, for: .zero)
    }
    #expect(result == .finished)
    #expect(log.count == 0)
  }

  @Test func theModeIsTheCurrentOneFromEntryToExit() throws {
    let log = Log<Loop.Mode?>()
    _ = try onFreshLoop { loop in
      loop.observe([.entry, .exit]) { _, _ in log.append(loop.currentMode) }
      loop.perform {}
      loop.run()
      log.append(loop.currentMode)
    }
    #expect(log.all == [.default, .default, nil])
  }

  @Test func idleWorkWaitsForWhatIsReady() throws {
    let pipe = Pipe()
    defer { pipe.close() }
    pipe.write()
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      loop.performWhenIdle { log.append("idle") }
      try loop.watch(pipe.reading) { source, _ in
        source.invalidate()
        log.append("descriptor")
      }
      return loop.run()
    }
    #expect(log.all == ["descriptor", "idle"])
  }
}
