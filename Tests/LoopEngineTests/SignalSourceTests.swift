import Glibc
import TestSupport
import Testing

@testable import LoopEngine

/// Unix signals: several sources of one, several of one source, and those that cannot be received.
@Suite(.serialized) struct SignalSourceTests {
  /// SIGRTMAX - 2, which is a call in C.
  private static var realTime: Int32 { 62 }

  /// Runs a loop until a condition holds, and for some time more: what is one too many would come then.
  private static func run(_ loop: Loop, until condition: () -> Bool) {
    _ = eventually {
      loop.run(mode: .default, for: .milliseconds(5))
      return condition()
    }
    loop.run(mode: .default, for: .milliseconds(20))
  }

  @Test func eachSourceOfASignalReceivesIt() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      for number in 1...3 { try loop.add(Loop.SignalSource([SIGUSR1]) { _ in log.append("\(number)") }) }
      // Not of this one, and not of one that has ended.
      try loop.add(Loop.SignalSource([SIGURG]) { _ in log.append("other") })
      let ended = try Loop.SignalSource([SIGUSR1]) { _ in log.append("ended") }
      try loop.add(ended)
      ended.invalidate()
      for round in 1...2 {
        pthread_kill(pthread_self(), SIGUSR1)
        Self.run(loop) { log.count >= 3 * round }
      }
      return 0
    }
    #expect(log.all.sorted() == ["1", "1", "2", "2", "3", "3"])
  }

  @Test func eachLoopReceivesASignalAlsoOneThatSleepsOnAnotherThread() throws {
    let log = Log<Int32>()
    let other = PermanentThread(name: "other loop")
    try other.start()
    let source = try other.loop.map { loop in
      try loop.performAndWait {
        let source = try Loop.SignalSource([SIGUSR1]) { _ in log.append(Loop.current.threadID) }
        try loop.add(source)
        return source
      }
    }
    let here = try onFreshLoop { loop in
      try loop.add(
        Loop.SignalSource([SIGUSR1]) { _ in
          log.append(Loop.current.threadID)
          loop.stop()
        })
      while !(other.loop?.isWaiting ?? true) { sleepBriefly() }
      // To this thread alone: nobody else can read it.
      pthread_kill(pthread_self(), SIGUSR1)
      loop.run()
      return loop.threadID
    }
    while log.count < 2 { sleepBriefly() }
    #expect(Set(log.all) == [here, try #require(other.loop?.threadID)])
    source?.invalidate()
    other.stop()
  }

  @Test func aSourceThatWasInNoModeMissesASignalAndReceivesTheNext() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      let first = try Loop.SignalSource([SIGUSR1]) { _ in log.append("first") }
      let second = try Loop.SignalSource([SIGUSR1]) { _ in log.append("second") }
      try loop.add(first)
      try loop.add(second)
      loop.remove(second)
      for expected in [1, 3] {
        pthread_kill(pthread_self(), SIGUSR1)
        Self.run(loop) { log.count >= expected }
        try loop.add(second)
      }
      return 0
    }
    #expect(log.all.sorted() == ["first", "first", "second"])
  }

  @Test func aSignalThatAnotherSourceReadEndsARunForOneSource() throws {
    let log = Log<String>()
    let results = try onFreshLoop { loop in
      let first = try Loop.SignalSource([SIGUSR1]) { _ in log.append("first") }
      let second = try Loop.SignalSource([SIGUSR1]) { _ in log.append("second") }
      try loop.add(first, to: .default)
      try loop.add(second, to: .tests)
      pthread_kill(pthread_self(), SIGUSR1)
      return [
        loop.run(mode: .default, before: .now.advanced(by: .seconds(10))),
        loop.run(mode: .tests, before: .now.advanced(by: .seconds(10))),
      ]
    }
    #expect(log.all == ["first", "second"])
    #expect(results == [.handledSource, .handledSource])
  }

  @Test func aSourceOfSeveralSignalsDistinguishesThem() throws {
    let log = Log<Int32>()
    _ = try onFreshLoop { loop in
      try loop.add(Loop.SignalSource([SIGUSR1, SIGURG, Self.realTime]) { log.append($0.signal) })
      for signal in [SIGURG, SIGUSR1, SIGURG] { pthread_kill(pthread_self(), signal) }
      // Real-time signals queue, the others count once.
      for _ in 0..<3 { pthread_kill(pthread_self(), Self.realTime) }
      return loop.run(mode: .default, for: .zero)
    }
    #expect(log.all.sorted() == [SIGUSR1, SIGURG, Self.realTime, Self.realTime, Self.realTime].sorted())
  }

  @Test func aSignalBeforeTheAdditionIsNotLost() throws {
    let log = Log<Int32>()
    _ = try onFreshLoop { loop in
      let source = try Loop.SignalSource([SIGUSR1]) { log.append($0.signal) }
      pthread_kill(pthread_self(), SIGUSR1)
      try loop.add(source)
      return loop.run(mode: .default, for: .zero)
    }
    #expect(log.all == [SIGUSR1])
  }

  @Test func signalsThatCannotBeReceivedAreRefusedWithoutAChangeOfTheMask() throws {
    let blocked = try onFreshLoop { _ in
      var mask = sigset_t()
      sigemptyset(&mask)
      sigaddset(&mask, Self.realTime)
      pthread_sigmask(SIG_UNBLOCK, &mask, nil)
      for signals in [[SIGKILL], [Self.realTime, SIGSTOP], [0], [-1], [65], [Self.realTime, 1000]] {
        #expect(throws: LoopError.self) { try Loop.SignalSource(signals) { _ in } }
      }
      pthread_sigmask(SIG_BLOCK, nil, &mask)
      return sigismember(&mask, Self.realTime)
    }
    #expect(blocked == 0)
  }

  @Test func aSourceMayEndItselfWithSignalsPending() throws {
    let log = Log<Int32>()
    let before = openDescriptors()
    _ = try onFreshLoop { loop in
      let holder = Log<Loop.SignalSource>()
      holder.append(
        try Loop.SignalSource([SIGUSR1, SIGURG]) {
          log.append($0.signal)
          holder.all[0].invalidate()
        })
      try loop.add(holder.all[0])
      pthread_kill(pthread_self(), SIGUSR1)
      pthread_kill(pthread_self(), SIGURG)
      return loop.run()
    }
    #expect(log.count == 1)
    #expect(eventually { openDescriptors() < before + 500 })
  }
}
