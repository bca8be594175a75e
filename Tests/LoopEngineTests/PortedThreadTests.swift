import Glibc
import LoopEngine
import Synchronization
import TestSupport
import Testing

/// What libuv's and libdispatch's suites ask of wake-ups and of many threads.
@Suite struct PortedThreadTests {
  /// Permanent threads with loops, stopped at the end.
  private static func withLoops<T>(_ count: Int, _ body: ([Loop]) throws -> T) throws -> T {
    let threads = (0..<count).map { PermanentThread(name: "loop \($0)") }
    defer { for thread in threads { thread.stop() } }
    for thread in threads { try thread.start() }
    return try body(threads.compactMap(\.loop))
  }

  /// libuv: async.
  @Test(.timeLimit(.minutes(5))) func aThreadThatSignalsWithoutPauseIsServedUntilItsEnd() throws {
    let performs = Log<Int>()
    let ended = Log<Bool>()
    let result = try onFreshLoop { loop in
      let holder = Log<Loop.Source>()
      let source = Loop.Source {
        performs.append(1)
        if performs.count == 3 { holder.all[0].invalidate() }
      }
      holder.append(source)
      loop.add(source)
      let sender = TestThread {
        while ended.count == 0 {
          source.signal()
          loop.wakeUp()
        }
      }
      let result = loop.run()
      // Signals of a source that has ended have no effect.
      loop.add(Loop.Source {})
      loop.run(mode: .default, for: .milliseconds(1))
      ended.append(true)
      sender.join()
      return result
    }
    #expect(result == .finished)
    #expect(performs.count == 3)
  }

  /// libuv: async, with several senders: signals merge, and the last of each is never lost.
  @Test(.timeLimit(.minutes(5))) func mergedSignalsKeepEachSendersLastSignal() throws {
    let senders = 4
    let lastWord = 2000
    final class Words: Sendable {
      let words: [Log<Int>] = (0..<4).map { _ in Log() }
    }
    let words = Words()
    let performs = Log<Int>()
    _ = try onFreshLoop { loop in
      let holder = Log<Loop.Source>()
      holder.append(
        Loop.Source {
          performs.append(1)
          if words.words.allSatisfy({ $0.all.last == lastWord }) { holder.all[0].invalidate() }
        })
      let source = holder.all[0]
      loop.add(source)
      let threads = (0..<senders).map { sender in
        TestThread {
          for word in 1...lastWord {
            // Only the newest is kept.
            _ = words.words[sender].takeAll()
            words.words[sender].append(word)
            source.signal()
            loop.wakeUp()
          }
        }
      }
      // Ends when a perform has seen all last words.
      loop.run()
      for thread in threads { thread.join() }
    }
    #expect(performs.count >= 1 && performs.count <= senders * lastWord)
  }

  /// libuv: async_null_cb.
  @Test func aWakeUpWithNothingToServeIsOnePass() throws {
    let log = Log<String>()
    let result = try onFreshLoop { loop in
      loop.add(Loop.Source {})
      let waker = TestThread {
        while !loop.isWaiting { sleepBriefly() }
        for _ in 0..<100 { loop.wakeUp() }
        loop.stop()
      }
      loop.observe(.afterWaiting) { _, _ in
        log.append("woken")
        waker.join()
      }
      return loop.run()
    }
    #expect(result == .stopped)
    #expect(log.count == 1)
  }

