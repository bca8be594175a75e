import Glibc
import LoopEngine
import Synchronization
import Testing

@Suite struct StressTests {
  /// A fifth of a second by default; LOOP_STRESS_SECONDS=60 for the long run under thread sanitizer.
  static let duration: Duration = {
    guard let text = getenv("LOOP_STRESS_SECONDS"), let seconds = Double(String(cString: text)) else {
      return .milliseconds(200)
    }
    return .seconds(seconds)
  }()

  @Test func eightThreadsDoEverythingToOneLoop() throws {
    let thread = PermanentThread(name: "victim")
    try thread.start()
    let loop = try #require(thread.loop)
    let end = Loop.Instant.now.advanced(by: Self.duration)
    final class Counters: Sendable {
      let posted = Atomic<Int>(0)
      let ran = Atomic<Int>(0)
    }
    let counters = Counters()
    let attackers = (0..<8).map { number in
      TestThread {
        var state = UInt64(number + 1)
        let pipe = Pipe()
        let source = Loop.Source {}
        loop.add(source)
        repeat {
          state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
          switch (state >> 33) % 12 {
          case 0, 1, 2:
            counters.posted.wrappingAdd(1, ordering: .relaxed)
            loop.perform { counters.ran.wrappingAdd(1, ordering: .relaxed) }
          case 3: source.signal()
          case 4:
            let timer = loop.perform(after: .microseconds(Int64(state % 50))) { _ in }
            if state % 3 == 0 { timer.invalidate() } else { timer.nextFireDate = .now }
          case 5:
            let extra = Loop.Source {}
            loop.add(extra, to: .tests)
            extra.signal()
            extra.invalidate()
          case 6:
            if let watched = try? loop.watch(pipe.reading, body: { _, _ in pipe.read() }) {
              pipe.write()
              watched.invalidate()
            }
          case 7: loop.stop()
          case 8: loop.wakeUp()
          case 9: loop.addCommonMode(.tests)
          case 10:
            let observer = loop.observe(.all) { _, _ in }
            observer.invalidate()
          default:
            _ = loop.snapshot
            _ = loop.statistics.turns
            _ = loop.allModes
            loop.perform { if loop.currentMode == .default { loop.run(mode: .tests, for: .microseconds(50)) } }
          }
        } while Loop.Instant.now < end
        source.invalidate()
        _ = try? loop.performAndWait { 0 }
        pipe.close()
      }
    }
    for attacker in attackers { attacker.join() }
    thread.stop()
    #expect(counters.posted.load(ordering: .relaxed) > 0)
    #expect(counters.ran.load(ordering: .relaxed) == counters.posted.load(ordering: .relaxed))
  }

  @Test func postsRaceWithTheEndOfAThread() throws {
    for _ in 0..<200 {
      let thread = PermanentThread()
      try thread.start()
      let loop = try #require(thread.loop)
      let poster = TestThread { while loop.perform({}) {} }
      thread.stop()
      poster.join()
    }
  }
}
