import Glibc
import LoopEngine
import TestSupport
import Testing

/// What libuv's suite asks of an iteration: prepare, check and idle handles, runs of each kind,
/// handles that end each other.
///
/// A prepare handle is an observer of `beforeTimers` here, a check handle one of `afterWaiting`,
/// and an idle handle is idle work.
@Suite struct PortedPassTests {
  /// libuv: loop_handles.
  @Test func observersAndIdleWorkStartAndEndEachOtherOverManyPasses() throws {
    let iterations = 21
    let log = Log<String>()
    func count(_ name: String) -> Int { log.all.filter { $0 == name }.count }
    let result = try onFreshLoop { loop in
      // Keeps the run alive until the observers have seen enough.
      let alive = Loop.Source {}
      loop.add(alive)
      let second = Loop.Observer(.beforeTimers, order: 5) { observer, _ in
        log.append("second \(log.all.filter { $0 == "first" }.count % 2)")
        loop.remove(observer, from: .common)
      }
      loop.observe(.beforeTimers) { observer, _ in
        // Starts another observer of its kind in every other pass: not called in the same one.
        if log.all.filter({ $0 == "first" }).count % 2 == 0 { loop.add(second) }
        log.append("first")
      }
      loop.observe(.beforeSources) { observer, _ in
        let passes = log.all.filter { $0 == "first" }.count
        if passes == iterations {
          observer.invalidate()
          second.invalidate()
          alive.invalidate()
          loop.stop()
          return
        }
        for _ in 0..<passes % 3 { loop.performWhenIdle { log.append("idle") } }
        loop.wakeUp()
      }
      return loop.run()
    }
    #expect(result == .stopped)
    #expect(count("first") == iterations)
    // Added in the odd passes, called in the even ones.
    #expect(count("second 0") == iterations / 2 && count("second 1") == 0)
    #expect(count("idle") > 0)
  }

  /// What can be in one round with others of its kind.
  enum Kind: CaseIterable { case observer, afterWaiting, timer, source, watch, work, file }

