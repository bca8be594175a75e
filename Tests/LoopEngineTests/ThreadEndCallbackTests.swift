import Glibc
import LoopEngine
import Testing

/// What a callback may do while its thread ends, and its loop with it.
///
/// Exit tests: a trap ends the process.
@Suite struct ThreadEndCallbackTests {
  @Test func aRunWhileTheThreadEndsIsFinishedAndAllElseIsHarmless() async {
    await #expect(processExitsWith: .success) {
      /// Uses its loop in every way there is.
      @Sendable func use(_ loop: Loop, _ log: Log<String>, _ name: String) {
        let before = Loop.Instant.now
        let results = [
          loop.run(), loop.run(until: .distantFuture), loop.run(mode: .default, before: .distantFuture),
          loop.run(mode: .tests, for: .seconds(20)), Loop.current.run(mode: .default, for: .zero),
        ]
        let took = before.duration(to: .now)
        if results.contains(where: { $0 != .finished }) || took > .seconds(10) { log.append("\(name) \(results)") }
        if loop.currentMode != nil || loop.runPass(in: .default) != nil { log.append("\(name) is in a mode") }
        if loop.nextTimerDate(in: .default) != nil { log.append("\(name) has timers") }
        if !loop.isCurrent { log.append("\(name) is on another thread") }
        loop.checkIsolated()
        _ = (loop.allModes, loop.snapshot, loop.statistics, loop.isWaiting, loop.threadID)
        let pipe = Pipe()
        defer { pipe.close() }
        let timer = Loop.Timer(after: .zero) { _ in log.append("timer") }
        let source = Loop.Source(perform: { log.append("source") })
        let observer = Loop.Observer(.all) { _, _ in log.append("observer") }
        loop.add(timer)
        loop.add(source)
        loop.add(observer)
        source.signal()
        if let watch = try? loop.watch(pipe.reading, body: { _, _ in log.append("watch") }) {
          _ = loop.contains(watch, in: .common)
          loop.remove(watch)
        }
        _ = loop.contains(timer, in: .common) || loop.contains(source, in: .common)
        _ = loop.contains(observer, in: .common)
        loop.perform { log.append("block") }
        loop.perform(in: [.default, .tests]) { log.append("block") }
        loop.performWhenIdle { log.append("idle") }
        loop.performCancellable { log.append("work") }
        loop.performCancellable(after: .seconds(1)) { log.append("work") }
        Loop.FlushPoint(on: loop) { log.append("flush") }.mark()
        loop.addCommonMode(.other)
        loop.cancelWork(for: log)
        _ = try? loop.performAndWait { log.append("answer") }
        loop.remove(timer)
        loop.remove(source)
        loop.remove(observer, from: .common)
        loop.stop()
        loop.wakeUp()
      }
      let log = Log<String>()
      let callbacks = Log<String>()
      for _ in 0..<20 {
        TestThread {
          let loop = Loop.current
          @Sendable func token(_ name: String) -> Token {
            Token {
              callbacks.append(name)
              use(loop, log, name)
            }
          }
          // A source that comes after the end of the thread's function gets its beginning reported, too.
          let late = Loop.Source(
            didSchedule: { loop, _ in use(loop, log, "didSchedule") },
            didCancel: { loop, _ in
              callbacks.append("didCancel")
              use(loop, log, "didCancel")
            }, perform: {})
          let pipe = Pipe()
          let held = ["source", "timer", "observer", "watch", "block", "foreign block", "idle", "work", "delayed"].map(
            token)
          loop.add(Loop.Source { withExtendedLifetime(held[0]) {} })
          loop.perform(after: .seconds(1000)) { [held = held[1]] _ in withExtendedLifetime(held) {} }
          loop.observe(.exit) { [held = held[2]] _, _ in withExtendedLifetime(held) {} }
          _ = try? loop.watch(pipe.reading) { [held = held[3]] _, _ in withExtendedLifetime(held) {} }
          loop.perform { [held = held[4]] in withExtendedLifetime(held) {} }
          loop.performWhenIdle { [held = held[6]] in withExtendedLifetime(held) {} }
          loop.performCancellable { [held = held[7]] in withExtendedLifetime(held) {} }
          loop.performCancellable(after: .seconds(1000)) { [held = held[8]] in withExtendedLifetime(held) {} }
          pipe.close()
          // The last: whatever this thread does to its loop makes what others have asked for.
          let foreign = held[5]
          TestThread {
            loop.perform { withExtendedLifetime(foreign) {} }
            loop.add(late)
          }.join()
        }.join()
      }
      for line in Set(log.all) { print(line) }
      guard log.all.isEmpty else { exit(1) }
      // Nothing was forgotten: each has come to its end with the thread.
      let expected = [
        "source", "timer", "observer", "watch", "block", "foreign block", "idle", "work", "delayed", "didCancel",
      ]
      let counts = expected.map { name in callbacks.all.filter { $0 == name }.count }
      exit(counts.allSatisfy { $0 == 20 } ? 0 : 2)
    }
  }

  @Test func aPermanentThreadMayBeStoppedByWhatEndsWithIt() async {
    await #expect(processExitsWith: .success) {
      for _ in 0..<20 {
        let thread = PermanentThread()
        guard (try? thread.start()) != nil, let loop = thread.loop else { exit(1) }
        loop.add(Loop.Source(didCancel: { _, _ in thread.stop() }, perform: {}))
        thread.stop()
      }
      exit(0)
    }
  }

  @Test func anEndThatComesInTheMiddleOfARunLeavesNoModeAndNoCallout() throws {
    let loops = Log<Loop>()
    TestThread {
      loops.append(.current)
      Loop.current.perform { pthread_exit(nil) }
      Loop.current.run()
    }.join()
    #expect(loops.all[0].hasEnded && loops.all[0].currentMode == nil && loops.all[0].snapshot.callout == nil)
  }
}
