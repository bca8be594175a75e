import Glibc
import LoopEngine
import Testing

@Suite struct LoopIdentityTests {
  @Test func eachThreadHasItsOwnLoopAndKeepsIt() throws {
    let (first, second) = try onFreshLoop { loop in (ObjectIdentifier(loop), ObjectIdentifier(Loop.current)) }
    #expect(first == second)
    let ids = Log<Int32>()
    let one = TestThread { ids.append(Loop.current.threadID) }
    one.join()
    #expect(ids.all[0] > 0)
    #expect(ids.all[0] != getpid())
  }

  @Test func mainIsKnownBeforeTheMainThreadAsksForIt() {
    #expect(Loop.main.threadID == getpid())
    #expect(Loop.main === Loop.main)
  }

  @Test func anEmptyModeFinishesAtOnceWithoutEntry() throws {
    let log = Log<UInt>()
    let results = try onFreshLoop { loop in
      loop.observe(.all) { _, activity in log.append(activity.rawValue) }
      loop.observe(.all, in: .tests) { _, activity in log.append(activity.rawValue) }
      return [
        loop.run(), loop.run(mode: .tests, for: .seconds(1)), loop.run(mode: "never heard of", for: .seconds(1)),
        loop.run(mode: .common, for: .seconds(1)),
      ]
    }
    #expect(results == [.finished, .finished, .finished, .finished])
    #expect(log.all.isEmpty)
  }
}

@Suite struct FirstRunTests {
  @Test func aTimerABlockAndAPostFromOutsideAreServed() throws {
    let log = Log<String>()
    let result = try onFreshLoop { loop in
      loop.perform(after: .milliseconds(5)) { _ in
        log.append("timer")
        TestThread {
          loop.perform {
            log.append("post")
            Loop.current.stop()
          }
        }.join()
      }
      loop.perform { log.append("block") }
      // Something that keeps the mode from being empty.
      loop.add(Loop.Source {})
      return loop.run()
    }
    #expect(result == .stopped)
    #expect(log.all == ["block", "timer", "post"])
  }

  @Test func aDescriptorIsServedAndNeverRead() throws {
    let pipe = Pipe()
    defer { pipe.close() }
    pipe.write(42)
    let result = try onFreshLoop { loop in
      try loop.watch(pipe.reading) { _, readiness in
        #expect(readiness == .readable)
      }
      return loop.run(mode: .default, before: .distantFuture)
    }
    #expect(result == .handledSource)
    var byte: UInt8 = 0
    #expect(read(pipe.reading, &byte, 1) == 1 && byte == 42)
  }

  @Test func aSleepingLoopShowsThatItWaitsAndWakes() throws {
    let loops = Log<Loop>()
    let results = Log<Loop.RunResult>()
    let thread = TestThread {
      loops.append(.current)
      Loop.current.add(Loop.Source {})
      results.append(Loop.current.run())
    }
    while loops.count == 0 { usleep(100) }
    let loop = loops.all[0]
    while !loop.isWaiting { usleep(100) }
    #expect(loop.snapshot.mode == "default")
    loop.stop()
    thread.join()
    #expect(results.all == [.stopped])
    #expect(loop.hasEnded)
    #expect(!loop.perform {})
  }
}
