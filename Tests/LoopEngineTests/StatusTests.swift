import CLinux
import Glibc
import LoopEngine
import Testing

/// What other threads see of a loop: the callout, the state, and what it has done so far.
@Suite struct StatusTests {
  @Test func everyCalloutHasItsKindItsNameAndThePlaceThatScheduledIt() throws {
    let log = Log<Loop.Callout?>()
    let pipe = Pipe()
    defer { pipe.close() }
    pipe.write()
    let first: UInt32 = #line + 3
    _ = try onFreshLoop { loop in
      @Sendable func note() { log.append(loop.snapshot.callout) }
      loop.perform(name: "a block") { note() }
      let source = Loop.Source(name: "a source") { note() }
      loop.perform(after: .zero, name: "a timer") { _ in note() }
      let watch = try loop.watch(pipe.reading, name: "a watch") { _, _ in note() }
      loop.observe(.entry, repeats: false, name: "an observer") { _, _ in note() }
      loop.performWhenIdle(name: "idle work") { note() }
      let point = Loop.FlushPoint(on: loop, name: "a flush") { note() }
      loop.performCancellable(name: "work") { note() }
      loop.performCancellable(after: .microseconds(1), name: "delayed work") { note() }
      loop.perform(in: [.default, .tests], name: "a block of two modes") { note() }
      loop.add(source)
      source.signal()
      spin(until: .now.advanced(by: .microseconds(2)))
      loop.run(mode: .default, for: .zero)
      watch.invalidate()
      point.mark()
      loop.run(mode: .default, for: .zero)
      loop.run(mode: .default, for: .zero)
    }
    let callouts = log.all.compactMap { $0 }
    let expected: [(Loop.Callout.Kind, String, UInt32)] = [
      (.observer, "an observer", 4), (.block, "a block", 0), (.block, "work", 7), (.block, "a block of two modes", 9),
      (.source, "a source", 1), (.timer, "a timer", 2), (.block, "delayed work", 8), (.descriptor, "a watch", 3),
      (.flush, "a flush", 6), (.idle, "idle work", 5),
    ]
    #expect(callouts.map(\.kind) == expected.map(\.0))
    #expect(callouts.map { $0.name } == expected.map(\.1))
    #expect(callouts.map(\.line) == expected.map { first + $0.2 })
    #expect(callouts.allSatisfy { $0.fileID == "LoopEngineTests/StatusTests.swift" })
  }

  @Test func workWithoutANameReportsNone() throws {
    let log = Log<Loop.Callout?>()
    _ = try onFreshLoop { loop in
      loop.perform { log.append(loop.snapshot.callout) }
      return loop.run()
    }
    #expect(log.all.count == 1 && log.all[0]?.name == nil && log.all[0]?.fileID != nil)
  }

  @Test func theThreadOfALoopIsTheKernelsAndItsOwnAlone() throws {
    let (isSame, isCurrent) = try onFreshLoop { loop in
      let elsewhere = Log<Bool>()
      TestThread { elsewhere.append(loop.isCurrent) }.join()
      return (loop.threadID == clinux_gettid(), [loop.isCurrent] + elsewhere.all)
    }
    #expect(isSame)
    #expect(isCurrent == [true, false])
  }

  @Test func anEndedLoopHasNoOwnerAndDoesNothing() throws {
    let loop = try onFreshLoop { loop in
      loop.perform {}
      loop.run()
      return loop
    }
    let snapshot = loop.snapshot
    #expect(loop.hasEnded && snapshot.hasEnded && !loop.isCurrent && !loop.isWaiting && !snapshot.isWaiting)
    #expect(snapshot.mode == nil && snapshot.callout == nil && loop.currentMode == nil && loop.allModes == [])
  }

  @Test func runsOfNoTimeAreNoTurnsAndHaveNoLengths() throws {
    let statistics = try onFreshLoop { loop in
      loop.add(Loop.Source {})
      for _ in 0..<100 {
        loop.perform {}
        loop.run(mode: .default, for: .zero)
      }
      return loop.statistics
    }
    #expect(statistics.turns == 0 && statistics.workTime == .zero && statistics.waitTime == .zero)
    #expect(statistics.longestTurn == .zero && statistics.histogram.isEmpty)
    #expect(statistics.turnLength(atPercentile: 0.5) == nil)
    #expect(statistics.deepestQueue == 1)
  }

  @Test func sharesOfTurnsAreClampedAndAscend() throws {
    let statistics = try onFreshLoop { loop in
      let timers = Log<Int>()
      loop.perform(every: .microseconds(100)) { timer in
        timers.append(1)
        spin(until: .now.advanced(by: .microseconds(timers.count)))
        if timers.count == 50 { timer.invalidate() }
      }
      loop.run()
      return loop.statistics
    }
    let lengths = [-1, 0, 0.1, 0.5, 0.9, 1, 7].map { statistics.turnLength(atPercentile: $0) ?? .zero }
    #expect(lengths == lengths.sorted() && lengths[0] == lengths[1])
    #expect(lengths[5] == statistics.longestTurn && lengths[6] == statistics.longestTurn)
    #expect(statistics.histogram.map(\.upTo) == statistics.histogram.map(\.upTo).sorted())
    #expect(statistics.workTime >= statistics.longestTurn)
  }

  @Test func theDeepestQueueIsTheMostBlocksThatEverWaitedAtOnce() throws {
    let depths = try onFreshLoop { loop in
      [3, 7, 2].map { count in
        for _ in 0..<count { loop.perform {} }
        loop.run(mode: .default, for: .zero)
        return loop.statistics.deepestQueue
      }
    }
    #expect(depths == [3, 7, 7])
  }
}
