import LoopEngine
import TestSupport
import Testing

@Suite struct FlushPointTests {
  @Test func flushPointsRunInAscendingOrder() throws {
    let log = Log<Int>()
    _ = try onFreshLoop { loop in
      let points = [3, -1, 2].map { order in Loop.FlushPoint(on: loop, order: order) { log.append(order) } }
      #expect(points.map(\.order) == [3, -1, 2])
      for point in points { point.mark() }
      return loop.run()
    }
    #expect(log.all == [-1, 2, 3])
  }

  @Test func whatAFlushMarksIsFlushedInTheNextPass() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      loop.observe(.beforeTimers) { _, _ in log.append("pass") }
      let points = Log<Loop.FlushPoint>()
      points.append(Loop.FlushPoint(on: loop) { log.append("second") })
      points.append(
        Loop.FlushPoint(on: loop) {
          log.append("first")
          points.all[0].mark()
          if log.count < 4 { points.all[1].mark() }
        })
      points.all[1].mark()
      return loop.run()
    }
    #expect(log.all == ["pass", "first", "pass", "second", "first", "pass", "second"])
  }

  @Test func aMarkByAnotherThreadWakesASleepingLoop() throws {
    let thread = PermanentThread()
    try thread.start()
    let loop = try #require(thread.loop)
    let threads = Log<Int32>()
    let point = Loop.FlushPoint(on: loop) { threads.append(Loop.current.threadID) }
    for round in 1...3 {
      while !loop.isWaiting { sleepBriefly() }
      point.mark()
      #expect(eventually { threads.count == round })
    }
    thread.stop()
    #expect(Set(threads.all) == [loop.threadID])
  }

  @Test func aFlushRunsWhereARunOfNoTimeEndsUnlessThereWasSomethingToServe() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      let point = Loop.FlushPoint(on: loop) { log.append("flush") }
      let source = Loop.Source { log.append("source") }
      loop.add(source)
      point.mark()
      source.signal()
      loop.run(mode: .default, for: .zero)
      log.append("next run")
      return loop.run(mode: .default, for: .zero)
    }
    #expect(log.all == ["source", "next run", "flush"])
  }

  @Test func whatAFlushPostsRunsBeforeTheLoopWaits() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      loop.add(Loop.Source {})
      loop.observe(.beforeWaiting) { _, _ in
        log.append("waits")
        loop.stop()
      }
      let point = Loop.FlushPoint(on: loop) {
        log.append("flush")
        loop.perform { log.append("block") }
      }
      point.mark()
      return loop.run()
    }
    #expect(log.all.filter { $0 != "waits" } == ["flush", "block"])
    #expect(log.all.last == "waits")
  }
}
