import Glibc
import LoopEngine
import TestSupport
import Testing

/// Blocks, cancellable work and idle work: where they run, in which order, and what they hold.
@Suite struct WorkTests {
  final class Target: Sendable {}

  @Test func whatHasNotRunWhenTheThreadEndsNeverRuns() throws {
    let log = Log<String>()
    let freed = Log<Int>()
    _ = try onFreshLoop { loop in
      func leave(_ token: Token) {
        @Sendable func note() { withExtendedLifetime(token) { log.append("ran") } }
        loop.perform { note() }
        loop.perform(in: .tests) { note() }
        loop.perform(in: [.tests, .other]) { note() }
        loop.performWhenIdle { note() }
        loop.performCancellable { note() }
        loop.performCancellable(after: .microseconds(1)) { note() }
        let source = Loop.Source { note() }
        loop.add(source)
        source.signal()
        Loop.FlushPoint(on: loop) { note() }.mark()
        TestThread { loop.perform { note() } }.join()
      }
      leave(Token { freed.append(1) })
    }
    #expect(log.count == 0)
    #expect(freed.count == 1)
  }

  @Test func aRefusedBlockIsReleased() throws {
    let freed = Log<Int>()
    let loop = try onFreshLoop { $0 }
    func post(_ token: Token) {
      #expect(!loop.perform { withExtendedLifetime(token) {} })
      #expect(!loop.perform(in: [.tests, .other]) { withExtendedLifetime(token) {} })
      #expect(!loop.performWhenIdle { withExtendedLifetime(token) {} })
      #expect(!loop.performCancellable(after: .seconds(1)) { withExtendedLifetime(token) {} }.isPending)
    }
    post(Token { freed.append(1) })
    #expect(freed.count == 1)
  }

  @Test func aBlockForNoModeNeverRunsAndKeepsNoModeAlive() throws {
    let log = Log<Int>()
    let results = try onFreshLoop { loop in
      loop.perform(in: []) { log.append(1) }
      return [Loop.Mode.default, .tests].map { loop.run(mode: $0, for: .zero) }
    }
    #expect(log.count == 0)
    #expect(results == [.finished, .finished])
  }

  @Test func cancellableAndDelayedWorkOfSeveralModesRunsOnceInTheFirstThatIsServed() throws {
    let log = Log<String>()
    let pending = try onFreshLoop { loop in
      for mode in [Loop.Mode.default, .tests, .other] { loop.add(Loop.Source {}, to: mode) }
      let both: [Loop.Mode] = [.tests, .other]
      @Sendable func note(_ what: String) { log.append("\(what) in \(loop.currentMode?.name ?? "")") }
      loop.performCancellable(in: both) { @Sendable in note("soon") }
      loop.performCancellable(after: .nanoseconds(1), in: both) { @Sendable in note("later") }
      loop.perform(after: .nanoseconds(1), in: both) { @Sendable _ in note("after") }
      loop.perform(every: .seconds(60), in: both) { @Sendable _ in note("every") }.fire()
      let cancelled = loop.performCancellable(in: both) { @Sendable in note("cancelled") }
      cancelled.cancel()
      let never = loop.performCancellable(in: []) { @Sendable in note("never") }
      for mode in [Loop.Mode.default, .other, .tests] { loop.run(mode: mode, for: .zero) }
      return never.isPending
    }
    #expect(log.all.first == "every in ")
    #expect(Set(log.all.dropFirst()) == ["soon in other", "later in other", "after in other"] && log.count == 4)
    #expect(pending)
  }

  @Test func aBlockRunsOnceInTheFirstOfItsModesThatIsServed() throws {
    let log = Log<String?>()
    _ = try onFreshLoop { loop in
      for mode in [Loop.Mode.default, .tests, .other] { loop.add(Loop.Source {}, to: mode) }
      loop.perform(in: [.tests, .other, .tests]) { log.append(loop.currentMode?.name) }
      for mode in [Loop.Mode.default, .other, .tests] { loop.run(mode: mode, for: .zero) }
    }
    #expect(log.all == ["other"])
  }

