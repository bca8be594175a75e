import Glibc
import LoopEngine
import TestSupport
import Testing

/// What libuv's and libdispatch's suites ask of forks, signals and children.
@Suite struct PortedProcessTests {
  /// Runs passes until a condition holds, for a minute at most.
  private static func run(_ loop: Loop, until condition: () -> Bool) -> Bool {
    eventually {
      loop.run(mode: .default, for: .milliseconds(1))
      return condition()
    }
  }

  /// libuv: fork_timer.
  @Test func timersFireInTheParentAndInTheChild() async {
    await #expect(processExitsWith: .success) {
      let loop = Loop.current
      let log = Log<Int>()
      loop.perform(after: .zero) { _ in log.append(1) }
      loop.run()
      loop.perform(after: .milliseconds(1)) { _ in log.append(2) }
      let child = forkProcess()
      loop.perform(after: .microseconds(100)) { _ in log.append(child == 0 ? 3 : 4) }
      let result = loop.run()
      guard result == .finished, log.all.sorted() == [1, 2, child == 0 ? 3 : 4] else { _exit(1) }
      if child == 0 { _exit(0) }
      exit(succeeds(child) ? 0 : 2)
    }
  }

  /// libuv: fork_socketpair.
  @Test func aSourceThatTheParentMadeIsAddedByTheChild() async {
    await #expect(processExitsWith: .success) {
      let loop = Loop.current
      let pipe = Pipe()
      let log = Log<Int>()
      let source = Loop.DescriptorSource(pipe.reading) { source, _ in
        log.append(1)
        source.invalidate()
      }
      loop.run(mode: .default, for: .zero)
      let child = forkProcess()
      if child == 0 {
        guard (try? loop.add(source)) != nil, loop.run() == .finished else { _exit(1) }
        _exit(log.count == 1 ? 0 : 2)
      }
      pipe.write()
      guard succeeds(child) else { exit(1) }
      exit(source.isValid && log.count == 0 && loop.run() == .finished ? 0 : 2)
    }
  }

  /// libuv: fork_socketpair_started.
  @Test func theEndOfAWatchInTheParentIsNotItsEndInTheChild() async {
    await #expect(processExitsWith: .success) {
      let loop = Loop.current
      let (pipe, gate) = (Pipe(), Pipe())
      let log = Log<Int>()
      guard
        let source = try? loop.watch(
          pipe.reading,
          body: { source, _ in
            pipe.read()
            log.append(1)
            source.invalidate()
          })
      else { exit(1) }
      loop.run(mode: .default, for: .zero)
      let child = forkProcess()
      if child == 0 {
        gate.read()
        _exit(loop.run() == .finished && log.count == 1 ? 0 : 1)
      }
      source.invalidate()
      guard loop.run() == .finished else { exit(2) }
      gate.write()
      pipe.write()
      guard succeeds(child) else { exit(3) }
      exit(loop.run() == .finished && log.count == 0 ? 0 : 4)
    }
  }

  /// libuv: fork_signal_to_child_closed.
  @Test func aSignalToAChildThatDoesNotRunItsLoopHasNoReceiver() async {
    await #expect(processExitsWith: .success) {
      let loop = Loop.current
      let log = Log<Int32>()
      guard let source = try? Loop.SignalSource([SIGUSR1], body: { log.append($0.sender) }) else { exit(1) }
      try? loop.add(source)
      loop.run(mode: .default, for: .zero)
      let (ready, gate) = (Pipe(), Pipe())
      let child = forkProcess()
      if child == 0 {
        ready.write()
        gate.read()
        _exit(log.count == 0 ? 0 : 1)
      }
      ready.read()
      kill(child, SIGUSR1)
      loop.run(mode: .default, for: .milliseconds(5))
      gate.write()
      exit(succeeds(child) && log.count == 0 ? 0 : 2)
    }
  }

  /// libuv: fork_close_signal_in_child.
  @Test func aSignalThatIsPendingAtTheForkIsTheParentsAlone() async {
    await #expect(processExitsWith: .success) {
      let loop = Loop.current
      let log = Log<Int32>()
      guard let source = try? Loop.SignalSource([SIGHUP], body: { log.append($0.signal) }) else { exit(1) }
      try? loop.add(source)
      // To this thread: the others of this process don't block it.
      pthread_kill(pthread_self(), SIGHUP)
      let child = forkProcess()
      if child == 0 {
        loop.run(mode: .default, for: .milliseconds(5))
        source.invalidate()
        _exit(loop.run() == .finished && log.count == 0 ? 0 : 1)
      }
      guard PortedProcessTests.run(loop, until: { log.count == 1 }) else { exit(2) }
      source.invalidate()
      exit(loop.run() == .finished && succeeds(child) && log.all == [SIGHUP] ? 0 : 3)
    }
  }

  /// libuv: fork_fs_events_file_parent_child.
  @Test func aFileThatTheParentWatchesIsWatchedByTheChild() async {
    await #expect(processExitsWith: .success) {
      var template = Array("/tmp/loop-tests-XXXXXX".utf8CString)
      guard let directory = mkdtemp(&template).map({ String(cString: $0) }) else { exit(1) }
      defer { rmdir(directory) }
      let loop = Loop.current
      let log = Log<String?>()
      guard let source = try? Loop.FileChangeSource(directory, for: .created, body: { log.append($1) }),
        (try? loop.add(source)) != nil
      else { exit(2) }
      loop.run(mode: .default, for: .zero)
      let child = forkProcess()
      if child == 0 {
        loop.perform(after: .milliseconds(1)) { _ in mkdir("\(directory)/entry", 0o700) }
        _exit(PortedProcessTests.run(loop, until: { log.count == 1 }) && log.all == ["entry"] ? 0 : 1)
      }
      let isWell = succeeds(child)
      rmdir("\(directory)/entry")
      rmdir(directory)
      exit(isWell ? 0 : 3)
    }
  }

  /// Ours, in the place of libuv's fork_threadpool_queue_work_simple: there are no threads to hand
  /// work to.
  @Test func blocksThatWereThereAtTheForkRunOnceInEachProcess() async {
    await #expect(processExitsWith: .success) {
      let loop = Loop.current
      let log = Log<String>()
      loop.perform { log.append("block") }
      TestThread { loop.perform { log.append("other thread's") } }.join()
      let source = Loop.Source { log.append("source") }
      loop.add(source)
      source.signal()
      loop.performCancellable { log.append("work") }
      loop.performWhenIdle { log.append("idle") }
      let child = forkProcess()
      loop.perform { source.invalidate() }
      for _ in 0..<5 { loop.run(mode: .default, for: .zero) }
      let isWell = log.all.sorted() == ["block", "idle", "other thread's", "work"]
      if child == 0 { _exit(isWell ? 0 : 1) }
      exit(isWell && succeeds(child) ? 0 : 2)
    }
  }

  /// libuv: we_get_signal.
  ///
  /// There a stopped handle misses signals; here the signal stays blocked, and waits.
  @Test func aSignalThatComesWhileItsSourceIsRemovedIsDeliveredWhenItIsBack() throws {
    let log = Log<Int32>()
    _ = try onFreshLoop { loop in
      loop.add(Loop.Source {})
      let source = try Loop.SignalSource([SIGIO]) { log.append($0.signal) }
      try loop.add(source)
      for round in 1...10 {
        pthread_kill(pthread_self(), SIGIO)
        #expect(Self.run(loop) { log.count == round })
      }
      loop.remove(source)
      // Those that are pending together are one.
      for _ in 0..<10 {
        pthread_kill(pthread_self(), SIGIO)
        loop.run(mode: .default, for: .zero)
      }
      #expect(log.count == 10)
      try loop.add(source)
      #expect(Self.run(loop) { log.count == 11 })
      loop.run(mode: .default, for: .milliseconds(1))
    }
    #expect(log.count == 11)
  }

  /// libuv: we_get_signal_one_shot.
  @Test func aSourceThatEndsInItsCallIsOfOneSignalAlone() throws {
    let once = Log<Int32>()
    let every = Log<Int32>()
    _ = try onFreshLoop { loop in
      let holder = Log<Loop.SignalSource>()
      holder.append(
        try Loop.SignalSource([SIGWINCH]) {
          once.append($0.signal)
          holder.all[0].invalidate()
        })
      try loop.add(holder.all[0])
      try loop.add(Loop.SignalSource([SIGWINCH]) { every.append($0.signal) })
      for round in 1...5 {
        pthread_kill(pthread_self(), SIGWINCH)
        #expect(Self.run(loop) { every.count == round })
      }
    }
    #expect(once.count == 1)
    #expect(every.count == 5)
  }

  /// libuv: signal_pending_on_close.
  @Test func aBrokenPipesSignalIsAnEventAndNoneOnceItsSourceHasEnded() throws {
    let log = Log<Int32>()
    let result = try onFreshLoop { loop in
      let pipe = Pipe()
      close(pipe.reading)
      let source = try Loop.SignalSource([SIGPIPE]) { log.append($0.signal) }
      try loop.add(source)
      pipe.write()
      #expect(Self.run(loop) { log.count == 1 })
      pipe.write()
      source.invalidate()
      close(pipe.writing)
      return loop.run()
    }
    #expect(result == .finished)
    #expect(log.all == [SIGPIPE])
  }

  /// libdispatch: dispatch_proc.
  ///
  /// There each source of a process reports its exit; here one takes the status, and the others
  /// report that it was taken.
  @Test func ofSeveralSourcesOfAChildOneHasItsStatus() throws {
    let log = Log<Loop.ChildSource.Status>()
    let result = try onFreshLoop { loop in
      var child: pid_t = 0
      var arguments: [UnsafeMutablePointer<CChar>?] = [strdup("sh"), strdup("-c"), strdup("exit 5"), nil]
      posix_spawn(&child, "/bin/sh", nil, nil, &arguments, environ)
      for argument in arguments { free(argument) }
      let sources = try (0..<3).map { _ in try Loop.ChildSource(child) { log.append($0) } }
      for source in sources { try loop.add(source) }
      let result = loop.run()
      #expect(sources.allSatisfy { !$0.isValid })
      return result
    }
    #expect(result == .finished)
    #expect(log.all == [.exited(5), .unknown, .unknown])
  }
}
