import Glibc
import LoopEngine
import Testing

/// Runs within runs, runs without time, and modes that become empty in the middle.
@Suite struct NestedRunTests {
  @Test func aTimeThatIsPastPollsAndNeverWaits() throws {
    let log = Log<String>()
    let results = try onFreshLoop { loop in
      let start = Loop.Instant.now
      loop.add(Loop.Source {})
      loop.observe([.beforeTimers, .beforeWaiting, .afterWaiting]) { _, activity in
        log.append(activity == .beforeTimers ? "pass" : "waits")
      }
      var results: [Loop.RunResult] = []
      for date in [start, .now.advanced(by: .seconds(-1)), .distantPast] {
        loop.perform(after: .zero) { _ in log.append("timer") }
        results.append(loop.run(until: date))
        results.append(loop.run(mode: .default, before: date))
      }
      return results
    }
    #expect(results == Array(repeating: .timedOut, count: 6))
    #expect(log.all == Array(repeating: ["pass", "timer", "pass"], count: 3).flatMap { $0 })
  }

  @Test(.timeLimit(.minutes(5))) func anObserverThatEmptiesTheModeBeforeTheWaitEndsTheRun() throws {
    let result = try onFreshLoop { loop in
      let source = Loop.Source {}
      loop.add(source)
      loop.observe(.beforeWaiting) { _, _ in source.invalidate() }
      return loop.run()
    }
    #expect(result == .finished)
  }

  @Test(.timeLimit(.minutes(5))) func anyRemovalThatEmptiesTheModeEndsTheRun() throws {
    let pipe = Pipe()
    defer { pipe.close() }
    pipe.write()
    let results = try onFreshLoop { loop in
      var results: [Loop.RunResult] = []
      loop.perform(after: .milliseconds(1)) { _ in }
      results.append(loop.run())
      try loop.watch(pipe.reading) { source, _ in loop.remove(source) }
      results.append(loop.run())
      let holder = Log<Loop.Source>()
      let source = Loop.Source { holder.all[0].invalidate() }
      holder.append(source)
      loop.add(source)
      source.signal()
      results.append(loop.run())
      let repeating = loop.perform(every: .seconds(1000)) { _ in }
      loop.performWhenIdle { repeating.invalidate() }
      results.append(loop.run())
      let point = Loop.FlushPoint(on: loop) {}
      point.mark()
      results.append(loop.run())
      return results
    }
    #expect(results == Array(repeating: .finished, count: 5))
  }

  @Test func aStopByAnotherThreadEndsTheInnermostRun() throws {
    let log = Log<String>()
    let outer = try onFreshLoop { loop in
      loop.add(Loop.Source {})
      loop.perform {
        let thread = TestThread {
          while !loop.isWaiting { sleepBriefly() }
          loop.stop()
        }
        log.append("\(loop.run())")
        thread.join()
      }
      return loop.run(mode: .default, for: .milliseconds(30))
    }
    #expect(log.all == ["stopped"])
    #expect(outer == .timedOut)
  }

