import Glibc
import LoopEngine
import Testing

/// Runs that end with one source: whatever else the kernel has to say, a ready descriptor is served.
@Suite struct OneSourceTests {
  @Test func aRungTimerDoesNotHideAReadyDescriptor() throws {
    let log = Log<String>()
    let pipe = Pipe()
    defer { pipe.close() }
    let results = try onFreshLoop { loop in
      try loop.watch(pipe.reading) { _, _ in
        pipe.read()
        log.append("descriptor")
      }
      var results: [Loop.RunResult] = []
      for _ in 0..<5 {
        // The kernel's timer is set by a wait that the descriptor ends, and rings outside of any run, before the descriptor is ready again.
        let timer = loop.perform(after: .milliseconds(20)) { _ in log.append("timer") }
        let writer = TestThread {
          while !loop.isWaiting { sleepBriefly() }
          pipe.write()
        }
        results.append(loop.run(mode: .default, before: .distantFuture))
        writer.join()
        usleep(25_000)
        pipe.write()
        results.append(loop.run(mode: .default, for: .zero, returnAfterSourceHandled: true))
        timer.invalidate()
        if results.last != .handledSource { break }
      }
      return results
    }
    #expect(results == Array(repeating: .handledSource, count: 10))
    #expect(log.all.filter { $0 == "timer" }.count == 5)
  }

  @Test func aWakeUpDoesNotHideAReadyDescriptor() throws {
    let log = Log<String>()
    let pipe = Pipe()
    defer { pipe.close() }
    let results = try onFreshLoop { loop in
      try loop.watch(pipe.reading) { _, _ in
        pipe.read()
        log.append("descriptor")
      }
      var results: [Loop.RunResult] = []
      for _ in 0..<50 {
        // The descriptor ends the wait, and the wake-up that comes with it is found by the next look.
        let waker = TestThread {
          while !loop.isWaiting { sleepBriefly() }
          pipe.write()
          loop.wakeUp()
        }
        results.append(loop.run(mode: .default, before: .distantFuture))
        waker.join()
        pipe.write()
        results.append(loop.run(mode: .default, for: .zero, returnAfterSourceHandled: true))
        if results.last != .handledSource { break }
      }
      return results
    }
    #expect(results == Array(repeating: .handledSource, count: 100))
    #expect(log.count == 100)
  }
}
