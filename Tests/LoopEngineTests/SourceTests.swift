import Testing

@testable import LoopEngine

@Suite struct SourceTests {
  @Test func twoSignalsAreOnePerform() throws {
    let log = Log<Int>()
    _ = try onFreshLoop { loop in
      let source = Loop.Source { log.append(1) }
      loop.add(source)
      source.signal()
      source.signal()
      loop.run(mode: .default, for: .zero)
      return loop.run(mode: .default, for: .zero)
    }
    #expect(log.count == 1)
  }

  @Test func sourcesGoByOrderAndThenByTheTimeOfTheSignal() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      let a = Loop.Source(order: 1) { log.append("a") }
      let b = Loop.Source(order: 0) { log.append("b") }
      let c = Loop.Source(order: 0) { log.append("c") }
      for source in [a, b, c] { loop.add(source) }
      a.signal()
      c.signal()
      b.signal()
      return loop.run(mode: .default, for: .zero)
    }
    #expect(log.all == ["c", "b", "a"])
  }

  @Test func signallingDoesNotWake() throws {
    let log = Log<UInt>()
    let loops = Log<Loop>()
    let source = Loop.Source { log.append(0) }
    let thread = TestThread {
      Loop.current.add(source)
      Loop.current.observe(.afterWaiting) { _, activity in log.append(activity.rawValue) }
      loops.append(.current)
      Loop.current.run()
    }
    while !(loops.all.first?.isWaiting ?? false) { sleepBriefly() }
    source.signal()
    // However long one waits here, the loop must not come round; a short while shows a wake-up if there is one.
    for _ in 0..<20 { sleepBriefly() }
    #expect(log.all.isEmpty)
    loops.all[0].wakeUp()
    while log.count < 2 { sleepBriefly() }
    #expect(log.all == [64, 0])
    loops.all[0].stop()
    thread.join()
  }

  @Test func sourcesAreReentrant() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      let inner = Loop.Source { log.append("inner") }
      let outer = Loop.Source {
        log.append("in")
        inner.signal()
        loop.run(mode: .default, for: .zero)
        log.append("out")
      }
      loop.add(inner)
      loop.add(outer)
      outer.signal()
      return loop.run(mode: .default, for: .zero)
    }
    #expect(log.all == ["in", "inner", "out"])
  }

  @Test func withStopAfterHandleOneRunsAndTheRestStaySignalled() throws {
    let log = Log<String>()
    let (result, rest) = try onFreshLoop { loop in
      let a = Loop.Source { log.append("a") }
      let b = Loop.Source { log.append("b") }
      loop.add(a)
      loop.add(b)
      a.signal()
      b.signal()
      return (loop.run(mode: .default, before: .distantFuture), b.isSignalled)
    }
    #expect(result == .handledSource)
    #expect(rest)
    #expect(log.all == ["a"])
  }

  @Test func scheduleAndCancelAreReported() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      let source = Loop.Source(
        didSchedule: { _, mode in log.append("+\(mode)") }, didCancel: { _, mode in log.append("-\(mode)") },
        perform: {})
      loop.add(source, to: .default)
      loop.add(source, to: .tests)
      loop.remove(source, from: .default)
      source.invalidate()
      return source.isValid
    }
    #expect(log.all == ["+default", "+tests", "-default", "-tests"])
  }

  @Test func changesOfOtherThreadsAreMadeInTheirOrderAlsoWhenOneCallsOut() throws {
    let contained = try onFreshLoop { loop in
      let timer = Loop.Timer(after: .seconds(1000)) { _ in }
      let source = Loop.Source(
        didSchedule: { loop, _ in
          // The addition of the timer is behind this one; its removal comes later than both.
          TestThread { loop.remove(timer) }.join()
          _ = loop.contains(timer, in: .common)
        }, perform: {})
      TestThread {
        loop.add(source)
        loop.add(timer)
      }.join()
      return loop.contains(timer, in: .common)
    }
    #expect(!contained)
  }

  @Test func aSignalBeforeTheAdditionCounts() throws {
    let log = Log<Int>()
    _ = try onFreshLoop { loop in
      let source = Loop.Source { log.append(1) }
      source.signal()
      loop.add(source)
      return loop.run(mode: .default, for: .zero)
    }
    #expect(log.count == 1)
  }

  @Test func commonItemsReachAModeThatBecomesCommonLater() throws {
    let log = Log<String>()
    let pipe = Pipe()
    defer { pipe.close() }
    _ = try onFreshLoop { loop in
      let source = Loop.Source { log.append("source") }
      loop.add(source)
      loop.perform(after: .zero) { _ in log.append("timer") }
      loop.observe(.entry) { _, _ in log.append("observer") }
      try loop.watch(pipe.reading) { source, _ in
        log.append("descriptor")
        source.invalidate()
      }
      loop.perform { log.append("block") }
      source.signal()
      pipe.write()
      // Not common yet: nothing of it is there.
      #expect(loop.run(mode: .tests, for: .zero) == .finished)
      loop.addCommonMode(.tests)
      return loop.run(mode: .tests, for: .zero)
    }
    #expect(log.all == ["observer", "block", "source", "timer", "descriptor"])
  }

  @Test func blocksThatASourceLeavesRunBeforeTimers() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      let source = Loop.Source {
        log.append("source")
        loop.perform { log.append("block") }
      }
      loop.add(source)
      source.signal()
      loop.add(Loop.Timer(at: .distantPast) { _ in log.append("timer") })
      return loop.run(mode: .default, for: .zero)
    }
    #expect(log.all == ["source", "block", "timer"])
  }

  @Test func aSourceThatAnEarlierOneEndsIsNotPerformed() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      let later = Loop.Source(order: 2) { log.append("later") }
      let earlier = Loop.Source(order: 1) { later.invalidate() }
      for source in [earlier, later] {
        loop.add(source)
        source.signal()
      }
      return loop.run(mode: .default, for: .zero)
    }
    #expect(log.all == [])
  }

  @Test func eachScheduleHasItsCancelAlsoWhenTheLoopEnds() throws {
    let log = Log<String>()
    let source = Loop.Source(
      didSchedule: { _, mode in log.append("+\(mode)") }, didCancel: { _, mode in log.append("-\(mode)") }, perform: {})
    _ = try onFreshLoop { loop in
      loop.add(source)
      loop.add(source, to: .other)
      loop.addCommonMode(.tests)
    }
    #expect(
      log.all.filter { $0.hasPrefix("+") }.map { $0.dropFirst() }.sorted()
        == log.all.filter { $0.hasPrefix("-") }.map { $0.dropFirst() }.sorted())
    #expect(log.count == 4)
  }

  @Test(arguments: [false, true]) func manySignalledSourcesAreServedInLinearTime(oneByOne: Bool) throws {
    // 50 000 took minutes when each was searched for among all others: 100 times as long as a tenth of them.
    // On a busy machine, one of the two may have had no processor for a while.
    let isLinear = try (0..<3).contains { _ in
      let few = try serve(5000, oneByOne: oneByOne)
      return try serve(50_000, oneByOne: oneByOne) < few * 40 + .seconds(1)
    }
    #expect(isLinear)
  }

  /// How long it takes to serve as many sources.
  private func serve(_ count: Int, oneByOne: Bool) throws -> Duration {
    let served = Log<Int>()
    let took = try onFreshLoop { loop in
      let sources = (0..<count).map { number in Loop.Source(order: number % 7) { served.append(number) } }
      for source in sources {
        loop.add(source)
        source.signal()
      }
      let start = Loop.Instant.now
      while served.count < count { loop.run(mode: .default, for: .zero, returnAfterSourceHandled: oneByOne) }
      for source in sources { source.signal() }
      for source in sources { source.invalidate() }
      return start.duration(to: .now)
    }
    // Compared here: what differs between two such arrays takes minutes to find out.
    let isInOrder = served.all == (0..<count).sorted { ($0 % 7, $0) < ($1 % 7, $1) }
    #expect(isInOrder && served.count == count)
    return took
  }

  @Test func signalledSourcesKeepTheirOrderHoweverTheyComeAndGo() throws {
    let log = Log<Int>()
    _ = try onFreshLoop { loop in
      let holder = Log<Loop.Source>()
      for number in 0..<200 {
        holder.append(
          Loop.Source(order: number * 37 % 200) {
            // One in ten is signalled again, for the next round.
            if number % 10 == 0 && !log.all.contains(number * 37 % 200) { holder.all[number].signal() }
            log.append(number * 37 % 200)
          })
      }
      for (number, source) in holder.all.enumerated() {
        loop.add(source, to: number % 3 == 0 ? .tests : .default)
        source.signal()
      }
      for number in stride(from: 5, to: 200, by: 11) { holder.all[number].invalidate() }
      for _ in 0..<2 {
        for mode in [Loop.Mode.default, .tests] { loop.run(mode: mode, for: .zero) }
      }
      while loop.run(mode: .default, for: .zero, returnAfterSourceHandled: true) == .handledSource {}
    }
    let isGone = Set(stride(from: 5, to: 200, by: 11))
    func round(_ keep: (Int) -> Bool) -> [Int] {
      (0..<200).filter { !isGone.contains($0) && keep($0) }.map { $0 * 37 % 200 }.sorted()
    }
    let first = round { $0 % 3 != 0 } + round { $0 % 3 == 0 }
    let second = round { $0 % 3 != 0 && $0 % 10 == 0 } + round { $0 % 3 == 0 && $0 % 10 == 0 }
    #expect(log.all == first + second)
  }

  /// CoreFoundation calls it; here a removal holds at once, as an invalidation does.
  @Test func whatIsRemovedEarlierInTheSameRoundIsNotCalled() throws {
    let log = Log<String>()
    let pipes = (0..<2).map { _ in Pipe() }
    defer { for pipe in pipes { pipe.close() } }
    for pipe in pipes { pipe.write() }
    _ = try onFreshLoop { loop in
      let laterSource = Loop.Source(order: 2) { log.append("source") }
      let laterTimer = Loop.Timer(at: .distantPast.advanced(by: .seconds(1))) { _ in log.append("timer") }
      let laterObserver = Loop.Observer(.beforeSources, order: 2) { _, _ in log.append("observer") }
      loop.add(laterSource)
      loop.add(laterTimer)
      loop.add(laterObserver)
      loop.observe(.beforeSources, order: 1, repeats: false) { _, _ in loop.remove(laterObserver, from: .common) }
      let source = Loop.Source(order: 1) { loop.remove(laterSource) }
      loop.add(source)
      for source in [source, laterSource] { source.signal() }
      loop.add(Loop.Timer(at: .distantPast) { _ in loop.remove(laterTimer) })
      let watches = Log<Loop.DescriptorSource>()
      for pipe in pipes {
        watches.append(
          try loop.watch(pipe.reading) { source, _ in
            log.append("descriptor")
            for other in watches.all where other !== source { loop.remove(other) }
          })
      }
      loop.run(mode: .default, for: .zero)
      #expect(laterSource.isValid && laterTimer.isValid && laterObserver.isValid)
      #expect(watches.all.allSatisfy { $0.isValid })
    }
    #expect(log.all == ["descriptor"])
  }

  @Test func scheduleAndCancelAreCalledOnTheLoopsThreadForAnyCaller() throws {
    let thread = PermanentThread()
    try thread.start()
    let loop = try #require(thread.loop)
    let log = Log<String>()
    @Sendable func note(_ what: String, _ given: Loop, _ mode: Loop.Mode) {
      log.append("\(what)\(mode) \(given === loop && loop.isCurrent)")
    }
    let source = Loop.Source(didSchedule: { note("+", $0, $1) }, didCancel: { note("-", $0, $1) }, perform: {})
    loop.add(source, to: .tests)
    loop.add(source)
    loop.remove(source, from: .tests)
    // What is invalid before the loop comes to its addition is not added.
    try loop.performAndWait {}
    source.invalidate()
    thread.stop()
    #expect(log.all == ["+tests true", "+common true", "-tests true", "-common true"])
  }

  @Test func aSignalOfAnInvalidSourceDoesNothing() throws {
    let log = Log<Int>()
    let isSignalled = try onFreshLoop { loop in
      loop.add(Loop.Source {})
      let source = Loop.Source { log.append(1) }
      loop.add(source)
      source.invalidate()
      source.signal()
      loop.run(mode: .default, for: .zero)
      return source.isSignalled
    }
    #expect(!isSignalled)
    #expect(log.count == 0)
  }

  @Test func aSourceIsSignalledUntilItIsPerformed() throws {
    let log = Log<Bool>()
    _ = try onFreshLoop { loop in
      let holder = Log<Loop.Source>()
      let source = Loop.Source { log.append(holder.all[0].isSignalled) }
      holder.append(source)
      loop.add(source, to: .tests)
      source.signal()
      // A run in another mode leaves it signalled.
      loop.add(Loop.Source {})
      loop.run(mode: .default, for: .zero)
      log.append(source.isSignalled)
      loop.run(mode: .tests, for: .zero)
      log.append(source.isSignalled)
    }
    #expect(log.all == [true, false, false])
  }

  @Test func aSignalFromWithinThePerformIsServedInTheNextPass() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      loop.observe(.beforeTimers) { _, _ in log.append("pass") }
      let holder = Log<Loop.Source>()
      holder.append(
        Loop.Source {
          log.append("perform")
          if log.count < 6 { holder.all[0].signal() } else { loop.stop() }
        })
      loop.add(holder.all[0])
      holder.all[0].signal()
      return loop.run()
    }
    #expect(log.all == ["pass", "perform", "pass", "perform", "pass", "perform"])
  }

  @Test func aSignalOfARemovedSourceIsServedWhenItIsBack() throws {
    let log = Log<Int>()
    _ = try onFreshLoop { loop in
      loop.add(Loop.Source {})
      let source = Loop.Source { log.append(1) }
      loop.add(source)
      source.signal()
      loop.remove(source)
      loop.run(mode: .default, for: .zero)
      #expect(log.count == 0 && source.isSignalled)
      loop.add(source)
      return loop.run(mode: .default, for: .zero)
    }
    #expect(log.count == 1)
  }

  /// Linear, counted and not timed.
  @Test(arguments: [1000, 8000]) func eachSignalledSourceIsExaminedOnceHoweverManyThereAre(_ count: Int) {
    var signalled = SignalledSources()
    let sources = (0..<count).map { Loop.Source(order: $0 % 7) {} }
    for (number, source) in sources.enumerated() { signalled.insert(source, sequence: UInt(number)) }
    var examined = 0
    var orders: [Int] = []
    while !signalled.isEmpty {
      let first = signalled.sorted(onlyFirst: true) { _ in
        examined += 1
        return true
      }
      orders.append(first[0].order)
      signalled.remove(first[0])
    }
    #expect(examined == count && orders.count == count)
    #expect(zip(orders, orders.dropFirst()).allSatisfy { $0 <= $1 })
  }
}
