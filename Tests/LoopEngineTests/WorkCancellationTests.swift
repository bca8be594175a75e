import Glibc
import LoopEngine
import Testing

/// Work that is cancelled by work, and work that never ends.
@Suite struct WorkCancellationTests {
  final class Target: Sendable {}

  @Test func workCancelsWhatIsDueInTheSamePass() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      let target = Target()
      let works = Log<Loop.Work>()
      loop.performCancellable(order: 1, target: target) {
        log.append("first")
        loop.cancelWork(for: target)
        works.all[0].cancel()
      }
      loop.performCancellable(order: 2, target: target) { log.append("second") }
      works.append(loop.performCancellable(order: 3) { log.append("third") })
      loop.performCancellable(order: 4, target: Target()) { log.append("other") }
      return loop.run()
    }
    #expect(log.all == ["first", "other"])
  }

  @Test func aRunWithinWorkContinuesWithTheNextInOrder() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      loop.performCancellable(order: 3) { log.append("3") }
      loop.performCancellable(order: 1) {
        log.append("1")
        loop.run(mode: .default, for: .zero)
        log.append("end of 1")
      }
      loop.performCancellable(order: 2) { log.append("2") }
      return loop.run()
    }
    #expect(log.all == ["1", "2", "3", "end of 1"])
  }

  @Test func delayedWorkCostsNoExtraTurn() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      loop.observe(.beforeWaiting) { _, _ in log.append("waits") }
      loop.performCancellable(after: .milliseconds(5)) { log.append("work") }
      return loop.run()
    }
    #expect(log.all == ["waits", "work"])
  }

  @Test func workOfAnotherThreadCanBeCancelledByItAtOnce() throws {
    let thread = PermanentThread()
    try thread.start()
    let loop = try #require(thread.loop)
    let log = Log<Int>()
    let (gate, arrived) = (Pipe(), Pipe())
    defer {
      gate.close()
      arrived.close()
    }
    let target = Target()
    loop.perform {
      arrived.write()
      gate.read()
    }
    // Or the first of the work would be there, and run, before the block.
    arrived.read()
    let works = (0..<100).map { number in
      loop.performCancellable(target: number % 2 == 0 ? target : nil) { log.append(number) }
    }
    loop.cancelWork(for: target)
    for work in works.dropFirst(50) { work.cancel() }
    gate.write()
    thread.stop()
    #expect(log.all == (0..<50).filter { $0 % 2 == 1 })
    #expect(works.allSatisfy { !$0.isPending })
  }

  @Test func blocksThatPostBlocksStarveNeitherTimersNorDescriptorsNorSources() throws {
    let pipe = Pipe()
    defer { pipe.close() }
    let log = Log<String>()
    let result = try onFreshLoop { loop in
      @Sendable func again() { loop.perform { again() } }
      again()
      let source = Loop.Source { log.append("source") }
      loop.add(source)
      loop.perform(after: .milliseconds(1)) { _ in
        log.append("timer")
        source.signal()
        pipe.write()
      }
      try loop.watch(pipe.reading) { watch, _ in
        log.append("descriptor")
        watch.invalidate()
        TestThread { loop.perform { loop.stop() } }.join()
      }
      return loop.run(mode: .default, for: .seconds(60))
    }
    #expect(result == .stopped)
    #expect(log.all.sorted() == ["descriptor", "source", "timer"])
  }

  @Test func aSourceThatSignalsItselfDoesNotStarveOthers() throws {
    let log = Log<String>()
    let result = try onFreshLoop { loop in
      let holder = Log<Loop.Source>()
      holder.append(Loop.Source { holder.all[0].signal() })
      loop.add(holder.all[0])
      holder.all[0].signal()
      loop.perform(after: .milliseconds(1)) { _ in
        log.append("timer")
        TestThread { loop.stop() }.join()
      }
      return loop.run(mode: .default, for: .seconds(60))
    }
    #expect(result == .stopped)
    #expect(log.all == ["timer"])
  }

  @Test func idleWorkThatAsksForMoreLetsTimersFire() throws {
    let log = Log<Int>()
    let result = try onFreshLoop { loop in
      @Sendable func again() {
        loop.performWhenIdle {
          log.append(1)
          if log.count == 1 { loop.perform(after: .milliseconds(3)) { _ in loop.stop() } }
          again()
        }
      }
      again()
      return loop.run(mode: .default, for: .seconds(60))
    }
    #expect(result == .stopped)
    #expect(log.count > 0)
  }

  @Test func loopsThatAskEachOtherAndAnswerAreNoDeadlock() throws {
    let threads = [PermanentThread(name: "a"), PermanentThread(name: "b")]
    for thread in threads { try thread.start() }
    let loops = threads.compactMap(\.loop)
    // There and back by results and not by waits on both sides; a wait for oneself within a wait runs at once.
    let value = try loops[0].performAndWait { try loops[1].performAndWait { try loops[1].performAndWait { 7 } } }
    #expect(value == 7)
    for thread in threads { thread.stop() }
  }

  @Test func aWaitForAThreadThatEndsInTheMiddleIsAnError() throws {
    for _ in 0..<50 {
      let thread = PermanentThread()
      try thread.start()
      let loop = try #require(thread.loop)
      let waiter = TestThread {
        for _ in 0..<1000 { guard (try? loop.performAndWait { 1 }) == 1 else { return } }
      }
      thread.stop()
      waiter.join()
    }
  }
}
