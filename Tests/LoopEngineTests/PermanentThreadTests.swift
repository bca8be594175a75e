import Glibc
import LoopEngine
import Synchronization
import TestSupport
import Testing

@Suite struct PermanentThreadTests {
  @Test func itServesUntilItIsStopped() throws {
    let thread = PermanentThread(name: "worker")
    #expect(!thread.isRunning)
    #expect(!thread.perform {})
    try thread.start()
    let log = Log<Int>()
    for number in 0..<100 { thread.perform { log.append(number) } }
    thread.stop()
    // What was posted before the stop has run.
    #expect(log.all == Array(0..<100))
    #expect(!thread.isRunning)
    #expect(!thread.perform {})
  }

  @Test func stopMayBeCalledTwiceAndFromSeveralThreads() throws {
    let thread = PermanentThread()
    try thread.start()
    let others = (0..<4).map { _ in TestThread { thread.stop() } }
    thread.stop()
    thread.stop()
    for other in others { other.join() }
    #expect(!thread.isRunning)
  }

  @Test func stopFromTheThreadItself() throws {
    let thread = PermanentThread()
    try thread.start()
    let loop = try #require(thread.loop)
    thread.perform { thread.stop() }
    while !loop.hasEnded { sleepBriefly() }
    thread.stop()
    #expect(!thread.isRunning)
  }

  @Test func itStartsAgainAfterAStop() throws {
    let thread = PermanentThread()
    let log = Log<Int32>()
    for _ in 0..<3 {
      try thread.start()
      try thread.start()
      thread.perform { log.append(Loop.current.threadID) }
      thread.stop()
    }
    #expect(log.count == 3)
  }

  @Test func aStopOfItsLoopDoesNotEndIt() throws {
    let thread = PermanentThread()
    try thread.start()
    let log = Log<Int>()
    thread.perform { Loop.current.stop() }
    thread.perform { log.append(1) }
    while log.count == 0 { sleepBriefly() }
    #expect(thread.isRunning)
    thread.stop()
  }

  @Test func startsFromSeveralThreadsAreOneThread() throws {
    for _ in 0..<20 {
      let thread = PermanentThread()
      let identities = Log<Int32>()
      let starters = (0..<4).map { _ in
        TestThread {
          try? thread.start()
          thread.perform { identities.append(Loop.current.threadID) }
        }
      }
      for starter in starters { starter.join() }
      thread.stop()
      #expect(identities.count == 4)
      #expect(Set(identities.all).count == 1)
    }
  }

  @Test func startsAndStopsInAnyOrderOnAnyThreadLeaveItStopped() throws {
    let thread = PermanentThread()
    let users = (0..<4).map { number in
      TestThread {
        for step in 0..<50 {
          if (step + number) % 3 == 0 { thread.stop() } else { try? thread.start() }
          thread.perform { if step % 7 == 0 { thread.stop() } }
        }
      }
    }
    for user in users { user.join() }
    thread.stop()
    #expect(!thread.isRunning && !thread.perform {})
  }

  @Test func itStartsAgainFromItsOwnThreadAfterAStopThere() throws {
    let thread = PermanentThread()
    try thread.start()
    let log = Log<Int32>()
    let first = try #require(thread.loop)
    thread.perform {
      log.append(Loop.current.threadID)
      thread.stop()
      try? thread.start()
      thread.perform { log.append(Loop.current.threadID) }
    }
    while log.count < 2 { sleepBriefly() }
    #expect(Set(log.all).count == 2)
    while !first.hasEnded { sleepBriefly() }
    thread.stop()
  }

  @Test func itsTimersAndWatchesEndWithIt() throws {
    let thread = PermanentThread()
    try thread.start()
    let pipe = Pipe()
    defer { pipe.close() }
    let loop = try #require(thread.loop)
    let timer = loop.perform(every: .microseconds(100)) { _ in }
    let watch = try loop.watch(pipe.reading) { _, _ in }
    pipe.write()
    sleepBriefly(microseconds: 2000)
    thread.stop()
    #expect(!timer.isValid && !watch.isValid)
  }

  @Test func stopEndsNestedRunsInModesOfTheirOwn() throws {
    let thread = PermanentThread()
    try thread.start()
    let loop = try #require(thread.loop)
    let log = Log<Loop.RunResult>()
    thread.perform {
      Loop.current.add(Loop.Source {}, to: .tests)
      log.append(Loop.current.run(mode: .tests, for: .seconds(1000)))
    }
    while loop.snapshot.mode != "tests" || !loop.isWaiting { sleepBriefly() }
    thread.stop()
    #expect(log.all == [.stopped])
  }

  @Test func anOwnerThatGoesEndsItsThread() throws {
    final class Owner: Sendable {
      let thread = PermanentThread()
    }
    weak let gone: Owner?
    let loop: Loop
    do {
      let owner = Owner()
      gone = owner
      try owner.thread.start()
      loop = try #require(owner.thread.loop)
      // A block that holds the owner for a while is no cycle.
      owner.thread.perform { withExtendedLifetime(owner) {} }
    }
    while !loop.hasEnded { sleepBriefly() }
    #expect(gone == nil)
    #expect(!loop.perform {})
  }

