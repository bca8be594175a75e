import Glibc
import LoopEngine
import TestSupport
import Testing

/// What ready-made sources own, refuse and leave behind.
@Suite struct EventSourcesTests {
  @Test func aReadyMadeSourceClosesItsDescriptorWithItsLastReference() async {
    await #expect(processExitsWith: .success) {
      let loop = Loop.current
      /// The file that a number refers to: it may be another file's at once.
      func file(_ number: Int32) -> String {
        var name = [UInt8](repeating: 0, count: 64)
        let length = name.withUnsafeMutableBytes { bytes in
          readlink("/proc/self/fd/\(number)", bytes.baseAddress!.assumingMemoryBound(to: CChar.self), 64)
        }
        return String(decoding: name.prefix(max(0, length)), as: UTF8.self)
      }
      func openAndRelease(_ kind: Int) throws -> (number: Int32, file: String) {
        let source: Loop.DescriptorSource =
          switch kind {
          case 0: try Loop.CounterSource { _ in }
          case 1: try Loop.SignalSource([SIGUSR1]) { _ in }
          case 2: try Loop.FileChangeSource("/tmp", for: .deletedItself) { _, _ in }
          default: try Loop.ChildSource(getppid()) { _ in }
          }
        let number = source.descriptor
        guard fcntl(number, F_GETFD) == FD_CLOEXEC else { exit(1) }
        try loop.add(source)
        // It is the loop that holds it now, and no longer after the invalidation.
        source.invalidate()
        guard fcntl(number, F_GETFD) >= 0 else { exit(2) }
        return (number, file(number))
      }
      for kind in 0..<4 {
        guard let (number, former) = try? openAndRelease(kind), !former.isEmpty else { exit(10 + Int32(kind)) }
        guard file(number) != former else { exit(20 + Int32(kind)) }
      }
      exit(0)
    }
  }

  @Test func aDescriptorStaysOpenWhenItsSourceEnds() throws {
    let pipe = Pipe()
    defer { pipe.close() }
    _ = try onFreshLoop { loop in
      let source = try loop.watch(pipe.reading) { _, _ in }
      source.invalidate()
      loop.run(mode: .default, for: .zero)
    }
    var byte: UInt8 = 7
    #expect(write(pipe.writing, &byte, 1) == 1 && read(pipe.reading, &byte, 1) == 1)
  }

  @Test func aReadyMadeSourceThatWasRemovedStaysValidAndComesBack() throws {
    let log = Log<UInt64>()
    let isValid = try onFreshLoop { loop in
      loop.add(Loop.Source {})
      let counter = try Loop.CounterSource { log.append($0) }
      try loop.add(counter)
      #expect(loop.contains(counter, in: .common))
      loop.remove(counter)
      #expect(!loop.contains(counter, in: .common))
      counter.add(2)
      loop.run(mode: .default, for: .zero)
      #expect(log.count == 0)
      try loop.add(counter, to: .default)
      counter.add(3)
      loop.run(mode: .default, for: .zero)
      return counter.isValid
    }
    #expect(isValid)
    #expect(log.all == [5])
  }

  @Test func aCounterTakesAdditionsOfASignalHandlerAndOfAnotherProcess() async {
    await #expect(processExitsWith: .success) {
      let log = Log<UInt64>()
      let loop = Loop.current
      guard let counter = try? Loop.CounterSource(body: { log.append($0) }), (try? loop.add(counter)) != nil else {
        exit(1)
      }
      HandlerCounter.shared = counter
      signal(SIGUSR1) { _ in HandlerCounter.shared?.add(5) }
      kill(getpid(), SIGUSR1)
      let child = forkProcess()
      if child == 0 {
        var value: UInt64 = 37
        _exit(write(counter.descriptor, &value, 8) == 8 ? 0 : 1)
      }
      guard succeeds(child) else { exit(2) }
      // A handler that runs a little later makes a sum of its own.
      let isWhole = eventually {
        loop.run(mode: .default, for: .milliseconds(1))
        return log.all.reduce(0, +) == 42
      }
      exit(isWhole && log.count <= 2 ? 0 : 3)
    }
  }

  private enum HandlerCounter {
    // Set before the handler is, and never again.
    nonisolated(unsafe) static var shared: Loop.CounterSource?
  }

  @Test func aCounterWithoutAdditionsIsNotCalled() throws {
    let log = Log<UInt64>()
    _ = try onFreshLoop { loop in
      let counter = try Loop.CounterSource { log.append($0) }
      try loop.add(counter)
      counter.add(0)
      loop.run(mode: .default, for: .zero)
      counter.add(1)
      loop.run(mode: .default, for: .zero)
      return loop.run(mode: .default, for: .zero)
    }
    #expect(log.all == [1])
  }

  @Test func whatCannotBeWatchedIsRefusedWithErrno() {
    func refusal(_ body: () throws(LoopError) -> Void) -> Int32? {
      do throws(LoopError) { try body() } catch { return error.errorNumber }
      return nil
    }
    #expect(refusal { () throws(LoopError) in _ = try Loop.ChildSource(2_000_000_000) { _ in } } == ESRCH)
    #expect(refusal { () throws(LoopError) in _ = try Loop.SignalSource([SIGKILL]) { _ in } } == EINVAL)
    #expect(
      refusal { () throws(LoopError) in _ = try Loop.FileChangeSource("/nowhere", for: .modified) { _, _ in } }
        == ENOENT)
    // A change that is none.
    #expect(refusal { () throws(LoopError) in _ = try Loop.FileChangeSource("/tmp", for: []) { _, _ in } } == EINVAL)
  }

  @Test func aDirectoryIsRefusedAsADescriptor() throws {
    let directory = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    defer { close(directory) }
    let error = try onFreshLoop { loop -> LoopError? in
      do throws(LoopError) { try loop.watch(directory) { _, _ in } } catch { return error }
      return nil
    }
    #expect(error?.errorNumber == EPERM && error?.descriptor == directory)
    #expect(error == LoopError?.none ? false : error?.description.contains("watch descriptor \(directory)") == true)
  }

  @Test func aDeliveryHasTheSenderOfTheSignal() async {
    await #expect(processExitsWith: .success) {
      let log = Log<Loop.SignalSource.Delivery>()
      let loop = Loop.current
      guard let source = try? Loop.SignalSource([SIGUSR1], body: { log.append($0) }), (try? loop.add(source)) != nil
      else { exit(1) }
      let (parent, thread) = (getpid(), loop.threadID)
      let child = forkProcess()
      // To the one thread: the others of the parent don't block the signal. Hidden from Swift; the
      // symbol is not.
      typealias ThreadKill = @convention(c) (pid_t, pid_t, Int32) -> Int32
      if child == 0 { _exit(unsafeBitCast(dlsym(nil, "tgkill"), to: ThreadKill.self)(parent, thread, SIGUSR1)) }
      guard succeeds(child) else { exit(2) }
      _ = loop.run(mode: .default, for: .seconds(60), returnAfterSourceHandled: true)
      guard let delivery = log.all.first, log.count == 1 else { exit(3) }
      exit(delivery.signal == SIGUSR1 && delivery.sender == child && delivery.user == getuid() ? 0 : 4)
    }
  }

  @Test func aSignalStaysBlockedWhenItsLastSourceHasGone() async {
    await #expect(processExitsWith: .success) {
      TestThread {
        let loop = Loop.current
        var mask = sigset_t()
        guard let source = try? Loop.SignalSource([SIGUSR2], body: { _ in }), (try? loop.add(source)) != nil else {
          exit(1)
        }
        source.invalidate()
        pthread_sigmask(SIG_BLOCK, nil, &mask)
        guard sigismember(&mask, SIGUSR2) == 1 else { exit(2) }
        // Its default action would end the process.
        pthread_kill(pthread_self(), SIGUSR2)
        exit(loop.run() == .finished ? 0 : 3)
      }.join()
    }
  }
}
