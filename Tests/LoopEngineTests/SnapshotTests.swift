import Glibc
import LoopEngine
import Testing

@Suite struct SnapshotTests {
  @Test func whatTheLoopCallsCanBeReadWhileItIsStuckThere() throws {
    let thread = PermanentThread()
    try thread.start()
    let loop = try #require(thread.loop)
    let pipe = Pipe()
    defer { pipe.close() }
    let line: UInt32 = #line + 1
    loop.perform(name: "the culprit") { pipe.read() }
    while loop.snapshot.callout == nil { sleepBriefly() }
    let snapshot = loop.snapshot
    #expect(snapshot.callout?.kind == .block)
    #expect(snapshot.callout?.fileID == "LoopEngineTests/SnapshotTests.swift")
    #expect(snapshot.callout?.line == line)
    #expect(snapshot.callout?.name == "the culprit")
    #expect(snapshot.mode == "default")
    #expect(!snapshot.isWaiting)
    pipe.write()
    while !loop.isWaiting { sleepBriefly() }
    #expect(loop.snapshot.callout == nil)
    thread.stop()
    #expect(loop.snapshot.hasEnded)
  }

  @Test func aNestedCalloutRestoresTheOuterOne() throws {
    let log = Log<String?>()
    _ = try onFreshLoop { loop in
      @Sendable func note() { log.append(loop.snapshot.callout?.name) }
      loop.observe(.entry, in: .tests, name: "observer") { _, _ in note() }
      loop.perform(after: .zero, in: .tests, name: "timer") { _ in note() }
      loop.perform(name: "outer") {
        note()
        loop.perform(in: .tests, name: "inner") { note() }
        loop.run(mode: .tests, for: .zero)
        note()
      }
      loop.run()
      note()
      return 0
    }
    #expect(log.all == ["outer", "observer", "inner", "timer", "outer", nil])
  }

  @Test func afterLoadTheLoopSleepsAndWakesAsBefore() throws {
    let pipe = Pipe()
    defer { pipe.close() }
    let log = Log<String>()
    let statistics = try onFreshLoop { loop in
      let calls = Log<Int>()
      let posters = Log<TestThread>()
      pipe.write()
      try loop.watch(pipe.reading) { source, _ in
        calls.append(1)
        if calls.count < 500 { return }
        pipe.read()
        TestThread {
          usleep(10_000)
          loop.perform { log.append("posted") }
        }.join()
        TestThread { loop.perform { log.append("posted before the sleep") } }.join()
        posters.append(
          TestThread {
            while !loop.isWaiting { sleepBriefly() }
            usleep(40_000)
            loop.perform {
              log.append("posted in the sleep")
              loop.perform(after: .milliseconds(1)) { _ in
                log.append("timer")
                loop.stop()
              }
            }
          })
      }
      loop.run()
      posters.all[0].join()
      return loop.statistics
    }
    #expect(log.all == ["posted", "posted before the sleep", "posted in the sleep", "timer"])
    // Each pass under load was a turn, though there was no wait between them.
    #expect(statistics.turns >= 500)
    #expect(statistics.turns < 520)
    #expect(statistics.histogram.map(\.turns).reduce(0, +) == statistics.turns)
    #expect(statistics.waitTime >= .milliseconds(30))
  }

  @Test func statisticsCountTurnsAndQueues() throws {
    let statistics = try onFreshLoop { loop in
      for _ in 0..<100 { loop.perform {} }
      let source = Loop.Source {}
      loop.add(source)
      let waker = TestThread {
        while !loop.isWaiting { sleepBriefly() }
        loop.perform {
          sleepBriefly(microseconds: 300)
          loop.stop()
        }
      }
      loop.run()
      waker.join()
      return loop.statistics
    }
    #expect(statistics.deepestQueue == 100)
    #expect(statistics.turns >= 1)
    #expect(statistics.waitTime > .zero)
    #expect(statistics.longestTurn >= .microseconds(300))
    #expect(statistics.turnLength(atPercentile: 1)! <= statistics.longestTurn)
    #expect(statistics.histogram.map(\.turns).reduce(0, +) == statistics.turns)
  }
}
