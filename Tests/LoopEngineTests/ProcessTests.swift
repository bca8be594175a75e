import Glibc
import Testing
import VictimC

@testable import LoopEngine

/// What needs a process of its own: exit tests.
@Suite struct ProcessTests {
  @Test func withoutDescriptorsTheErrorIsReportedAndTheRestWorks() async {
    await #expect(processExitsWith: .success) {
      let pipe = Pipe()
      // Whatever was inherited lies below.
      let free = dup(0)
      var limit = rlimit(rlim_cur: rlim_t(free) + 20, rlim_max: rlim_t(free) + 20)
      setrlimit(__rlimit_resource_t(UInt32(RLIMIT_NOFILE.rawValue)), &limit)
      while dup(0) >= 0 {}
      let thread = TestThread {
        let loop = Loop.current
        do throws(LoopError) {
          try loop.watch(pipe.reading) { _, _ in }
          exit(10)
        } catch {
          guard error.errorNumber == EMFILE, error.description.contains("Too many open files") else { exit(11) }
        }
        // Timers, blocks and wake-ups need no descriptor.
        var steps = 0
        let counter = Log<Int>()
        loop.perform(after: .milliseconds(5)) { _ in
          counter.append(1)
          TestThread { loop.perform { counter.append(2) } }.join()
        }
        _ = loop.run()
        steps = counter.count
        if steps != 2 { exit(12) }
        // Once there are descriptors again, they are used.
        for descriptor in free..<free + 20 { close(descriptor) }
        do throws(LoopError) {
          try loop.watch(pipe.reading) { _, _ in exit(0) }
        } catch {
          exit(13)
        }
        pipe.write()
        loop.run()
        exit(14)
      }
      thread.join()
      exit(15)
    }
  }

  @Test func theChildOfAForkHasItsOwnEvents() async {
    await #expect(processExitsWith: .success) {
      let loop = Loop.current
      let pipe = Pipe()
      let log = Log<String>()
      _ = try? loop.watch(pipe.reading) { source, _ in
        pipe.read()
        log.append("parent")
        source.invalidate()
        loop.stop()
      }
      loop.perform(after: .zero) { _ in loop.stop() }
      loop.run()
      let child = forkProcess()
      if child == 0 {
        // The child's own timer and watch; the parent's epoll instance must not hear of them.
        let own = Pipe()
        guard (try? loop.watch(own.reading, body: { _, _ in _exit(0) })) != nil else { _exit(1) }
        loop.perform(after: .milliseconds(1)) { _ in own.write() }
        loop.run()
        _exit(2)
      }
      var status: Int32 = 0
      waitpid(child, &status, 0)
      guard status == 0 else { exit(20) }
      pipe.write()
      guard loop.run() == .stopped, log.all == ["parent"] else { exit(21) }
      exit(0)
    }
  }

  @Test func whatTheChildOfAForkWatchesIsNotTheParentsBeforeItRuns() async {
    await #expect(processExitsWith: .success) {
      let loop = Loop.current
      let (pipe, shared) = (Pipe(), Pipe())
      let log = Log<String>()
      let source = try? loop.watch(pipe.reading) { _, _ in
        pipe.read()
        log.append("parent")
      }
      loop.run(mode: .default, for: .zero)
      let ready = Pipe()
      let child = forkProcess()
      if child == 0 {
        // Ends the inherited watch, and watches what the parent has open, too; but never runs.
        source?.invalidate()
        guard (try? loop.watch(shared.reading, body: { _, _ in })) != nil else { _exit(1) }
        ready.write()
        while true { pause() }
      }
      ready.read()
      shared.write()
      pipe.write()
      loop.run(mode: .default, for: .milliseconds(20))
      kill(child, SIGKILL)
      waitpid(child, nil, 0)
      exit(log.all == ["parent"] ? 0 : 22)
    }
  }

  @Test func theChildOfAForkDoesNotTouchReusedNumbers() async {
    await #expect(processExitsWith: .success) {
      let loop = Loop.current
      let pipe = Pipe()
      guard (try? loop.watch(pipe.reading, body: { _, _ in })) != nil else { exit(1) }
      loop.perform(after: .seconds(1000)) { _ in }
      // A pass that waits, so that all descriptors are made.
      while loop.timerDescriptor < 0 { loop.run(mode: .default, for: .milliseconds(5)) }
      let own =
        [loop.inbox.wakeDescriptor.load(ordering: .relaxed), loop.timerDescriptor]
        + loop.modes.compactMap { $0?.poller.epoll }
      guard own.count == 3, own.allSatisfy({ $0 >= 0 }) else { exit(2) }
      let child = forkProcess()
      if child == 0 {
        // As a program does that closes all it does not know and opens its own.
        for number in own { dup2(pipe.writing, number) }
        loop.run(mode: .default, for: .milliseconds(5))
        _exit(own.allSatisfy { write($0, "x", 1) == 1 } ? 0 : 3)
      }
      var status: Int32 = 0
      waitpid(child, &status, 0)
      exit(status == 0 ? 0 : 4)
    }
  }

  @Test func theChildOfAForkHasItsOwnSignalsTimersAndChildren() async {
    await #expect(processExitsWith: .success) {
      let loop = Loop.current
      let log = Log<String>()
      guard let signals = try? Loop.SignalSource([SIGUSR1], body: { _ in log.append("signal") }) else { exit(1) }
      try? loop.add(signals)
      loop.perform(after: .milliseconds(1)) { _ in log.append("timer") }
      // Made by the parent, whose epoll instance has heard of nothing but its own.
      loop.run(mode: .default, for: .zero)
      let child = forkProcess()
      if child == 0 {
        kill(getpid(), SIGUSR1)
        let end = Loop.Instant.now.advanced(by: .seconds(20))
        while log.count < 2 && Loop.Instant.now < end { loop.run(mode: .default, for: .milliseconds(5)) }
        if log.all.sorted() != ["signal", "timer"] { _exit(7) }
        // The thread sanitizer has no threads after a fork.
        if dlsym(nil, "__tsan_init") != nil { _exit(0) }
        // A thread of the child's wakes the child's loop.
        let thread = TestThread {
          while !loop.isWaiting { sleepBriefly() }
          loop.perform { loop.stop() }
        }
        let result = loop.run(mode: .default, for: .seconds(20))
        thread.join()
        _exit(result == .stopped ? 0 : 8)
      }
      guard let ended = try? Loop.ChildSource(child, body: { log.append("\($0)") }) else { exit(2) }
      try? loop.add(ended)
      let end = Loop.Instant.now.advanced(by: .seconds(30))
      while log.count < 2 && Loop.Instant.now < end { loop.run(mode: .default, for: .milliseconds(20)) }
      // The child's signal was the child's.
      exit(log.all.sorted() == ["exited with code 0", "timer"] ? 0 : 3)
    }
  }

  @Test func aProgramThatClosesAllDescriptorsDoesNotMakeItsLoopSpin() async {
    await #expect(processExitsWith: .success) {
      let log = Log<String>()
      let kept = Pipe()
      let poster = Log<TestThread>()
      TestThread {
        let loop = Loop.current
        loop.perform(after: .milliseconds(50)) { _ in
          log.append("timer")
          poster.append(
            TestThread {
              while !loop.isWaiting { sleepBriefly() }
              loop.perform {
                log.append("post")
                kept.write()
              }
            })
        }
        _ = try? loop.watch(kept.reading) { source, _ in
          log.append("descriptor")
          source.invalidate()
        }
        // A pass, so that all descriptors are made.
        loop.run(mode: .default, for: .milliseconds(1))
        let own = [loop.inbox.wakeDescriptor.load(ordering: .relaxed), loop.timerDescriptor]
        for descriptor in own + loop.modes.compactMap({ $0?.poller.epoll }) { close(descriptor) }
        let passes = Log<Int>()
        loop.observe(.beforeTimers) { _, _ in passes.append(1) }
        guard loop.run(mode: .default, for: .seconds(20)) == .finished else { exit(1) }
        for thread in poster.all { thread.join() }
        exit(log.all == ["timer", "post", "descriptor"] && passes.count < 20 ? 0 : 2)
      }.join()
    }
  }

  @Test func aRunEndsWhoseLastDescriptorWasClosedWithTheLoopsOwn() async {
    await #expect(processExitsWith: .success) {
      let pipe = Pipe()
      TestThread {
        let loop = Loop.current
        guard let source = try? loop.watch(pipe.reading, body: { _, _ in }) else { exit(1) }
        loop.run(mode: .default, for: .milliseconds(1))
        let own = [loop.inbox.wakeDescriptor.load(ordering: .relaxed)] + loop.modes.compactMap { $0?.poller.epoll }
        for descriptor in own + [pipe.reading] { close(descriptor) }
        // It would sleep for ever for a watch that has gone.
        guard loop.run() == .finished else { exit(2) }
        exit(source.error != nil ? 0 : 3)
      }.join()
    }
  }

  @Test func threadsWithLoopsLeakNoMemoryAndNoDescriptors() async {
    await #expect(processExitsWith: .success) {
      // Each uses all that a loop allocates: a post, a timer, a watch, an observer, a mode of its own.
      func comeAndGo(_ count: Int) {
        let pipe = Pipe()
        for _ in 0..<count / 25 {
          let threads = (0..<25).map { _ in
            TestThread {
              let loop = Loop.current
              _ = try? loop.watch(pipe.reading) { _, _ in }
              loop.observe(.all) { _, _ in }
              loop.add(Loop.Source {}, to: .tests)
              loop.perform(every: .seconds(1000)) { _ in }
              loop.perform(after: .microseconds(10)) { _ in loop.stop() }
              loop.perform {}
              loop.run()
            }
          }
          for thread in threads { thread.join() }
        }
        pipe.close()
      }
      func openDescriptors() -> Int { (0..<4096).count { fcntl(Int32($0), F_GETFD) >= 0 } }
      // What is made once in a process, and the thread stacks that the C library keeps.
      comeAndGo(500)
      let descriptors = openDescriptors()
      let before = Int(victim_bytes_in_use())
      comeAndGo(2500)
      let grown = Int(victim_bytes_in_use()) - before
      // The smallest object would be 32 bytes for each thread, 80 000 in all.
      guard grown < 40_000 else {
        print("memory in use grew by", grown, "bytes")
        exit(30)
      }
      guard openDescriptors() == descriptors else { exit(31) }
      print("memory in use grew by", grown, "bytes")
      exit(0)
    }
  }

  @Test func theMemoryOfABurstOfPostsIsGivenBack() async {
    await #expect(processExitsWith: .success) {
      let loop = Loop.current
      loop.run(mode: .default, for: .zero)
      let before = victim_resident_kib()
      // In the current mode, and in one that the loop comes to later.
      for (mode, count) in [(Loop.Mode.common, 2_000_000), (.tests, 500_000), (.common, 100_000)] {
        TestThread { for _ in 0..<count { loop.perform(in: mode) {} } }.join()
        loop.run(mode: .default, for: .zero)
        loop.run(mode: .tests, for: .zero)
        if mode == .common, loop.run() != .finished { exit(1) }
      }
      let grown = (victim_resident_kib() - before) * 1024 / 1_000_000
      print("grown by", grown, "MB")
      exit(grown < 20 ? 0 : 2)
    }
  }

  @Test func aRunOnAnotherThreadThanTheLoopsIsRefused() async {
    await #expect(processExitsWith: .failure) {
      let loop = try onFreshLoop { $0 }
      loop.run()
    }
  }
}
