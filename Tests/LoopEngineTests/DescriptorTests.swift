import Glibc
import TestSupport
import Testing

@testable import LoopEngine

@Suite struct DescriptorTests {
  @Test func aRegularFileIsRefusedWithDescriptorAndErrnoInWords() throws {
    let file = open("/proc/self/exe", O_RDONLY)
    defer { close(file) }
    let errors = try onFreshLoop { loop -> [LoopError] in
      var errors: [LoopError] = []
      for descriptor in [file, 19_999] {
        do throws(LoopError) { try loop.watch(descriptor) { _, _ in } } catch { errors.append(error) }
      }
      return errors
    }
    #expect(errors.map(\.errorNumber) == [EPERM, EBADF])
    #expect(errors[0].description == "cannot watch descriptor \(file): Operation not permitted (errno 1)")
    #expect(errors[1].descriptor == 19_999)
  }

  @Test func fromAnotherThreadTheRefusalIsThrownAsWell() throws {
    let thread = PermanentThread()
    try thread.start()
    defer { thread.stop() }
    let file = open("/proc/self/exe", O_RDONLY)
    defer { close(file) }
    let loop = try #require(thread.loop)
    #expect(throws: LoopError.self) { try loop.watch(file) { _, _ in } }
  }

  @Test func oneDescriptorHasOneSourceInAMode() throws {
    let pipe = Pipe()
    defer { pipe.close() }
    let numbers = try onFreshLoop { loop -> [Int32] in
      let first = try loop.watch(pipe.reading) { _, _ in }
      var numbers: [Int32] = []
      do throws(LoopError) { try loop.watch(pipe.reading) { _, _ in } } catch { numbers.append(error.errorNumber) }
      first.invalidate()
      try loop.watch(pipe.reading) { _, _ in }
      return numbers
    }
    #expect(numbers == [EEXIST])
  }

  @Test func levelTriggeredUntilItIsRead() throws {
    let pipe = Pipe()
    defer { pipe.close() }
    pipe.write()
    let log = Log<Int>()
    _ = try onFreshLoop { loop in
      try loop.watch(pipe.reading) { source, _ in
        log.append(1)
        if log.count == 3 {
          pipe.read()
          source.invalidate()
        }
      }
      return loop.run()
    }
    #expect(log.count == 3)
  }

  @Test func hangUpAndWritableAreReported() throws {
    let pipe = Pipe()
    let log = Log<Loop.DescriptorSource.Readiness>()
    _ = try onFreshLoop { loop in
      try loop.watch(pipe.writing, for: .writable) { source, readiness in
        log.append(readiness)
        source.invalidate()
        close(pipe.writing)
      }
      try loop.watch(pipe.reading) { source, readiness in
        log.append(readiness)
        source.invalidate()
      }
      return loop.run()
    }
    close(pipe.reading)
    // The end of a pipe can be read, which epoll by itself does not say.
    #expect(log.all == [.writable, [.readable, .hangUp]])
  }