  /// libdispatch: dispatch_starfish.
  @Test(.timeLimit(.minutes(5))) func everyLoopAsksEveryLoopAndGetsAllAnswers() throws {
    let count = 6
    let laps = 20
    let done = Log<Int>()
    let answers = Log<Int>()
    try Self.withLoops(count) { loops in
      for lap in 0..<laps {
        for (asker, loop) in loops.enumerated() {
          loop.perform {
            let replies = Log<Int>()
            for (asked, other) in loops.enumerated() {
              other.perform {
                answers.append(asked)
                loop.perform {
                  replies.append(asked)
                  if replies.count == count { done.append(asker) }
                }
              }
            }
          }
        }
        #expect(eventually { done.count == (lap + 1) * count })
      }
    }
    #expect(answers.count == laps * count * count)
    for number in 0..<count { #expect(done.all.filter { $0 == number }.count == laps) }
  }

  /// libdispatch: dispatch_cascade.
  @Test(.timeLimit(.minutes(5))) func blocksPassThroughALineOfLoopsWithoutALoss() throws {
    let length = 8
    let blocks = 500
    let arrivals = Log<(block: Int, loop: Int)>()
    try Self.withLoops(length) { loops in
      @Sendable func fall(_ block: Int, _ index: Int) {
        loops[index].perform {
          arrivals.append((block, index))
          if index + 1 < length { fall(block, index + 1) }
        }
      }
      for block in 0..<blocks { fall(block, 0) }
      #expect(eventually { arrivals.count == length * blocks })
    }
    // One poster for each loop: they stay in order all the way down.
    for index in 0..<length { #expect(arrivals.all.filter { $0.loop == index }.map(\.block) == Array(0..<blocks)) }
  }

  /// libdispatch: dispatch_pingpong.
  @Test(.timeLimit(.minutes(5))) func twoLoopsTakeTurns() throws {
    let rounds = 2000
    let log = Log<Int>()
    try Self.withLoops(2) { loops in
      @Sendable func hit(_ number: Int) {
        loops[number % 2].perform {
          log.append(Loop.current === loops[number % 2] ? number : -1)
          if number < rounds { hit(number + 1) }
        }
      }
      hit(1)
      #expect(eventually { log.count == rounds })
    }
    #expect(log.all == Array(1...rounds))
  }

  /// libdispatch: dispatch_sync_on_main, dispatch_readsync.
  @Test func eachThreadThatWaitsForOneLoopGetsItsOwnAnswer() throws {
    let answers = Log<Bool>()
    try Self.withLoops(1) { loops in
      let askers = (0..<8).map { asker in
        TestThread {
          for number in 0..<100 {
            let answer = try? loops[0].performAndWait { [asker, number, Int(Loop.current.threadID)] }
            answers.append(answer == [asker, number, Int(loops[0].threadID)])
          }
        }
      }
      for asker in askers { asker.join() }
    }
    #expect(answers.count == 800 && answers.all.allSatisfy { $0 })
  }

  /// libdispatch: dispatch_cf_main.
  ///
  /// Blocks that post blocks come to an end, beside timers that post blocks.
  @Test func blocksOfBlocksAndOfTimersEndTogether() throws {
    let log = Log<Int>()
    let result = try onFreshLoop { loop in
      @Sendable func work() {
        log.append(1)
        if log.count < 100 {
          loop.perform { work() }
          loop.perform(after: .zero) { _ in loop.perform {} }
        }
      }
      for _ in 0..<2 { loop.perform { work() } }
      return loop.run()
    }
    #expect(result == .finished)
    #expect(log.count == 101)
  }

  /// libuv: signal_multiple_loops, its other half: loops come and go while others are at work.
  @Test(.timeLimit(.minutes(5))) func loopsThatComeAndGoDisturbNoOther() throws {
    let ended = Log<Bool>()
    let made = Log<Int>()
    let makers = (0..<4).map { _ in
      TestThread {
        repeat {
          TestThread {
            let loop = Loop.current
            // A signal that no other test has: all sources of one are called for it.
            _ = try? loop.add(Loop.SignalSource([45]) { _ in made.append(-1_000_000) })
            loop.addCommonMode(.tests)
            loop.perform(after: .zero, in: .tests) { _ in loop.stop() }
            loop.run(mode: .tests, for: .seconds(60))
            made.append(1)
          }.join()
        } while ended.count == 0
      }
    }
    let ticks = try onFreshLoop { loop in
      let log = Log<Int>()
      loop.perform(every: .microseconds(200)) { timer in
        log.append(1)
        if log.count == 100 { timer.invalidate() }
      }
      loop.run()
      return log.count
    }
    ended.append(true)
    for maker in makers { maker.join() }
    #expect(ticks == 100)
    #expect(made.count >= 4 && !made.all.contains(-1_000_000))
  }
}
