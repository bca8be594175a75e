import LoopEngine
import Testing

/// Names of modes, the common modes, and which modes a loop knows.
@Suite struct ModeTests {
  @Test func modesOfOneNameAreEqualOnEveryThread() {
    let modes = Log<Loop.Mode>()
    for thread in (0..<4).map({ _ in TestThread { modes.append(Loop.Mode("a name of ModeTests")) } }) { thread.join() }
    #expect(Set(modes.all) == ["a name of ModeTests"])
    #expect(modes.all[0].name == "a name of ModeTests" && "\(modes.all[0])" == "a name of ModeTests")
    #expect(Loop.Mode("default") == .default && Loop.Mode("common") == .common && Loop.Mode("tracking") == .tracking)
    #expect(Set([Loop.Mode.default, .common, .tracking, ""]).count == 4)
  }

  @Test func theDefaultModeIsCommonFromTheBeginningAndTrackingIsNot() throws {
    let log = Log<Loop.Mode?>()
    let results = try onFreshLoop { loop in
      loop.perform { log.append(loop.currentMode) }
      let tracking = loop.run(mode: .tracking, for: .zero)
      loop.run(mode: .default, for: .zero)
      loop.addCommonMode(.tracking)
      loop.perform { log.append(loop.currentMode) }
      return [tracking, loop.run(mode: .tracking, for: .zero)]
    }
    #expect(log.all == [.default, .tracking])
    #expect(results == [.finished, .timedOut])
  }

  @Test func makingAModeCommonTwiceOrTheSetItselfChangesNothing() throws {
    let log = Log<String>()
    let modes = try onFreshLoop { loop in
      for mode in [Loop.Mode.tests, .tests, .common, .default] { loop.addCommonMode(mode) }
      loop.observe(.entry) { _, _ in log.append("observer") }
      loop.perform { log.append("block") }
      loop.run(mode: .tests, for: .zero)
      return loop.allModes
    }
    #expect(log.all == ["observer", "block"])
    #expect(Set(modes) == [.default, .tests] && modes.count == 2)
  }

  @Test func aModeThatAnotherThreadMakesCommonIsCommonInTheNextPass() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      loop.add(Loop.Source {}, to: .tests)
      loop.observe(.beforeTimers) { _, _ in log.append("common") }
      loop.observe(.beforeTimers, in: .tests) { _, _ in
        log.append("pass")
        if log.count == 1 { TestThread { loop.addCommonMode(.tests) }.join() }
        if log.all.contains("common") { loop.stop() }
        loop.wakeUp()
      }
      return loop.run(mode: .tests, for: .seconds(60))
    }
    #expect(log.all == ["pass", "common", "pass"])
  }

  @Test func aLoopKnowsTheModesThatWereRunAddedToOrMadeCommon() throws {
    let (first, last) = try onFreshLoop { loop in
      let first = loop.allModes
      // Nothing was there to run, nothing was added.
      loop.run(mode: "unknown", for: .zero)
      loop.perform(in: "run") {}
      loop.run(mode: "run", for: .zero)
      loop.perform(after: .zero, in: "added to") { _ in }
      loop.addCommonMode("common too")
      return (first, loop.allModes)
    }
    #expect(first == [.default])
    #expect(Set(last) == [.default, "run", "added to", "common too"] && last.count == 4)
  }

  /// `for mode in loop.allModes { run in it }` leaves nothing behind.
  @Test func aLoopKnowsTheModesThatOnlyWorkIsFor() throws {
    let log = Log<String>()
    let thread = try onFreshLoop { loop in
      loop.perform(in: "posted") { log.append("posted") }
      loop.perform(in: ["either", "or"]) { log.append("either") }
      loop.performCancellable(in: "cancellable") { log.append("cancellable") }
      let seen = Log<Set<Loop.Mode>>()
      TestThread {
        loop.perform(in: "elsewhere") { log.append("elsewhere") }
        loop.perform(after: .zero, in: "delayed") { _ in log.append("delayed") }
        seen.append(Set(loop.allModes))
      }.join()
      for mode in loop.allModes { loop.run(mode: mode, for: .zero) }
      return seen.all[0]
    }
    #expect(thread == [.default, "posted", "either", "or", "cancellable", "elsewhere", "delayed"])
    #expect(Set(log.all) == ["posted", "either", "cancellable", "elsewhere", "delayed"] && log.count == 5)
  }

  @Test func whatIsPostedWithoutAModeRunsInEveryCommonMode() throws {
    let log = Log<String>()
    let pipe = Pipe()
    defer { pipe.close() }
    pipe.write()
    _ = try onFreshLoop { loop in
      let source = Loop.Source { log.append("source") }
      loop.add(source)
      source.signal()
      loop.perform(after: .zero) { _ in log.append("timer") }
      let watch = try loop.watch(pipe.reading) { _, _ in log.append("descriptor") }
      let observer = loop.observe(.entry) { _, _ in log.append("observer") }
      loop.perform { log.append("block") }
      loop.performCancellable { log.append("work") }
      #expect(loop.contains(source, in: .common) && loop.contains(watch, in: .common))
      #expect(loop.contains(observer, in: .common) && !loop.contains(source, in: .default))
      loop.addCommonMode(.other)
      return loop.run(mode: .other, for: .zero)
    }
    #expect(log.all == ["observer", "block", "work", "source", "timer", "descriptor"])
  }

  @Test func aRunNestedInAnotherModeServesThatModeAlone() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      for mode in [Loop.Mode.default, .tests] {
        loop.add(Loop.Timer(at: .distantPast, every: .seconds(1000)) { _ in log.append("timer of \(mode)") }, to: mode)
        loop.perform(in: mode) { log.append("block of \(mode)") }
      }
      loop.perform(in: .other) {
        loop.run(mode: .tests, for: .zero)
        log.append("nested run ended")
      }
      loop.run(mode: .other, for: .zero)
      return loop.run(mode: .default, for: .zero)
    }
    #expect(
      log.all == ["block of tests", "timer of tests", "nested run ended", "block of default", "timer of default"])
  }
}
