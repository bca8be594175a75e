import Glibc
import LoopEngine
import TestSupport
import Testing

/// What timers, sources, observers and descriptor sources promise alike.
@Suite struct ItemTests {
  /// One item of a kind, with the calls that all kinds have.
  struct Item {
    let add: @Sendable (Loop, Loop.Mode) -> Bool
    let remove: @Sendable (Loop, Loop.Mode) -> Void
    let contains: @Sendable (Loop, Loop.Mode) -> Bool
    let invalidate: @Sendable () -> Void
    let isValid: @Sendable () -> Bool
    /// Makes the item's closure due.
    let arm: @Sendable () -> Void
  }

  enum Kind: CaseIterable {
    case timer, source, observer, watch

    /// Makes an item that calls a closure in each pass of a loop.
    func item(_ descriptor: Int32, _ body: @escaping @Sendable () -> Void) -> Item {
      switch self {
      case .timer:
        let timer = Loop.Timer(at: .distantPast, every: .nanoseconds(1)) { _ in body() }
        return Item(
          add: { $0.add(timer, to: $1) }, remove: { $0.remove(timer, from: $1) },
          contains: { $0.contains(timer, in: $1) }, invalidate: { timer.invalidate() }, isValid: { timer.isValid },
          arm: {})
      case .source:
        let source = Loop.Source(perform: body)
        return Item(
          add: { $0.add(source, to: $1) }, remove: { $0.remove(source, from: $1) },
          contains: { $0.contains(source, in: $1) }, invalidate: { source.invalidate() }, isValid: { source.isValid },
          arm: { source.signal() })
      case .observer:
        let observer = Loop.Observer(.beforeTimers) { _, _ in body() }
        return Item(
          add: { $0.add(observer, to: $1) }, remove: { $0.remove(observer, from: $1) },
          contains: { $0.contains(observer, in: $1) }, invalidate: { observer.invalidate() },
          isValid: { observer.isValid }, arm: {})
      case .watch:
        let watch = Loop.DescriptorSource(descriptor) { _, _ in body() }
        return Item(
          add: { loop, mode in (try? loop.add(watch, to: mode)) != nil }, remove: { $0.remove(watch, from: $1) },
          contains: { $0.contains(watch, in: $1) }, invalidate: { watch.invalidate() }, isValid: { watch.isValid },
          arm: {})
      }
    }
  }

  /// Runs a test on a fresh loop that has something else to serve, with an item whose descriptor is
  /// readable.
  private static func withItem<T: Sendable>(
    _ kind: Kind, _ log: Log<String>, _ body: @escaping @Sendable (Loop, Item) throws -> T
  ) throws -> T {
    let pipe = Pipe()
    defer { pipe.close() }
    pipe.write()
    return try onFreshLoop { loop in
      loop.add(Loop.Source {})
      return try body(loop, kind.item(pipe.reading) { log.append("called") })
    }
  }

