import Glibc
import LoopEngine
import Testing

/// What closures of a loop may capture, and what they share.
@Suite struct LocalTests {
  final class Counter {
    var count = 0
    func add() { count += 1 }
  }

  /// That it compiles is most of the test.
  @Test func closuresMayCaptureWhatIsNotSendable() throws {
    let log = Log<Int>()
    let pipe = Pipe()
    defer { pipe.close() }
    pipe.write()
    _ = try onFreshLoop { loop in
      let block = Counter()
      loop.perform {
        block.add()
        log.append(block.count)
      }
      let timer = Counter()
      loop.perform(every: .microseconds(1)) {
        timer.add()
        if timer.count < 2 { return }
        $0.invalidate()
        log.append(timer.count)
      }
      let watch = Counter()
      watch.count = 2
      try loop.watch(pipe.reading, repeats: false) { _, _ in
        watch.add()
        log.append(watch.count)
      }
      let observer = Counter()
      observer.count = 3
      loop.observe(.exit, repeats: false) { _, _ in
        observer.add()
        log.append(observer.count)
      }
      let source = Counter()
      source.count = 4
      let signalled = Loop.Source {
        source.add()
        log.append(source.count)
      }
      loop.add(signalled)
      signalled.signal()
      loop.perform(after: .milliseconds(1)) { _ in signalled.invalidate() }
      loop.run()
    }
    #expect(log.all.sorted() == [1, 2, 3, 4, 5])
  }

  @Test func aLocalIsTheLoopsThreadsAlone() throws {
    let thread = PermanentThread()
    try thread.start()
    let counter = Loop.Local(Counter(), on: try #require(thread.loop))
    let number = Loop.Local(0, on: try #require(thread.loop))
    for _ in 0..<3 {
      thread.perform {
        counter.withValue { $0.add() }
        number.value += 2
      }
    }
    #expect(try thread.performAndWait { counter.withValue { $0.count } } == 3)
    #expect(try thread.performAndWait { number.value } == 6)
    thread.stop()
  }

  @Test func aLocalOfAnotherThreadStopsTheProgram() async {
    await #expect(processExitsWith: .failure) {
      let local = Loop.Local(0)
      TestThread { local.value += 1 }.join()
    }
    await #expect(processExitsWith: .failure) {
      let local = Loop.Local(0)
      TestThread { _ = local.value }.join()
    }
    await #expect(processExitsWith: .failure) {
      let local = Loop.Local(0)
      TestThread { local.withValue { $0 = 1 } }.join()
    }
  }

  @Test func aLocalThatIsBeingUsedStopsTheProgram() async {
    await #expect(processExitsWith: .failure) {
      let local = Loop.Local(0)
      local.withValue { outer in
        local.withValue { $0 += 1 }
        outer += 1
      }
    }
  }
}
