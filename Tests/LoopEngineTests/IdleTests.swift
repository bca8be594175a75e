import Glibc
import LoopEngine
import Testing

/// When idle work runs: where a pass has found nothing else to do.
@Suite struct IdleTests {
  @Test func aRunOfNoTimeRunsOneIdleWorkIfItFindsNothingElse() throws {
    let log = Log<String>()
    let results = try onFreshLoop { loop in
      for number in 1...3 { loop.performWhenIdle { log.append("\(number)") } }
      var results: [Loop.RunResult] = []
      while results.last != .finished && results.count < 100 { results.append(loop.run(mode: .default, for: .zero)) }
      return results
    }
    #expect(log.all == ["1", "2", "3"])
    #expect(results == [.timedOut, .timedOut, .timedOut, .finished])
  }

  @Test(arguments: [false, true]) func idleWorkWaitsForAllElseInARunOfNoTime(onlyOneSource: Bool) throws {
    let log = Log<String>()
    let pipe = Pipe()
    defer { pipe.close() }
    pipe.write()
    _ = try onFreshLoop { loop in
      loop.performWhenIdle { log.append("idle") }
      let source = Loop.Source { log.append("source") }
      loop.add(source)
      source.signal()
      loop.perform(after: .zero) { _ in log.append("timer") }
      try loop.watch(pipe.reading) { source, _ in
        log.append("descriptor")
        source.invalidate()
      }
      loop.perform { loop.perform { log.append("block") } }
      for _ in 0..<10 { loop.run(mode: .default, for: .zero, returnAfterSourceHandled: onlyOneSource) }
    }
    #expect(log.all.last == "idle")
    #expect(log.all.sorted() == ["block", "descriptor", "idle", "source", "timer"])
  }

  @Test func idleWorkDoesNotRunAfterAStop() throws {
    let log = Log<String>()
    let results = try onFreshLoop { loop in
      loop.add(Loop.Source {})
      loop.performWhenIdle { log.append("idle") }
      var results: [Loop.RunResult] = []
      loop.perform { loop.stop() }
      results.append(loop.run())
      let observer = loop.observe(.beforeTimers) { _, _ in loop.stop() }
      results.append(loop.run())
      observer.invalidate()
      loop.perform { loop.stop() }
      results.append(loop.run(mode: .default, for: .zero))
      log.append("now")
      results.append(loop.run(mode: .default, for: .zero))
      return results
    }
    #expect(results == [.stopped, .stopped, .timedOut, .timedOut])
    #expect(log.all == ["now", "idle"])
  }

  @Test func idleWorkAsksForMoreOnePassAtATime() throws {
    let log = Log<Int>()
    _ = try onFreshLoop { loop in
      @Sendable func again(_ number: Int) {
        loop.performWhenIdle {
          log.append(number)
          loop.perform { log.append(-number) }
          if number < 3 { again(number + 1) }
        }
      }
      again(1)
      return loop.run()
    }
    #expect(log.all == [1, -1, 2, -2, 3, -3])
  }

  @Test func aThreadThatIsStoppedLeavesItsIdleWorkAlone() throws {
    let log = Log<String>()
    for _ in 0..<20 {
      let thread = PermanentThread()
      try thread.start()
      thread.perform {
        thread.loop?.performWhenIdle { log.append("idle") }
        thread.stop()
      }
      thread.stop()
    }
    #expect(log.all == [])
  }
}
