import Glibc
import LoopEngine
import Testing

/// What ends a run, what does not, and what a run still serves when it ends.
@Suite struct StopTests {
  @Test func aStopLetsThePassServeWhatItFoundReady() throws {
    let log = Log<String>()
    let pipes = (0..<2).map { _ in Pipe() }
    defer { for pipe in pipes { pipe.close() } }
    let result = try onFreshLoop { loop in
      loop.add(
        Loop.Timer(at: .distantPast) { _ in
          log.append("timer")
          loop.stop()
          loop.perform { log.append("block") }
        })
      loop.add(Loop.Timer(at: .now) { _ in log.append("timer") })
      for pipe in pipes {
        pipe.write()
        try loop.watch(pipe.reading) { source, _ in
          log.append("descriptor")
          source.invalidate()
        }
      }
      let later = Loop.Source { log.append("source of a later pass") }
      loop.add(later)
      loop.add(Loop.Timer(at: .now) { _ in later.signal() })
      return loop.run()
    }
    #expect(result == .stopped)
    #expect(log.all == ["timer", "timer", "descriptor", "descriptor", "block"])
  }

  @Test(.timeLimit(.minutes(5))) func aRunForeverEndsOnlyByAStop() throws {
    let results = try onFreshLoop { loop in
      loop.add(Loop.Source {})
      var results: [Loop.RunResult] = []
      for _ in 0..<3 {
        let thread = TestThread {
          while !loop.isWaiting { sleepBriefly() }
          loop.wakeUp()
          loop.perform {}
          loop.perform(after: .zero) { _ in loop.stop() }
        }
        switch results.count {
        case 0: results.append(loop.run(mode: .default, for: .seconds(Int64.max)))
        case 1: results.append(loop.run(until: .distantFuture))
        default: results.append(loop.run(mode: .default, before: .distantFuture))
        }
        thread.join()
      }
      return results
    }
    #expect(results == [.stopped, .stopped, .stopped])
  }

  @Test func aDurationOfLessThanZeroIsOnePassWithoutWaiting() throws {
    let log = Log<String>()
    let results = try onFreshLoop { loop in
      loop.add(Loop.Source {})
      loop.observe([.beforeTimers, .beforeWaiting]) { _, activity in
        log.append(activity == .beforeTimers ? "pass" : "waits")
      }
      return [Duration.zero, .seconds(-1), .seconds(Int64.min), .nanoseconds(-1)].map {
        loop.run(mode: .default, for: $0)
      }
    }
    #expect(results == Array(repeating: .timedOut, count: 4))
    #expect(log.all == Array(repeating: "pass", count: 4))
  }

  @Test func aRunUntilADateServesManySourcesAndEndsAtTheDate() throws {
    let log = Log<Int>()
    let pipe = Pipe()
    defer { pipe.close() }
    let (result, isOver) = try onFreshLoop { loop in
      let date = Loop.Instant.now.advanced(by: .milliseconds(20))
      pipe.write()
      try loop.watch(pipe.reading) { _, _ in log.append(1) }
      let result = loop.run(until: date)
      return (result, Loop.Instant.now >= date)
    }
    #expect(result == .timedOut && isOver)
    #expect(log.count > 0)
  }

  @Test func aRunForOneSourceServesOneDescriptorAndThenReturns() throws {
    let pipes = (0..<3).map { _ in Pipe() }
    defer { for pipe in pipes { pipe.close() } }
    let log = Log<Int32>()
    let results = try onFreshLoop { loop in
      for pipe in pipes {
        pipe.write()
        try loop.watch(pipe.reading) { source, _ in
          log.append(source.descriptor)
          source.invalidate()
        }
      }
      return (0..<4).map { _ in loop.run(mode: .default, for: .seconds(60), returnAfterSourceHandled: true) }
    }
    #expect(results == [.handledSource, .handledSource, .handledSource, .finished])
    #expect(log.all.sorted() == pipes.map(\.reading).sorted())
  }

  @Test func theResultIsTheFirstOfTheReasonsThatHold() throws {
    let results = try onFreshLoop { loop in
      var results: [Loop.RunResult] = []
      func run(_ duration: Duration, onlyOne: Bool, stops: Bool, empties: Bool) {
        let holder = Log<Loop.Source>()
        holder.append(
          Loop.Source {
            if stops { loop.stop() }
            if empties { holder.all[0].invalidate() }
          })
        loop.add(holder.all[0])
        holder.all[0].signal()
        results.append(loop.run(mode: .default, for: duration, returnAfterSourceHandled: onlyOne))
        holder.takeAll()[0].invalidate()
      }
      run(.zero, onlyOne: true, stops: true, empties: true)
      run(.zero, onlyOne: false, stops: true, empties: true)
      run(.seconds(60), onlyOne: false, stops: true, empties: true)
      run(.seconds(60), onlyOne: false, stops: false, empties: true)
      return results
    }
    #expect(results == [.handledSource, .timedOut, .stopped, .finished])
    #expect([Loop.RunResult.finished, .stopped, .timedOut, .handledSource].map(\.rawValue) == [1, 2, 3, 4])
  }