  @Test func observersOfTheOuterRunAreCalledByANestedOne() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      loop.add(Loop.Source {}, to: .tests)
      loop.observe([.entry, .exit], in: .default) { _, activity in log.append("default \(activity.rawValue)") }
      loop.observe([.entry, .exit], in: .tests) { _, activity in log.append("tests \(activity.rawValue)") }
      loop.perform {
        loop.perform { log.append("block") }
        loop.run(mode: .default, for: .zero)
        loop.run(mode: .tests, for: .zero)
      }
      return loop.run()
    }
    #expect(
      log.all == ["default 1", "default 1", "block", "default 128", "tests 1", "tests 128", "default 128"])
  }

  @Test func twentyRunsDeepEachStopEndsOne() throws {
    let log = Log<Int>()
    let result = try onFreshLoop { loop in
      loop.add(Loop.Source {})
      @Sendable func descend(_ depth: Int) {
        loop.perform {
          if depth < 20 {
            descend(depth + 1)
            loop.run()
          }
          log.append(depth)
          loop.stop()
        }
      }
      descend(1)
      return loop.run()
    }
    #expect(result == .stopped)
    #expect(log.all == Array((1...20).reversed()))
  }

  @Test func aSourceMayRunTheLoopThatPerformsItAgain() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      let holder = Log<Loop.Source>()
      let source = Loop.Source {
        log.append("in")
        if log.count == 1 {
          holder.all[0].signal()
          log.append("\(loop.run(mode: .default, for: .zero, returnAfterSourceHandled: true))")
        }
        log.append("out")
      }
      holder.append(source)
      loop.add(source)
      source.signal()
      return loop.run(mode: .default, for: .zero)
    }
    #expect(log.all == ["in", "in", "out", "handledSource", "out"])
  }

  /// The kernel names the first pipe first in each pass, for it is always readable.
  @Test(arguments: [Loop.Mode.tests, .default]) func aCalloutThatRunsTheLoopStarvesNoOtherDescriptor(
    _ nested: Loop.Mode
  ) throws {
    let (first, second) = (Pipe(), Pipe())
    defer { [first, second].forEach { $0.close() } }
    first.write()
    let log = Log<String>()
    let isNested = Log<Bool>()
    try onFreshLoop { loop in
      loop.add(Loop.Timer(after: .seconds(3600)) { _ in }, to: .tests)
      try loop.watch(first.reading) { _, _ in
        guard isNested.count == 0 else { return }
        isNested.append(true)
        loop.run(mode: nested, for: .zero)
        _ = isNested.takeAll()
      }
      // All of these are ready in the same pass as the first one, in a mode that the nested run may serve or not.
      try loop.watch(second.reading) { source, _ in
        second.read()
        log.append("readable")
      }
      try loop.watch(second.writing, for: .writable, repeats: false) { _, _ in log.append("writable") }
      let counter = try Loop.CounterSource { _ in log.append("counter") }
      try loop.add(counter)
      counter.add(1)
      let signals = try Loop.SignalSource([SIGURG]) { _ in log.append("signal") }
      try loop.add(signals)
      pthread_kill(pthread_self(), SIGURG)
      let path = "/tmp/nested-run-\(getpid())-\(nested)"
      close(open(path, O_CREAT | O_RDWR, 0o600))
      defer { unlink(path) }
      let changes = try Loop.FileChangeSource(path, for: .modified) { _, _ in log.append("file") }
      try loop.add(changes)
      truncate(path, 1)
      var child: Int32 = 0
      posix_spawn(&child, "/bin/true", nil, nil, [strdup("true"), nil], nil)
      try loop.add(Loop.ChildSource(child) { _ in log.append("child") })
      second.write()
      // The child may take a while.
      for _ in 0..<1000 where Set(log.all).count < 6 { loop.run(for: .milliseconds(10)) }
    }
    #expect(Set(log.all) == ["readable", "writable", "counter", "signal", "file", "child"])
  }

  @Test func whatANestedRunHasServedIsNotServedAgain() throws {
    let (first, second) = (Pipe(), Pipe())
    defer { [first, second].forEach { $0.close() } }
    let log = Log<String>()
    try onFreshLoop { loop in
      func watch(_ pipe: Pipe, _ name: String) throws {
        pipe.write()
        try loop.watch(pipe.reading) { _, _ in
          pipe.read()
          log.append(name)
          if log.count == 1 { loop.run(mode: .default, for: .zero) }
        }
      }
      try watch(first, "first")
      try watch(second, "second")
      loop.run(mode: .default, for: .zero)
    }
    #expect(Set(log.all) == ["first", "second"] && log.count == 2)
  }

  @Test func aOneShotObserverIsValidInItsClosureAndNotEnteredAgain() throws {
    let log = Log<String>()
    let isValid = try onFreshLoop { loop in
      loop.add(Loop.Source {})
      let observer = loop.observe(.beforeTimers, repeats: false) { observer, _ in
        log.append("valid: \(observer.isValid)")
        loop.run(mode: .default, for: .zero)
      }
      loop.run(mode: .default, for: .zero)
      loop.run(mode: .default, for: .zero)
      return observer.isValid
    }
    #expect(log.all == ["valid: true"])
    #expect(!isValid)
  }

  @Test func aLoopLeavesTheObserversOfOthersAlone() throws {
    let log = Log<Int>()
    _ = try onFreshLoop { loop in
      let observer = loop.observe(.entry) { _, _ in log.append(1) }
      TestThread { Loop.current.remove(observer, from: .common) }.join()
      #expect(loop.contains(observer, in: .common))
      loop.perform {}
      return loop.run()
    }
    #expect(log.count == 1)
  }

  @Test func signalsOfTheLoopsOwnThreadInterruptNoWait() throws {
    // A handler without SA_RESTART: epoll_wait returns EINTR, the run continues until its time.
    signal(SIGWINCH) { _ in }
    let (result, took) = try onFreshLoop { loop in
      loop.add(Loop.Source {})
      let own = pthread_self()
      let thread = TestThread {
        for _ in 0..<20 {
          pthread_kill(own, SIGWINCH)
          sleepBriefly(microseconds: 500)
        }
      }
      let start = Loop.Instant.now
      let result = loop.run(mode: .default, for: .milliseconds(20))
      let took = start.duration(to: .now)
      thread.join()
      return (result, took)
    }
    #expect(result == .timedOut)
    #expect(took >= .milliseconds(20))
  }
}