  @Test(arguments: Kind.allCases) func addingTwiceChangesNothing(_ kind: Kind) throws {
    let log = Log<String>()
    let isContained = try Self.withItem(kind, log) { loop, item in
      for _ in 0..<2 { #expect(item.add(loop, .common)) }
      item.arm()
      loop.run(mode: .default, for: .zero)
      // One removal undoes both additions.
      item.remove(loop, .common)
      item.arm()
      loop.run(mode: .default, for: .zero)
      return item.contains(loop, .common)
    }
    #expect(log.count == 1)
    #expect(!isContained)
  }

  @Test(arguments: Kind.allCases) func anInvalidItemIsRefusedAndNeverCalled(_ kind: Kind) throws {
    let log = Log<String>()
    try Self.withItem(kind, log) { loop, item in
      item.invalidate()
      #expect(!item.add(loop, .common) && !item.contains(loop, .common) && !item.isValid())
      item.arm()
      loop.run(mode: .default, for: .zero)
    }
    #expect(log.count == 0)
  }

  @Test(arguments: Kind.allCases) func anItemBelongsToOneLoopAlsoAfterItsRemoval(_ kind: Kind) throws {
    let log = Log<String>()
    try Self.withItem(kind, log) { loop, item in
      #expect(item.add(loop, .common))
      item.remove(loop, .common)
      let isRefused = try onFreshLoop { other in !item.add(other, .common) && !item.contains(other, .common) }
      #expect(isRefused && item.isValid())
      // Its own loop takes it back.
      #expect(item.add(loop, .common))
      item.arm()
      loop.run(mode: .default, for: .zero)
    }
    #expect(log.count == 1)
  }

  @Test(arguments: Kind.allCases) func aRemovalLeavesTheOtherModes(_ kind: Kind) throws {
    let log = Log<String>()
    try Self.withItem(kind, log) { loop, item in
      loop.add(Loop.Source {}, to: .tests)
      for mode in [Loop.Mode.default, .tests] { #expect(item.add(loop, mode)) }
      item.remove(loop, .default)
      #expect(item.isValid() && !item.contains(loop, .default) && item.contains(loop, .tests))
      item.arm()
      loop.run(mode: .default, for: .zero)
      #expect(log.count == 0)
      loop.run(mode: .tests, for: .zero)
    }
    #expect(log.count == 1)
  }

  @Test(arguments: Kind.allCases) func anItemInACommonModeAndInTheCommonModesIsCalledOnceAPass(_ kind: Kind) throws {
    let log = Log<String>()
    try Self.withItem(kind, log) { loop, item in
      for mode in [Loop.Mode.default, .common, .tests] { #expect(item.add(loop, mode)) }
      item.arm()
      loop.run(mode: .default, for: .zero)
    }
    #expect(log.count == 1)
  }

  @Test(arguments: Kind.allCases) func anItemThatAnotherThreadInvalidatesIsNotCalledAgain(_ kind: Kind) throws {
    let log = Log<String>()
    try Self.withItem(kind, log) { loop, item in
      #expect(item.add(loop, .common))
      item.arm()
      loop.run(mode: .default, for: .zero)
      item.arm()
      TestThread { item.invalidate() }.join()
      #expect(!item.isValid())
      loop.run(mode: .default, for: .zero)
      #expect(!item.contains(loop, .common))
    }
    #expect(log.count == 1)
  }

  /// It is called once more by the next pass at the earliest: never from within the addition.
  @Test(arguments: Kind.allCases) func anItemThatIsDueIsNotCalledFromWithinItsAddition(_ kind: Kind) throws {
    let log = Log<String>()
    try Self.withItem(kind, log) { loop, item in
      item.arm()
      loop.perform {
        #expect(item.add(loop, .common))
        log.append("added")
      }
      loop.run(mode: .default, for: .zero)
      loop.run(mode: .default, for: .zero)
    }
    #expect(log.all.first == "added" && log.all.contains("called"))
  }

  @Test(arguments: Kind.allCases) func aSleepingLoopServesWhatAnotherThreadAdds(_ kind: Kind) throws {
    // Observers serve nothing by themselves, and so wake nobody.
    if kind == .observer { return }
    let pipe = Pipe()
    defer { pipe.close() }
    pipe.write()
    let thread = PermanentThread()
    try thread.start()
    let loop = try #require(thread.loop)
    while !loop.isWaiting { sleepBriefly() }
    _ = fcntl(pipe.reading, F_SETFL, O_NONBLOCK)
    let threads = Log<Int32>()
    let item = kind.item(pipe.reading) {
      threads.append(Loop.current.threadID)
      pipe.read()
    }
    item.arm()
    #expect(item.add(loop, .common))
    #expect(eventually { threads.count > 0 })
    item.invalidate()
    thread.stop()
    #expect(threads.all.allSatisfy { $0 == loop.threadID })
  }

  /// What an item's closure holds is freed with the item, whichever way the item leaves.
  @Test(arguments: Kind.allCases) func aLoopKeepsNoItemThatIsInNoMode(_ kind: Kind) throws {
    let freed = Log<String>()
    let log = Log<String>()
    try Self.withItem(kind, log) { loop, _ in
      func make(_ name: String) -> Item {
        let token = Token { freed.append(name) }
        let pipe = Pipe()
        defer { pipe.close() }
        let item = kind.item(pipe.reading) { withExtendedLifetime(token) {} }
        #expect(item.add(loop, .common))
        return item
      }
      func leave() {
        make("invalidated").invalidate()
        make("removed").remove(loop, .common)
      }
      leave()
      // A timer that was removed is kept for its possible return until the loop next waits.
      loop.run(mode: .default, for: .microseconds(1))
    }
    #expect(freed.all.sorted() == ["invalidated", "removed"])
  }

  @Test func anInvalidationByAnotherThreadDoesNotWakeTheLoop() throws {
    let loops = Log<Loop>()
    let results = Log<Loop.RunResult>()
    let wakes = Log<UInt>()
    let source = Loop.Source {}
    let thread = TestThread {
      let loop = Loop.current
      loop.add(source)
      loop.observe(.afterWaiting) { _, activity in wakes.append(activity.rawValue) }
      loops.append(loop)
      results.append(loop.run())
    }
    #expect(eventually { loops.all.first?.isWaiting ?? false })
    source.invalidate()
    // A short while shows a wake-up if there is one.
    for _ in 0..<20 { sleepBriefly() }
    #expect(wakes.count == 0 && results.count == 0)
    loops.all[0].wakeUp()
    thread.join()
    #expect(results.all == [.finished])
  }

  @Test func aRefusedDescriptorSourceSaysWhy() throws {
    let pipe = Pipe()
    defer { pipe.close() }
    let errors = Log<Int32>()
    @Sendable func note(_ body: () throws(LoopError) -> Void) {
      do throws(LoopError) { try body() } catch { errors.append(error.errorNumber) }
    }
    let ended = try onFreshLoop { $0 }
    _ = try onFreshLoop { loop in
      let invalid = Loop.DescriptorSource(pipe.reading) { _, _ in }
      invalid.invalidate()
      note { () throws(LoopError) in try loop.add(invalid) }
      let foreign = Loop.DescriptorSource(pipe.reading) { _, _ in }
      _ = try onFreshLoop { other in try other.add(foreign, to: .tests) }
      note { () throws(LoopError) in try loop.add(foreign) }
      note { () throws(LoopError) in try ended.watch(pipe.reading) { _, _ in } }
    }
    #expect(errors.all == [EINVAL, EINVAL, ESRCH])
  }
}
