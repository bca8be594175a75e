import LoopEngine
import Testing

/// The examples of the documentation.
@Suite struct RecipeTests {
  @Test func aTimerThatKeepsFiringInTrackingMode() throws {
    let ticks = Log<Loop.Mode?>()
    _ = try onFreshLoop { loop in
      loop.addCommonMode(.tracking)
      loop.schedule(after: .milliseconds(1), repeats: true) { timer in
        ticks.append(loop.currentMode)
      }
      return loop.run(mode: .tracking, for: .milliseconds(20))
    }
    #expect(ticks.all.first == .tracking)
  }

  @Test func aThreadThatIsKeptAlive() throws {
    let log = Log<String>()
    let thread = PermanentThread(name: "writer")
    try thread.start()
    thread.perform { log.append("written") }
    thread.stop()
    #expect(log.all == ["written"])
  }

  @Test func workThatIsPutOffUntilTheLoopIsIdle() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      loop.performWhenIdle { log.append("compact the index") }
      loop.perform { log.append("answer a request") }
      return loop.run()
    }
    #expect(log.all == ["answer a request", "compact the index"])
  }

  @Test func aShutdownThatDrainsEachMode() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      for mode in [Loop.Mode.default, .tests, .other] {
        let source = Loop.Source { log.append(mode.name) }
        loop.add(source, to: mode)
        source.signal()
        loop.perform(in: mode) { log.append("block in \(mode)") }
      }
      loop.perform { loop.perform { loop.perform(in: .other) { log.append("what was left") } } }
      // A hundred looks: what runs may leave more, and what is ready for ever is not waited for.
      for _ in 0..<100 {
        for mode in [Loop.Mode.default, .tests, .other] {
          loop.run(mode: mode, for: .zero, returnAfterSourceHandled: true)
        }
      }
      return 0
    }
    let first = ["block in default", "default", "block in tests", "tests", "block in other", "other"]
    #expect(log.all.filter { $0 != "what was left" } == first)
    #expect(log.count == first.count + 1)
  }
}