  @Test func blocksOfAllThreadsRunOnTheLoopsThreadEachThreadsInItsOrder() throws {
    let thread = PermanentThread()
    try thread.start()
    let loop = try #require(thread.loop)
    let log = Log<(poster: Int, number: Int, isThere: Bool)>()
    let posters = (0..<4).map { poster in
      TestThread {
        for number in 0..<500 { loop.perform { log.append((poster, number, loop.isCurrent)) } }
      }
    }
    for poster in posters { poster.join() }
    thread.stop()
    #expect(log.count == 2000 && log.all.allSatisfy(\.isThere))
    for poster in 0..<4 { #expect(log.all.filter { $0.poster == poster }.map(\.number) == Array(0..<500)) }
  }

  @Test func delayedWorkRunsByDateInAnyOrder() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      // Their dates ascend, however slowly they are submitted; their orders descend.
      loop.performCancellable(after: .microseconds(100), order: 9) { log.append("first") }
      loop.performCancellable(after: .microseconds(200), order: 5) { log.append("second") }
      loop.performCancellable(after: .microseconds(300), order: -5) { log.append("third") }
      spin(until: .now.advanced(by: .microseconds(400)))
      return loop.run()
    }
    #expect(log.all == ["first", "second", "third"])
  }

  @Test func workWithoutADelayRunsInTheNextPassOfItsMode() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      loop.performCancellable(after: .seconds(-1), in: .tests) { log.append("tests") }
      let work = loop.performCancellable(after: .zero) { log.append("default") }
      #expect(work.isPending)
      loop.run(mode: .default, for: .zero)
      #expect(!work.isPending)
      return loop.run(mode: .tests, for: .zero)
    }
    #expect(log.all == ["default", "tests"])
  }

  @Test func workIsNotPendingWhileItRuns() throws {
    let log = Log<Bool>()
    _ = try onFreshLoop { loop in
      for delay in [Duration.zero, .microseconds(1)] {
        let works = Log<Loop.Work>()
        works.append(
          loop.performCancellable(after: delay) {
            log.append(works.all[0].isPending)
            // Too late, and no harm.
            works.takeAll()[0].cancel()
          })
      }
      return loop.run()
    }
    #expect(log.all == [false, false])
  }

  @Test(arguments: [Duration.zero, .seconds(1000)])
  func cancelledWorkIsReleasedWithItsTarget(_ delay: Duration) throws {
    weak let body: Target?
    weak let target: Target?
    do {
      let (first, second) = (Target(), Target())
      (body, target) = (first, second)
      let results = try onFreshLoop { loop in
        let work = loop.performCancellable(after: delay, target: second) { withExtendedLifetime(first) {} }
        work.cancel()
        work.cancel()
        return [work.isPending ? .timedOut : loop.run()]
      }
      #expect(results == [.finished])
    }
    #expect(body == nil && target == nil)
  }

  @Test func aTargetIsHeldUntilItsWorkHasRun() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      func submit(_ target: Token) {
        loop.performCancellable(target: target) { log.append("ran") }
        loop.performCancellable(after: .microseconds(1), target: target) { log.append("ran later") }
      }
      submit(Token { log.append("freed") })
      log.append("submitted")
      return loop.run()
    }
    #expect(log.all == ["submitted", "ran", "ran later", "freed"])
  }

  @Test func theWorkOfATargetIsCancelledByIdentity() throws {
    final class Equal: Sendable, Equatable {
      static func == (_: Equal, _: Equal) -> Bool { true }
    }
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      let (one, other) = (Equal(), Equal())
      loop.performCancellable(target: one) { log.append("one") }
      loop.performCancellable(target: other) { log.append("other") }
      loop.cancelWork(for: one)
      // Later work of the same target is not affected.
      loop.performCancellable(target: one) { log.append("one again") }
      return loop.run()
    }
    #expect(log.all == ["other", "one again"])
  }

  @Test func idleWorkRunsInAnyModeInWhichTheLoopIsIdle() throws {
    let log = Log<String?>()
    let result = try onFreshLoop { loop in
      for _ in 0..<2 { loop.performWhenIdle { log.append(loop.currentMode?.name) } }
      // It keeps modes from being empty that have nothing else.
      loop.run(mode: .default, for: .zero)
      return loop.run(mode: "run for the first time", for: .zero)
    }
    #expect(log.all.first == "default")
    #expect(result == .finished && log.count == 1)
  }

  @Test func waitingForAResultWaitsForItsMode() throws {
    let log = Log<String>()
    let loops = Log<Loop>()
    let thread = TestThread {
      let loop = Loop.current
      loop.add(Loop.Source {}, to: .tests)
      loop.add(Loop.Source {})
      loops.append(loop)
      loop.run()
      log.append("default ended")
      loop.run(mode: .tests, for: .seconds(60))
    }
    #expect(eventually { loops.all.first?.isWaiting ?? false })
    let loop = loops.all[0]
    let waiter = TestThread {
      let mode = try? loop.performAndWait(in: .tests) {
        log.append("asked")
        loop.stop()
        return loop.currentMode
      }
      log.append(mode?.name ?? "refused")
    }
    loop.perform { loop.stop() }
    waiter.join()
    thread.join()
    #expect(log.all == ["default ended", "asked", "tests"])
  }

  @Test func aResultAwaitedOnTheLoopsOwnThreadComesLater() async throws {
    actor Resident {
      let thread = PermanentThread()
      nonisolated let loop: Loop
      let log = Log<String>()

      init() throws {
        try thread.start()
        loop = thread.loop!
      }

      nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

      func ask() async throws -> [String] {
        let (log, loop) = (log, loop)
        loop.perform { log.append("posted before") }
        let answer = try await loop.performAndWait {
          log.append("asked")
          return loop.isCurrent ? "answered" : "elsewhere"
        }
        log.append(answer)
        return log.all
      }

      func stop() { thread.stop() }
    }
    let resident = try Resident()
    #expect(try await resident.ask() == ["posted before", "asked", "answered"])
    await resident.stop()
  }

  @Test func anErrorOfAnAwaitedClosureIsThrownToTheCaller() async throws {
    struct Failure: Error {}
    let thread = PermanentThread()
    try thread.start()
    let loop = try #require(thread.loop)
    await #expect(throws: Failure.self) { try await loop.performAndWait { throw Failure() } }
    thread.stop()
    let error = await #expect(throws: Loop.Ended.self) { try await loop.performAndWait {} }
    #expect(error?.description == "the loop's thread exited before the work ran")
  }

  @Test func aResultThatIsNeverComputedIsAnError() async throws {
    let loops = Log<Loop>()
    let gate = Pipe()
    defer { gate.close() }
    let thread = TestThread {
      loops.append(.current)
      gate.read()
    }
    #expect(eventually { loops.count == 1 })
    let loop = loops.all[0]
    let answer = Task { try await loop.performAndWait(in: .tests) { 1 } }
    await Task.yield()
    gate.write()
    await #expect(throws: Loop.Ended.self) { try await answer.value }
    thread.join()
  }
}