  @Test func theLastReferenceMayGoOnTheThreadItself() throws {
    let loops = Log<Loop>()
    do {
      let thread = PermanentThread()
      try thread.start()
      loops.append(try #require(thread.loop))
      let held = Mutex<PermanentThread?>(thread)
      let box = Box(held.withLock { $0 })
      thread.perform { box.clear() }
    }
    while !loops.all[0].hasEnded { sleepBriefly() }
  }

  @Test func anIdleThreadSleeps() throws {
    let thread = PermanentThread()
    try thread.start()
    let loop = try #require(thread.loop)
    while !loop.isWaiting { sleepBriefly() }
    let passes = Mutex(0)
    loop.observe(.beforeTimers) { _, _ in passes.withLock { $0 += 1 } }
    // It says that it waits before it does.
    #expect(eventually { isAsleep(loop.threadID) })
    let before = contextSwitches(of: loop.threadID)
    sleepBriefly(microseconds: 100_000)
    // Neither woken nor spinning.
    #expect(contextSwitches(of: loop.threadID) == before)
    #expect(passes.withLock { $0 } == 0)
    thread.stop()
  }

  @Test func threadsWithLoopsLeakNothing() throws {
    let before = openDescriptors()
    for _ in 0..<25 {
      let threads = (0..<100).map { _ in
        TestThread {
          Loop.current.perform(after: .microseconds(10)) { _ in }
          Loop.current.run()
        }
      }
      for thread in threads { thread.join() }
    }
    // Other tests open and close theirs meanwhile.
    #expect(eventually { openDescriptors() < before + 500 })
  }

  @Test func aRunThatIsBegunWhileTheThreadEndsEndsAsWell() throws {
    let log = Log<String>()
    let thread = PermanentThread(name: "ends")
    try thread.start()
    let loop = try #require(thread.loop)
    thread.perform {
      thread.stop()
      // Served in what is left to the thread.
      loop.perform {
        loop.run(mode: .default, before: .distantFuture)
        log.append("\(loop.isCurrent)")
      }
    }
    thread.stop()
    #expect(log.all == ["true"])
  }

  @Test func theKernelKeepsFifteenBytesOfItsName() throws {
    let thread = PermanentThread(name: "a name of more than fifteen bytes")
    try thread.start()
    let name = try thread.loop?.performAndWait {
      var buffer = [UInt8](repeating: 0, count: 64)
      let file = open("/proc/self/task/\(Loop.current.threadID)/comm", O_RDONLY | O_CLOEXEC)
      defer { close(file) }
      let count = read(file, &buffer, buffer.count)
      return String(decoding: buffer.prefix(max(0, count)), as: UTF8.self)
    }
    thread.stop()
    #expect(name == "a name of more \n")
  }

  @Test func itsStackIsAsLargeAsAskedFor() throws {
    let thread = PermanentThread(stackSize: 40 << 20)
    try thread.start()
    let size = try thread.loop?.performAndWait {
      // Hidden from Swift; the symbol is not.
      typealias GetAttributes = @convention(c) (pthread_t, UnsafeMutablePointer<pthread_attr_t>) -> Int32
      let getAttributes = unsafeBitCast(dlsym(nil, "pthread_getattr_np"), to: GetAttributes.self)
      var attributes = pthread_attr_t()
      var size = 0
      _ = getAttributes(pthread_self(), &attributes)
      pthread_attr_getstacksize(&attributes, &size)
      pthread_attr_destroy(&attributes)
      return size
    }
    thread.stop()
    #expect(size ?? 0 >= 40 << 20)
  }

  @Test func aThreadThatTheSystemRefusesIsAnErrorAndCanBeStartedLater() throws {
    let thread = PermanentThread(stackSize: 1 << 50)
    let error = #expect(throws: LoopError.self) { try thread.start() }
    #expect(error?.errorNumber == EAGAIN || error?.errorNumber == ENOMEM)
    #expect(!thread.isRunning && thread.loop == nil && !thread.perform {})
    thread.stop()
  }

  @Test func delayedWorkThatIsNotDueIsNotRunByAStop() throws {
    let log = Log<String>()
    let thread = PermanentThread()
    try thread.start()
    let work = thread.loop?.performCancellable(after: .seconds(1000)) { log.append("delayed") }
    let timer = thread.loop?.perform(after: .seconds(1000)) { _ in log.append("timer") }
    thread.perform(name: "a block") { log.append("block") }
    thread.stop()
    #expect(log.all == ["block"])
    #expect(work?.isPending == false && timer?.isValid == false)
  }

  @Test func blocksOfAModeThatDoesNotServeThemDoNotRunAtTheStop() throws {
    let log = Log<String>()
    let thread = PermanentThread()
    try thread.start()
    let loop = try #require(thread.loop)
    loop.perform(in: .tests) { log.append("tests") }
    thread.perform { log.append("default") }
    thread.stop()
    #expect(log.all == ["default"])
  }

  @Test func aStopWithoutAStartDoesNothing() throws {
    let thread = PermanentThread()
    thread.stop()
    #expect(!thread.isRunning && thread.loop == nil)
    try thread.start()
    #expect(thread.isRunning)
    thread.stop()
  }
}

private final class Box: Sendable {
  private let thread: Mutex<PermanentThread?>

  init(_ thread: PermanentThread?) {
    self.thread = Mutex(thread)
  }

  func clear() {
    let taken = thread.withLock { thread -> PermanentThread? in
      defer { thread = nil }
      return thread
    }
    withExtendedLifetime(taken) {}
  }
}