  @Test func interestCanBeChanged() throws {
    let pipe = Pipe()
    defer { pipe.close() }
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      let source = try loop.watch(pipe.writing, for: []) { source, _ in
        log.append("writable")
        source.invalidate()
      }
      loop.perform {
        log.append("block")
        source.interest = .writable
      }
      return loop.run()
    }
    #expect(log.all == ["block", "writable"])
  }

  @Test func aDescriptorClosedWhileWatchedDoesNotDisturbTheLoop() throws {
    let log = Log<Int>()
    let result = try onFreshLoop { loop in
      loop.add(Loop.Source {})
      // Closed, with another descriptor that keeps the file open: the kernel continues to report
      // it, and there is no call to stop that.
      let pipe = Pipe()
      let copy = duplicate(pipe.reading)
      let source = try loop.watch(pipe.reading) { _, _ in log.append(1) }
      let next = Pipe()
      // In one step, as other tests open descriptors meanwhile: the number is closed and is another file at once.
      dup2(next.reading, pipe.reading)
      source.invalidate()
      pipe.write()
      try loop.watch(pipe.reading) { source, _ in
        log.append(2)
        source.invalidate()
        loop.stop()
      }
      next.write()
      let result = loop.run()
      let before = loop.statistics.turns
      loop.run(mode: .default, for: .milliseconds(20))
      // Not spinning.
      #expect(loop.statistics.turns - before < 5)
      next.close()
      close(copy)
      pipe.close()
      return result
    }
    #expect(result == .stopped)
    #expect(log.all == [2])
  }

  @Test func aNestedRunMakesOldReadinessVoid() throws {
    let pipes = [Pipe(), Pipe()]
    defer { for pipe in pipes { pipe.close() } }
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      // Whichever comes first runs the loop, which serves the other; reading twice from one byte would block for ever.
      for (index, pipe) in pipes.enumerated() {
        try loop.watch(pipe.reading) { source, _ in
          log.append("\(index)")
          pipe.read()
          source.invalidate()
          loop.run(mode: .default, for: .zero)
        }
        pipe.write()
      }
      return loop.run()
    }
    #expect(log.all.sorted() == ["0", "1"])
  }

  @Test func readinessFromBeforeANestedRunOfATimerIsVoid() throws {
    let pipe = Pipe()
    defer { pipe.close() }
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      try loop.watch(pipe.reading) { source, _ in
        log.append("read")
        pipe.read()
        source.invalidate()
      }
      // Due in the very pass in which the pipe is found ready.
      loop.add(
        Loop.Timer(at: .now) { _ in
          loop.run(mode: .default, for: .zero)
          log.append("timer")
        })
      pipe.write()
      return loop.run()
    }
    #expect(log.all == ["read", "timer"])
  }

  @Test func aSourceThatEndsItselfLivesUntilItsCallEnds() throws {
    let pipe = Pipe()
    defer { pipe.close() }
    pipe.write()
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      func watch(holding token: Token) throws {
        try loop.watch(pipe.reading) { source, _ in
          source.invalidate()
          loop.run(mode: .default, for: .zero)
          withExtendedLifetime(token) { log.append("still \(source.descriptor == pipe.reading), \(source.isValid)") }
          loop.perform(after: .zero) { _ in log.append("later") }
        }
      }
      try watch(holding: Token { log.append("gone") })
      return loop.run()
    }
    #expect(log.all.count == 3)
    #expect(log.all.first?.hasPrefix("still true, false") == true)
    #expect(log.all.dropFirst() == ["gone", "later"])
  }

  @Test func aSourceThatANestedRunEndsLivesUntilItsCallEnds() throws {
    let pipes = [Pipe(), Pipe()]
    defer { for pipe in pipes { pipe.close() } }
    pipes[0].write()
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      let outer = Log<Loop.DescriptorSource>()
      func watch(holding token: Token) throws {
        outer.append(
          try loop.watch(pipes[0].reading) { source, _ in
            pipes[0].read()
            pipes[1].write()
            // A timer's callout has a nested run of its own, after which the outer call is still the outer one.
            loop.add(Loop.Timer(at: .now) { _ in loop.run(mode: .default, for: .zero) })
            loop.run(mode: .default, for: .milliseconds(20))
            withExtendedLifetime(token) {
              log.append("still \(source.descriptor == pipes[0].reading), \(source.isValid)")
            }
          })
      }
      try watch(holding: Token { log.append("gone") })
      try loop.watch(pipes[1].reading) { source, _ in
        pipes[1].read()
        source.invalidate()
        for source in outer.takeAll() { source.invalidate() }
        log.append("ended")
      }
      return loop.run()
    }
    #expect(log.all == ["ended", "still true, false", "gone"])
  }

  @Test func anEventThatOutlivesItsSourceIsDropped() throws {
    let ready = (0..<8).map { _ in Pipe() }
    let silent = (0..<8).map { _ in Pipe() }
    defer { for pipe in ready + silent { pipe.close() } }
    for pipe in ready { pipe.write() }
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      let sources = Log<Loop.DescriptorSource>()
      // All are ready in one answer of the kernel's; the first to be called ends all. New ones may well be where those were.
      for pipe in ready {
        sources.append(
          try loop.watch(pipe.reading) { _, _ in
            log.append("old")
            for source in sources.takeAll() { source.invalidate() }
            for pipe in silent { _ = try? loop.watch(pipe.reading) { _, _ in log.append("new") } }
          })
      }
      return loop.run(mode: .default, for: .milliseconds(20))
    }
    #expect(log.all == ["old"])
  }

  /// How a source that is ready is kept from being called by another one, which is called before it.
  enum Prevention: CaseIterable {
    case invalidation, invalidationOnAnotherThread, interest, interestOnAnotherThread

    func apply(to source: Loop.DescriptorSource) {
      switch self {
      case .invalidation: source.invalidate()
      case .invalidationOnAnotherThread: TestThread { source.invalidate() }.join()
      case .interest: source.interest = []
      case .interestOnAnotherThread: TestThread { source.interest = [] }.join()
      }
    }
  }

  @Test(arguments: Prevention.allCases)
  func eventsFromBeforeASourceChangedDoNotCount(_ prevention: Prevention) throws {
    let pipes = [Pipe(), Pipe()]
    defer { for pipe in pipes { pipe.close() } }
    for pipe in pipes { pipe.write() }
    let calls = Log<Int32>()
    _ = try onFreshLoop { loop in
      let sources = Log<Loop.DescriptorSource>()
      // Both are ready in one answer of the kernel's.
      for pipe in pipes {
        sources.append(
          try loop.watch(pipe.reading) { source, _ in
            calls.append(source.descriptor)
            pipe.read()
            for other in sources.all where other.descriptor != pipe.reading { prevention.apply(to: other) }
          })
      }
      return loop.run(mode: .default, for: .milliseconds(5))
    }
    #expect(calls.count == 1)
  }

  @Test func aSourceKnowsItsDescriptorWhereverItIsAsked() throws {
    let pipes = [Pipe(), Pipe()]
    defer { for pipe in pipes { pipe.close() } }
    let seen = Log<[Int32]>()
    _ = try onFreshLoop { loop in
      let first = try loop.watch(pipes[0].reading) { source, _ in
        let before = source.descriptor
        pipes[0].read()
        pipes[1].write()
        loop.run(mode: .default, for: .milliseconds(5))
        source.invalidate()
        seen.append([before, source.descriptor])
      }
      try loop.watch(pipes[1].reading) { source, _ in
        pipes[1].read()
        let elsewhere = Log<Int32>()
        TestThread { elsewhere.append(source.descriptor) }.join()
        source.invalidate()
        seen.append([source.descriptor, elsewhere.all[0], first.descriptor])
      }
      pipes[0].write()
      return loop.run()
    }
    let numbers = pipes.map(\.reading)
    #expect(seen.all == [[numbers[1], numbers[1], numbers[0]], [numbers[0], numbers[0]]])
  }

  @Test(arguments: [0, 65_535, 65_536, .max] as [Int32])
  func aSourceMayHaveAnyNumber(_ number: Int32) {
    var table = DescriptorTable()
    let source = Loop.DescriptorSource(number) { _, _ in }
    table.insert(source)
    // A process seldom may have so high ones.
    #expect(table.find(source.token)?.entry.pointee.callee.descriptor == number)
    table.remove(source)
  }

  @Test func aCallSaysWhereItsSourceWasMade() throws {
    let pipe = Pipe()
    defer { pipe.close() }
    pipe.write()
    let log = Log<Loop.Callout?>()
    let line: UInt32 = #line + 2
    _ = try onFreshLoop { loop in
      try loop.watch(pipe.reading, name: "requests") { source, _ in
        log.append(loop.snapshot.callout)
        source.invalidate()
      }
      return loop.run()
    }
    let callout = log.all.first ?? nil
    #expect(callout?.kind == .descriptor)
    #expect(callout?.fileID == "LoopEngineTests/DescriptorTests.swift")
    #expect(callout?.line == line)
    #expect(callout?.name == "requests")
  }

  @Test func aWatchFromAnotherThreadThatFailsLaterIsReported() throws {
    let pipe = Pipe()
    defer { pipe.close() }
    let (isValid, error) = try onFreshLoop { loop -> (Bool, LoopError?) in
      try loop.watch(pipe.reading) { _, _ in }
      let second = Loop.DescriptorSource(pipe.reading) { _, _ in }
      TestThread { try? loop.add(second) }.join()
      loop.run(mode: .default, for: .zero)
      return (second.isValid, second.error)
    }
    #expect(!isValid)
    #expect(error?.errorNumber == EEXIST)
  }

  @Test func noTwoSourcesInARowHaveTheSameToken() {
    var table = DescriptorTable()
    var tokens: Set<UInt64> = []
    // One entry, used repeatedly.
    for _ in 0..<8192 {
      let source = Loop.DescriptorSource(7) { _, _ in }
      table.insert(source)
      #expect(table.find(source.token)?.source === source)
      #expect(source.token & Poller.tagBits == 0 && source.token >= Poller.firstSourceToken)
      tokens.insert(source.token)
      table.remove(source)
    }
    #expect(tokens.count == 8192)
    #expect(tokens.allSatisfy { table.find($0) == nil })
  }

  @Test func manySourcesComeAndGo() throws {
    let pipe = Pipe()
    defer { pipe.close() }
    pipe.write()
    let freed = Log<Int>()
    let calls = Log<Int>()
    _ = try onFreshLoop { loop in
      // More than one block of the loop's table, in every order of leaving.
      for round in 0..<3 {
        let copies = (0..<300).map { _ in duplicate(pipe.reading) }
        var sources = try copies.map { descriptor in
          let token = Token { freed.append(1) }
          return try loop.watch(descriptor) { source, _ in
            withExtendedLifetime(token) { calls.append(source.descriptor == descriptor ? round : -1) }
          }
        }
        // At most 64 at a time are reported.
        for _ in 0..<20 { loop.run(mode: .default, for: .zero) }
        while let source = sources.indices.randomElement().map({ sources.remove(at: $0) }) { source.invalidate() }
        for descriptor in copies { close(descriptor) }
      }
      return loop.run(mode: .default, for: .zero)
    }
    #expect(freed.count == 900)
    #expect(Set(calls.all) == [0, 1, 2])
  }

  @Test func aWatchThatANumberWasTakenFromDoesNotOutliveItsSource() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      loop.add(Loop.Source {})
      let (first, second) = (Pipe(), Pipe())
      let number = duplicate(first.reading)
      let early = try loop.watch(number) { _, _ in log.append("early") }
      // Another file under the number, and then the first one again.
      dup2(second.reading, number)
      func watchSecond() throws {
        let late = try loop.watch(number) { _, _ in log.append("late") }
        dup2(first.reading, number)
        // Ends the early one's watch, for all that the kernel knows.
        late.invalidate()
      }
      try watchSecond()
      second.write()
      loop.run(mode: .default, for: .milliseconds(20))
      early.invalidate()
      close(number)
      first.close()
      second.close()
    }
    #expect(log.all.isEmpty)
  }

  @Test func modesHaveTheirOwnDescriptors() throws {
    let pipe = Pipe()
    defer { pipe.close() }
    pipe.write()
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      try loop.watch(pipe.reading, in: .tests) { source, _ in
        log.append(loop.currentMode?.name ?? "none")
        source.invalidate()
      }
      loop.add(Loop.Source {})
      loop.run(mode: .default, for: .milliseconds(2))
      log.append("default ended")
      return loop.run(mode: .tests, for: .seconds(10))
    }
    #expect(log.all == ["default ended", "tests"])
  }

  @Test func withOneSourceARunReadyDescriptorsAreServedInTurn() throws {
    let pipes = (0..<3).map { _ in Pipe() }
    defer { for pipe in pipes { pipe.close() } }
    let log = Log<Int>()
    _ = try onFreshLoop { loop in
      for (index, pipe) in pipes.enumerated() {
        try loop.watch(pipe.reading) { _, _ in log.append(index) }
        pipe.write()
      }
      for _ in 0..<6 where loop.run(mode: .default, before: .distantFuture) != .handledSource { log.append(-1) }
      return 0
    }
    #expect(log.count == 6)
    #expect(Set(log.all.prefix(3)) == [0, 1, 2])
    #expect(Set(log.all.suffix(3)) == [0, 1, 2])
  }
}