  /// libuv: queue_foreach_delete.
  @Test(arguments: Kind.allCases) func theFirstOfThreeMayEndItselfAndTheSecond(_ kind: Kind) throws {
    let log = Log<Int>()
    let pipes = (0..<3).map { _ in Pipe() }
    defer { for pipe in pipes { pipe.close() } }
    let scratch = try ScratchDirectory()
    let directory = scratch.path
    _ = try onFreshLoop { loop in
      loop.add(Loop.Source {})
      let ends = Log<@Sendable () -> Void>()
      // Whoever is called first ends itself and one of the others; the third is called all the
      // same.
      @Sendable func called(_ number: Int) {
        log.append(number)
        guard log.count == 1 else { return }
        ends.all[number]()
        ends.all[(number + 1) % 3]()
      }
      let now = Loop.Instant.now
      for number in 0..<3 {
        switch kind {
        case .observer, .afterWaiting:
          let observer = loop.observe(kind == .observer ? .beforeTimers : .afterWaiting, order: number) { _, _ in
            called(number)
          }
          ends.append { observer.invalidate() }
        case .timer:
          let timer = Loop.Timer(at: now, every: .seconds(1000)) { _ in called(number) }
          loop.add(timer)
          ends.append { timer.invalidate() }
        case .source:
          let source = Loop.Source { called(number) }
          loop.add(source)
          source.signal()
          ends.append { source.invalidate() }
        case .watch:
          pipes[number].write()
          let watch = try loop.watch(pipes[number].reading) { _, _ in
            pipes[number].read()
            called(number)
          }
          ends.append { watch.invalidate() }
        case .work:
          let work = loop.performCancellable { called(number) }
          ends.append { work.cancel() }
        case .file:
          let file = try Loop.FileChangeSource(directory, for: .created) { _, _ in called(number) }
          try loop.add(file)
          ends.append { file.invalidate() }
        }
      }
      if kind == .file {
        mkdir("\(directory)/entry", 0o700)
        rmdir("\(directory)/entry")
      }
      // A pass that may wait, and does not: its time is over when it would.
      loop.run(mode: .default, for: kind == .afterWaiting ? .nanoseconds(1) : .zero)
    }
    // In their order where they have one.
    if kind != .watch && kind != .file { #expect(log.all == [0, 2]) }
    #expect(log.count == 2 && log.all[1] == (log.all[0] + 2) % 3)
  }

  /// libuv: run_once.
  @Test func idleWorkThatAsksForMoreGetsOneUnitARun() throws {
    let log = Log<Int>()
    let runs = try onFreshLoop { loop in
      @Sendable func again() {
        loop.performWhenIdle {
          log.append(1)
          if log.count < 64 { again() }
        }
      }
      again()
      var runs = 0
      while loop.run(mode: .default, for: .zero) != .finished { runs += 1 }
      return runs
    }
    #expect(log.count == 64)
    #expect(runs == 64)
  }

  /// libuv: run_nowait.
  @Test func aRunOfNoTimeDoesNotWaitForATimer() throws {
    let log = Log<Int>()
    let result = try onFreshLoop { loop in
      loop.perform(every: .seconds(1000)) { _ in log.append(1) }
      return loop.run(mode: .default, for: .zero)
    }
    #expect(result == .timedOut)
    #expect(log.count == 0)
  }

  /// libuv: idle_check.
  ///
  /// There an idle handle keeps the loop from blocking and the check handle is called; here a pass
  /// with idle work does not wait, and so calls no observer of waiting.
  @Test func aPassWithIdleWorkCallsNoObserversOfWaiting() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      loop.observe([.beforeWaiting, .afterWaiting]) { _, _ in log.append("waits") }
      loop.performWhenIdle { log.append("idle") }
      return loop.run()
    }
    #expect(log.all == ["idle"])
  }

  /// libuv: loop_stop.
  @Test func aStoppedRunIsContinuedByTheNext() throws {
    let log = Log<String>()
    func count(_ name: String) -> Int { log.all.filter { $0 == name }.count }
    let results = try onFreshLoop { loop in
      loop.observe(.beforeTimers) { _, _ in log.append("pass") }
      loop.perform(every: .microseconds(100)) { timer in
        log.append("timer")
        switch log.all.filter({ $0 == "timer" }).count {
        case 1: loop.stop()
        case 10: timer.invalidate()
        default: break
        }
      }
      let first = loop.run()
      let passes = log.count
      let second = loop.run(mode: .default, for: .zero)
      #expect(log.count > passes)
      return [first, second, loop.run()]
    }
    #expect(results == [.stopped, .timedOut, .finished])
    #expect(count("timer") == 10 && count("pass") >= 10)
  }

  /// libuv: active.
  @Test func anItemIsActiveFromItsAdditionToItsRemovalOrItsEnd() throws {
    let states = try onFreshLoop { loop in
      let timer = Loop.Timer(after: .seconds(1000)) { _ in }
      var states: [Bool] = []
      func note() { states += [loop.contains(timer, in: .common), timer.isValid] }
      note()
      loop.add(timer)
      note()
      loop.remove(timer)
      loop.remove(timer)
      note()
      loop.add(timer)
      loop.add(timer)
      note()
      timer.invalidate()
      timer.invalidate()
      note()
      return states + [loop.run() == .finished]
    }
    #expect(states == [false, true, true, true, false, true, true, true, false, false, true])
  }

  /// libuv: embed.
  ///
  /// There the loop's descriptor is polled by another loop; here a foreign loop asks for the date.
  @Test func aForeignLoopDrivesOursByItsLimitDate() throws {
    let log = Log<Int>()
    let rounds = try onFreshLoop { loop in
      for number in 0..<5 { loop.perform(after: .microseconds(300 * number)) { _ in log.append(number) } }
      var rounds = 0
      while let date = loop.runPass(in: .default) {
        rounds += 1
        spin(until: date)
      }
      return rounds
    }
    #expect(log.all == Array(0..<5))
    #expect(rounds <= 5)
  }

  /// libuv: metrics_idle_time.
  @Test func theTimeOfWaitsAndTheTimeOfTurnsAreCountedApart() throws {
    let statistics = try onFreshLoop { loop in
      loop.add(Loop.Source {})
      let poster = TestThread {
        while !loop.isWaiting { sleepBriefly() }
        sleepBriefly(microseconds: 20_000)
        loop.perform {
          spin(until: .now.advanced(by: .milliseconds(5)))
          loop.stop()
        }
      }
      loop.run()
      poster.join()
      return loop.statistics
    }
    // Much less than they took: what a tick is has to be learnt, and a thread may be held up while
    // it learns.
    #expect(statistics.waitTime >= .milliseconds(5) && statistics.workTime >= .milliseconds(1))
    #expect(statistics.turns == 1 && statistics.longestTurn == statistics.workTime)
  }

  /// libuv: metrics_idle_time_zero.
  @Test func aLoopThatNeverWaitedHasNoTimeOfWaits() throws {
    let statistics = try onFreshLoop { loop in
      for _ in 0..<3 { loop.perform(after: .zero) { _ in loop.perform(after: .zero) { _ in } } }
      loop.run()
      return loop.statistics
    }
    #expect(statistics.waitTime == .zero && statistics.turns == 0)
  }

  /// libuv: metrics_idle_time_thread.
  @Test func eachLoopCountsItsOwnTurns() throws {
    let turns = Log<(runs: Int, turns: UInt)>()
    let threads = (0..<5).map { number in
      TestThread {
        let loop = Loop.current
        loop.add(Loop.Source {})
        for _ in 0..<number {
          let waker = TestThread {
            while !loop.isWaiting { sleepBriefly() }
            loop.perform { loop.stop() }
          }
          loop.run()
          waker.join()
        }
        turns.append((number, loop.statistics.turns))
      }
    }
    for thread in threads { thread.join() }
    // One that never ran has none, whatever the others did.
    #expect(turns.count == 5)
    #expect(turns.all.allSatisfy { $0.runs == 0 ? $0.turns == 0 : $0.turns >= $0.runs })
  }

  /// libuv: loop_alive, with requests.
  @Test func aWaitForAnAnswerOfAnotherThreadNeedsSomethingThatKeepsTheRunAlive() throws {
    let log = Log<String>()
    let results = try onFreshLoop { loop in
      var results: [Loop.RunResult] = []
      for keepsAlive in [true, false] {
        let source = Loop.Source {}
        if keepsAlive { loop.add(source) }
        let gate = Pipe()
        let worker = TestThread {
          gate.read()
          loop.perform {
            log.append(keepsAlive ? "answered" : "too late")
            source.invalidate()
          }
        }
        if keepsAlive { gate.write() }
        results.append(loop.run())
        if !keepsAlive { gate.write() }
        worker.join()
        gate.close()
      }
      return results
    }
    #expect(log.all == ["answered"])
    #expect(results == [.finished, .finished])
  }
}
