import Glibc
import LoopEngine
import Testing

@Suite struct PerformTests {
  @Test func blocksRunInTheOrderOfTheirPosts() throws {
    let log = Log<Int>()
    _ = try onFreshLoop { loop in
      for number in 0..<1000 { loop.perform { log.append(number) } }
      return loop.run()
    }
    #expect(log.all == Array(0..<1000))
  }

  @Test func aBlockWaitsForItsModeAndKeepsItsPlace() throws {
    let log = Log<String>()
    let (first, second) = try onFreshLoop { loop in
      loop.perform(in: .tests) { log.append("tests 1") }
      loop.perform(in: .default) { log.append("default") }
      loop.perform(in: [.tests, .other]) { log.append("tests 2") }
      loop.perform(in: .tests) { log.append("tests 3") }
      return (loop.run(), loop.run(mode: .tests, for: .seconds(1)))
    }
    #expect(first == .finished)
    #expect(second == .finished)
    #expect(log.all == ["default", "tests 1", "tests 2", "tests 3"])
  }

  @Test func aBlockPostedByABlockRunsInALaterRound() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      loop.perform {
        log.append("a")
        loop.perform { log.append("c") }
      }
      loop.perform { log.append("b") }
      return loop.run()
    }
    #expect(log.all == ["a", "b", "c"])
  }

  @Test func aNestedRunContinuesWithTheEarlierBlocks() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      loop.perform {
        log.append("a")
        loop.perform { log.append("c") }
        loop.run(mode: .default, for: .zero)
        log.append("end of a")
      }
      loop.perform { log.append("b") }
      return loop.run()
    }
    #expect(log.all == ["a", "b", "c", "end of a"])
  }

  @Test func waitingOnOnesOwnLoopRunsAtOnce() throws {
    let value = try onFreshLoop { loop in try loop.performAndWait { 42 } }
    #expect(value == 42)
  }

  @Test func waitingOnAnotherLoopGivesItsResultOrItsError() throws {
    struct Failure: Error {}
    let thread = PermanentThread()
    try thread.start()
    let loop = try #require(thread.loop)
    #expect(try loop.performAndWait { Loop.current === loop })
    #expect(throws: Failure.self) { try loop.performAndWait { throw Failure() } }
    thread.stop()
    #expect(throws: Loop.Ended.self) { try loop.performAndWait { 1 } }
  }

  @Test func waitingOnALoopWhoseThreadEndsIsAnErrorAndNoHang() throws {
    let loops = Log<Loop>()
    let thread = TestThread {
      loops.append(.current)
      // Ends without ever having run its loop, once somebody waits for it.
      for _ in 0..<200 { sleepBriefly() }
    }
    while loops.count == 0 { sleepBriefly() }
    #expect(throws: Loop.Ended.self) { try loops.all[0].performAndWait { 1 } }
    thread.join()
  }

  /// The closure holds `self`, which is being destroyed: nothing may hold it when the call returns.
  @Test func aDeinitMayWaitForAThread() throws {
    // @unchecked: its deinit, which calls the closure on another thread, waits for it.
    final class Page: @unchecked Sendable {
      let thread: PermanentThread
      let stopped: Log<Int>

      init(_ thread: PermanentThread, _ stopped: Log<Int>) { (self.thread, self.stopped) = (thread, stopped) }

      private func stop() { stopped.append(1) }

      deinit { try? thread.performAndWait { self.stop() } }
    }
    let thread = PermanentThread()
    try thread.start()
    let stopped = Log<Int>()
    for _ in 0..<2000 { _ = Page(thread, stopped) }
    #expect(stopped.count == 2000)
    thread.stop()
    // Nor of a thread that never comes to it.
    _ = Page(thread, stopped)
    #expect(stopped.count == 2000)
  }

  @Test func aThreadIsWaitedForWithAndWithoutAwait() async throws {
    let thread = PermanentThread()
    try thread.start()
    let number = thread.loop?.threadID
    func threadOfWaiting() throws -> Int32 { try thread.performAndWait { Loop.current.threadID } }
    #expect(try threadOfWaiting() == number)
    #expect(try await thread.performAndWait { Loop.current.threadID } == number)
    thread.stop()
    #expect(throws: Loop.Ended.self) { try threadOfWaiting() }
    await #expect(throws: Loop.Ended.self) { try await thread.performAndWait { 1 } }
  }

  @Test func workHasAnOrderAndCanBeCancelled() throws {
    final class Target: Sendable {}
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      let target = Target()
      loop.performCancellable(order: 3) { log.append("3") }
      loop.performCancellable(order: 1) { log.append("1") }
      let cancelled = loop.performCancellable(order: 2) { log.append("2") }
      loop.performCancellable(order: 0, target: target) { log.append("target") }
      loop.performCancellable(after: .milliseconds(1), target: target) { log.append("target, later") }
      loop.performCancellable(after: .milliseconds(2)) { log.append("later") }
      cancelled.cancel()
      loop.cancelWork(for: target)
      return loop.run()
    }
    #expect(log.all == ["1", "3", "later"])
  }

  @Test func idleWorkIsOneUnitATurnAndOnlyWhenNothingElseIsReady() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      loop.observe(.beforeTimers) { _, _ in log.append("pass") }
      loop.performWhenIdle { log.append("idle 1") }
      loop.performWhenIdle { log.append("idle 2") }
      loop.perform { loop.perform { log.append("block") } }
      return loop.run()
    }
    #expect(log.all == ["pass", "block", "pass", "idle 1", "pass", "idle 2"])
  }

  @Test func aFlushPointMarkedJustBeforeWaitingIsNotSleptOver() throws {
    let log = Log<String>()
    let result = try onFreshLoop { loop in
      loop.add(Loop.Source {})
      let flush = Loop.FlushPoint(on: loop) {
        log.append("flush")
        loop.stop()
      }
      let observer = loop.observe(.beforeWaiting) { observer, _ in
        observer.invalidate()
        flush.mark()
      }
      defer { observer.invalidate() }
      return loop.run(mode: .default, for: .seconds(20))
    }
    #expect(result == .stopped)
    #expect(log.all == ["flush"])
  }

  @Test func aFlushPointMarkedManyTimesRunsOnceBeforeWaiting() throws {
    let log = Log<String>()
    let result = try onFreshLoop { loop in
      loop.add(Loop.Source {})
      let flush = Loop.FlushPoint(on: loop) { log.append("flush") }
      loop.perform { for _ in 0..<5 { flush.mark() } }
      loop.observe(.beforeWaiting) { _, _ in log.append("waits") }
      return loop.run(mode: .default, for: .milliseconds(2))
    }
    #expect(result == .timedOut)
    #expect(log.all.prefix(2) == ["flush", "waits"])
    #expect(log.all.filter { $0 == "flush" }.count == 1)
  }

  @Test func aBurstOfPostsIsOneWakeUp() throws {
    let thread = PermanentThread()
    try thread.start()
    let loop = try #require(thread.loop)
    let wakes = Log<Int>()
    let gate = Pipe()
    defer { gate.close() }
    _ = try loop.performAndWait {
      loop.observe(.afterWaiting) { _, _ in
        wakes.append(1)
        // The loop waits here, awake, until the whole burst is posted.
        gate.read()
      }
    }
    while !loop.isWaiting { sleepBriefly() }
    let ran = Log<Int>()
    for number in 0..<500 { loop.perform { ran.append(number) } }
    gate.write()
    while ran.count < 500 || !loop.isWaiting { sleepBriefly() }
    #expect(wakes.count == 1)
    gate.write()
    thread.stop()
  }

  @Test func aBlockForSeveralModesRunsInOneThatTheLoopHasNotHeardOf() throws {
    let log = Log<Int>()
    _ = try onFreshLoop { loop in
      loop.perform(in: [.tests, .other]) { log.append(1) }
      return loop.run(mode: .tests, for: .zero)
    }
    #expect(log.count == 1)
  }
}