@Suite struct ReadyMadeSourceTests {
  @Test func aSignalIsAnEvent() throws {
    let log = Log<Loop.SignalSource.Delivery>()
    _ = try onFreshLoop { loop in
      let source = try Loop.SignalSource([SIGUSR2]) { delivery in
        log.append(delivery)
        loop.stop()
      }
      try loop.add(source)
      // To this thread: the others of this process don't block it.
      pthread_kill(pthread_self(), SIGUSR2)
      return loop.run()
    }
    #expect(log.all.map(\.signal) == [SIGUSR2])
    #expect(log.all[0].sender == getpid())
  }

  @Test func aChildsExitIsAnEvent() throws {
    let log = Log<Loop.ChildSource.Status>()
    _ = try onFreshLoop { loop in
      for command in ["exit 7", "kill -9 $$"] {
        var child: pid_t = 0
        var arguments: [UnsafeMutablePointer<CChar>?] = [strdup("sh"), strdup("-c"), strdup(command), nil]
        #expect(posix_spawn(&child, "/bin/sh", nil, nil, &arguments, environ) == 0)
        for argument in arguments { free(argument) }
        try loop.add(Loop.ChildSource(child) { log.append($0) })
        loop.run()
      }
      return 0
    }
    #expect(log.all == [.exited(7), .signalled(9)])
    #expect(log.all.map(\.exitCode) == [7, nil] && log.all.map(\.signal) == [nil, 9])
    #expect(throws: LoopError.self) { try Loop.ChildSource(2_000_000_000) { _ in } }
  }

  @Test func aCounterGivesItsSum() throws {
    let log = Log<UInt64>()
    _ = try onFreshLoop { loop in
      let counter = try Loop.CounterSource { log.append($0) }
      try loop.add(counter)
      counter.add(40)
      counter.add(2)
      return loop.run(mode: .default, before: .distantFuture)
    }
    #expect(log.all == [42])
  }

  @Test func aChangedFileIsAnEvent() throws {
    let scratch = try ScratchDirectory()
    let path = scratch.path
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      let source = try Loop.FileChangeSource(path, for: [.created, .deleted]) { change, name in
        log.append("\(change == .created ? "created" : "deleted") \(name ?? "")")
        if change == .deleted { loop.stop() }
      }
      try loop.add(source)
      close(creat("\(path)/file", 0o600))
      unlink("\(path)/file")
      return loop.run()
    }
    #expect(log.all == ["created file", "deleted file"])
    #expect(throws: LoopError.self) { try Loop.FileChangeSource("/nowhere", for: .modified) { _, _ in } }
  }
}