  @Test func aRunOfNoTimeSaysWhetherThereIsSomethingToServe() throws {
    let pipe = Pipe()
    defer { pipe.close() }
    let answers = try onFreshLoop { loop in
      var answers: [Bool] = []
      func ask() { answers.append(loop.run(mode: .default, for: .zero) != .finished) }
      ask()
      let timer = loop.perform(after: .seconds(1000)) { _ in }
      ask()
      timer.invalidate()
      ask()
      TestThread { loop.perform {} }.join()
      ask()
      ask()
      let watch = try loop.watch(pipe.reading) { _, _ in }
      ask()
      watch.invalidate()
      ask()
      // An observer is nothing to serve, and neither is what another mode has.
      loop.observe(.all) { _, _ in }
      loop.add(Loop.Source {}, to: .tests)
      ask()
      return answers
    }
    #expect(answers == [false, true, false, true, false, true, false, false])
  }

  @Test func aPassByHandRunsWhatIsDueInItsModeAlone() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      loop.perform(after: .zero, in: .tests) { _ in log.append("tests") }
      loop.perform(after: .zero) { _ in log.append("default") }
      let date = Loop.Instant.now.advanced(by: .seconds(1000))
      loop.add(Loop.Timer(at: date) { _ in }, to: .default)
      #expect(loop.runPass(in: .common) == nil && loop.runPass(in: .other) == nil)
      #expect(loop.runPass(in: .default) == date)
    }
    #expect(log.all == ["default"])
  }

  @Test func theDateOfTheNextTimerIsKnownWithoutRunningAnything() throws {
    let log = Log<Int>()
    _ = try onFreshLoop { loop in
      #expect(loop.nextTimerDate(in: .default) == nil && loop.nextTimerDate(in: .common) == nil)
      let dates = (0..<3).map { Loop.Instant(nanoseconds: 1000 + $0) }
      let timers = dates.map { Loop.Timer(at: $0) { _ in log.append(1) } }
      for timer in timers.reversed() { loop.add(timer) }
      #expect(loop.nextTimerDate(in: .default) == dates[0])
      #expect(loop.nextTimerDate(in: .tests) == nil)
      timers[0].invalidate()
      #expect(loop.nextTimerDate(in: .default) == dates[1])
      timers[1].nextFireDate = .distantFuture
      #expect(loop.nextTimerDate(in: .default) == dates[2])
      loop.addCommonMode(.tests)
      #expect(loop.nextTimerDate(in: .tests) == dates[2])
    }
    #expect(log.count == 0)
  }

  @Test func underLoadTheObserversOfWaitingAreCalledAsEver() throws {
    let pipe = Pipe()
    defer { pipe.close() }
    pipe.write()
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      loop.observe([.beforeTimers, .beforeWaiting, .afterWaiting]) { _, activity in
        log.append(activity == .beforeTimers ? "pass" : activity == .beforeWaiting ? "before" : "after")
      }
      let calls = Log<Int>()
      try loop.watch(pipe.reading) { _, _ in
        calls.append(1)
        if calls.count == 200 { loop.stop() }
      }
      return loop.run()
    }
    #expect(log.all == Array(repeating: ["pass", "before", "after"], count: 200).flatMap { $0 })
  }

  @Test func underLoadWhatElseIsToBeDoneComesBeforeTheNextEvents() throws {
    let pipe = Pipe()
    defer { pipe.close() }
    pipe.write()
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      let source = Loop.Source { log.append("source") }
      loop.add(source)
      let point = Loop.FlushPoint(on: loop) { log.append("flush") }
      let calls = Log<Int>()
      let observers = Log<Loop.Observer>()
      try loop.watch(pipe.reading) { _, _ in
        calls.append(1)
        switch calls.count {
        case 100: loop.perform { log.append("block") }
        case 200: source.signal()
        case 300: point.mark()
        case 400: loop.perform(after: .zero) { _ in log.append("timer") }
        case 500:
          observers.append(
            loop.observe(.beforeSources, repeats: false) { _, _ in log.append("observer") })
        case 600:
          // A timer that was taken out is released before the next events.
          let last = Released { log.append("released") }
          let timer = Loop.Timer(after: .seconds(1000)) { _ in withExtendedLifetime(last) {} }
          loop.add(timer)
          loop.remove(timer)
        case 700: loop.stop()
        default: if calls.count % 100 == 1 { log.append("event") }
        }
      }
      return loop.run()
    }
    let others = ["block", "source", "flush", "timer", "observer", "released"]
    #expect(log.all == ["event"] + others.flatMap { [$0, "event"] })
  }

  @Test func moreThanSixtyFourReadyDescriptorsAreServedInTurn() throws {
    let pipes = (0..<200).map { _ in Pipe() }
    defer { for pipe in pipes { pipe.close() } }
    let passes = Log<[Int32]>()
    _ = try onFreshLoop { loop in
      let calls = Log<Int32>()
      for pipe in pipes {
        pipe.write()
        try loop.watch(pipe.reading) { source, _ in calls.append(source.descriptor) }
      }
      for _ in 0..<4 {
        loop.run(mode: .default, for: .zero)
        passes.append(calls.takeAll())
      }
    }
    #expect(passes.all.map(\.count) == [64, 64, 64, 64])
    // Nobody is called twice before all others were called once.
    #expect(Set(passes.all.flatMap { $0 }.prefix(200)).count == 200)
  }
}

/// Calls a closure when it goes.
private final class Released: Sendable {
  private let call: @Sendable () -> Void
  init(_ call: @escaping @Sendable () -> Void) { self.call = call }
  deinit { call() }
}
