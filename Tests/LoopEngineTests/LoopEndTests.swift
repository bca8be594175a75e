import Glibc
import LoopEngine
import Testing

/// What becomes of everything that a loop has when its thread ends.
@Suite struct LoopEndTests {
  final class Witness: Sendable {}

  @Test func itemsOfAnEndedLoopAreInvalidAndReleaseTheirClosures() throws {
    let pipe = Pipe()
    defer { pipe.close() }
    let timers = Log<Loop.Timer>()
    let sources = Log<Loop.Source>()
    let watches = Log<Loop.DescriptorSource>()
    let observers = Log<Loop.Observer>()
    let works = Log<Loop.Work>()
    weak let gone: Witness?
    do {
      let witness = Witness()
      gone = witness
      _ = try onFreshLoop { loop in
        for mode in [Loop.Mode.tests, .common] {
          let timer = Loop.Timer(after: .seconds(1000), repeats: true) { _ in withExtendedLifetime(witness) {} }
          loop.add(timer, to: mode)
          loop.add(timer, to: .other)
          loop.add(timer, to: .default)
          timers.append(timer)
        }
        let source = Loop.Source {}
        loop.add(source)
        source.signal()
        sources.append(source)
        watches.append(try loop.watch(pipe.reading) { _, _ in })
        observers.append(loop.observe(.all) { _, _ in })
        for delay in [Duration.zero, .seconds(1000)] {
          works.append(loop.performCancellable(after: delay, target: witness) { withExtendedLifetime(witness) {} })
        }
        loop.perform { withExtendedLifetime(witness) {} }
        loop.perform(in: .other) { withExtendedLifetime(witness) {} }
        loop.perform(in: []) { withExtendedLifetime(witness) {} }
        loop.performWhenIdle { withExtendedLifetime(witness) {} }
        return 0
      }
    }
    #expect(gone == nil)
    #expect(timers.all.allSatisfy { !$0.isValid })
    #expect(sources.all.allSatisfy { !$0.isValid })
    #expect(watches.all.allSatisfy { !$0.isValid })
    #expect(observers.all.allSatisfy { !$0.isValid })
    #expect(works.all.allSatisfy { !$0.isPending })
    // Late calls change nothing and harm nobody.
    for timer in timers.all {
      timer.nextFireDate = .now
      timer.invalidate()
    }
    sources.all[0].signal()
    watches.all[0].interest = .writable
    works.all[0].cancel()
  }

  @Test func allThatIsAskedOfAnEndedLoopIsRefused() throws {
    let loop = try onFreshLoop { $0 }
    let point = Loop.FlushPoint(on: loop) {}
    point.mark()
    loop.stop()
    loop.wakeUp()
    loop.addCommonMode(.tests)
    loop.cancelWork(for: loop)
    #expect(!loop.perform {})
    #expect(!loop.performWhenIdle {})
    #expect(!loop.performCancellable {}.isPending)
    #expect(!loop.performCancellable(after: .seconds(1)) {}.isPending)
    #expect(!loop.add(Loop.Timer(after: .zero) { _ in }))
    #expect(!loop.add(Loop.Source {}))
    #expect(!loop.add(Loop.Observer(.all) { _, _ in }))
    #expect(throws: LoopError.self) { try loop.watch(0) { _, _ in } }
    #expect(throws: Loop.Ended.self) { try loop.performAndWait {} }
    #expect(loop.hasEnded && !loop.isWaiting && loop.currentMode == nil)
  }

  @Test func aFlushPointMayOutliveItsLoop() throws {
    let points = Log<Loop.FlushPoint>()
    let thread = PermanentThread()
    try thread.start()
    points.append(Loop.FlushPoint(on: try #require(thread.loop)) {})
    thread.stop()
    points.all[0].mark()
  }

  @Test func whatWasMarkedIsFlushedBeforeAThreadEnds() throws {
    let log = Log<String>()
    for _ in 0..<20 {
      let thread = PermanentThread()
      try thread.start()
      let point = Loop.FlushPoint(on: try #require(thread.loop)) { log.append("flushed") }
      thread.perform {
        log.append("written")
        point.mark()
      }
      thread.stop()
    }
    #expect(log.all == Array(repeating: ["written", "flushed"], count: 20).flatMap { $0 })
  }

  @Test func aFlushThatIsAskedForIsReasonEnoughToRun() throws {
    let log = Log<String>()
    let results = try onFreshLoop { loop in
      let point = Loop.FlushPoint(on: loop) { log.append("flushed") }
      point.mark()
      let first = loop.run()
      loop.perform { point.mark() }
      return [first, loop.run()]
    }
    #expect(results == [.finished, .finished])
    #expect(log.all == ["flushed", "flushed"])
  }

  @Test func aLoopUsedWhileItsThreadEndsIsAFreshOneAndEndsAsWell() throws {
    // A destructor of thread-specific data that comes after the loop's own.
    final class Late: Sendable {
      let log = Log<String>()
    }
    let late = Late()
    var key = pthread_key_t()
    pthread_key_create(&key) { raw in
      let late = Unmanaged<Late>.fromOpaque(raw!).takeRetainedValue()
      let loop = Loop.current
      loop.perform { late.log.append("ran") }
      late.log.append("\(loop.hasEnded) \(loop.run())")
    }
    let made = key
    TestThread {
      _ = Loop.current
      pthread_setspecific(made, Unmanaged.passRetained(late).toOpaque())
    }.join()
    // Before the loop's end or after it: it works, or is refused.
    #expect(late.log.all == ["ran", "false finished"] || late.log.all == ["true finished"])
    pthread_key_delete(made)
  }
}
