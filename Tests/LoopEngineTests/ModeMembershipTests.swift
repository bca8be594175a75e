import Glibc
import LoopEngine
import Testing

/// Which items are in which modes: after additions and removals, and as other threads see it.
@Suite struct ModeMembershipTests {
  /// One item of each kind.
  ///
  /// Each records when it is called.
  struct Items {
    let timer: Loop.Timer
    let source: Loop.Source
    let observer: Loop.Observer
    let watch: Loop.DescriptorSource

    init(_ log: Log<String>, _ descriptor: Int32) {
      timer = Loop.Timer(at: .distantPast, every: .microseconds(1)) { _ in log.append("timer") }
      source = Loop.Source { log.append("source") }
      observer = Loop.Observer(.entry) { _, _ in log.append("observer") }
      watch = Loop.DescriptorSource(descriptor) { _, _ in log.append("watch") }
    }

    func add(to loop: Loop, _ mode: Loop.Mode) throws {
      loop.add(timer, to: mode)
      loop.add(source, to: mode)
      loop.add(observer, to: mode)
      try loop.add(watch, to: mode)
    }

    func remove(from loop: Loop, _ mode: Loop.Mode) {
      loop.remove(timer, from: mode)
      loop.remove(source, from: mode)
      loop.remove(observer, from: mode)
      loop.remove(watch, from: mode)
    }

    func areIn(_ loop: Loop, _ mode: Loop.Mode) -> [Bool] {
      [
        loop.contains(timer, in: mode), loop.contains(source, in: mode), loop.contains(observer, in: mode),
        loop.contains(watch, in: mode),
      ]
    }
  }

  static let all = ["observer", "source", "timer", "watch"]

  @Test(arguments: [false, true]) func aRemovalFromOneCommonModeLeavesTheOthers(byAnotherThread: Bool) throws {
    let log = Log<String>()
    let pipe = Pipe()
    defer { pipe.close() }
    pipe.write()
    let steps = try onFreshLoop { loop in
      let items = Items(log, pipe.reading)
      func served(_ mode: Loop.Mode) -> [String] {
        items.source.signal()
        loop.run(mode: mode, for: .zero)
        return Set(log.takeAll()).sorted()
      }
      func isFinished(_ mode: Loop.Mode) -> Bool { loop.run(mode: mode, for: .zero) == .finished }
      /// Here, or on another thread, which this one waits for.
      func change(_ body: @escaping @Sendable () -> Void) {
        if byAnotherThread { TestThread(body).join() } else { body() }
      }
      loop.addCommonMode(.tests)
      try items.add(to: loop, .common)
      var steps = [served(.default), served(.tests)]
      change { items.remove(from: loop, .default) }
      // Nothing is left in the one; all is as before in the other, and in one that becomes common later.
      steps.append(isFinished(.default) ? [] : ["not empty"])
      steps += [served(.default), served(.tests)]
      loop.addCommonMode(.other)
      steps.append(served(.other))
      #expect(items.areIn(loop, .common) == [true, true, true, true])
      // Once more to all of them: it is in that mode again.
      try items.add(to: loop, .common)
      steps.append(served(.default))
      change { items.remove(from: loop, .tests) }
      steps += [served(.tests), served(.other)]
      change { items.remove(from: loop, .common) }
      #expect(items.areIn(loop, .common) == [false, false, false, false])
      for mode in [Loop.Mode.default, .tests, .other] { steps.append(isFinished(mode) ? [] : ["not empty"]) }
      #expect(items.timer.isValid && items.source.isValid && items.observer.isValid && items.watch.isValid)
      return steps
    }
    let (all, none) = (Self.all, [String]())
    #expect(steps == [all, all, none, none, all, all, all, none, all, none, none, none])
  }

  @Test func everyRemovalHasItsEffectInAnyOrder() throws {
    let log = Log<String>()
    let pipe = Pipe()
    defer { pipe.close() }
    pipe.write()
    _ = try onFreshLoop { loop in
      loop.addCommonMode(.tests)
      for first in [Loop.Mode.default, .tests, .common] {
        for second in [Loop.Mode.default, .tests, .common] {
          let items = Items(log, pipe.reading)
          try items.add(to: loop, first)
          try items.add(to: loop, second)
          for mode in [Loop.Mode.tests, .default, .common] { items.remove(from: loop, mode) }
          for mode in [Loop.Mode.default, .tests] { #expect(loop.run(mode: mode, for: .zero) == .finished) }
          #expect(log.takeAll() == [])
          // Nothing is left behind: it can be added again, and ends.
          try items.add(to: loop, .common)
          items.remove(from: loop, .default)
          items.timer.invalidate()
          items.source.invalidate()
          items.observer.invalidate()
          items.watch.invalidate()
          for mode in [Loop.Mode.default, .tests] { #expect(loop.run(mode: mode, for: .zero) == .finished) }
        }
      }
    }
  }

  @Test func otherThreadsMayAskWhatIsInAMode() async {
    await #expect(processExitsWith: .success) {
      let log = Log<String>()
      let pipe = Pipe()
      let loops = Log<Loop>()
      let go = Pipe()
      // A loop that is not run meanwhile: nobody waits for it.
      let owner = TestThread {
        loops.append(.current)
        go.read()
      }
      while loops.all.isEmpty { sleepBriefly() }
      let loop = loops.all[0]
      let items = Items(log, pipe.reading)
      guard loop.nextTimerDate(in: .default) == nil else { exit(1) }
      guard items.areIn(loop, .default) == [false, false, false, false] else { exit(2) }
      try items.add(to: loop, .default)
      guard items.areIn(loop, .default) == [true, true, true, true] else { exit(3) }
      guard loop.nextTimerDate(in: .default) == .distantPast else { exit(4) }
      items.remove(from: loop, .default)
      guard items.areIn(loop, .default) == [false, false, false, false] else { exit(5) }
      try items.add(to: loop, .default)
      items.timer.invalidate()
      guard items.areIn(loop, .default) == [false, true, true, true] else { exit(6) }
      go.write()
      owner.join()
      guard items.areIn(loop, .default) == [false, false, false, false] else { exit(7) }
      guard loop.nextTimerDate(in: .default) == nil else { exit(8) }
      _ = Loop.main.nextTimerDate(in: .default)
      _ = Loop.main.contains(items.timer, in: .common)
      exit(0)
    }
  }

  @Test func otherThreadsMayAskWhileTheLoopChanges() throws {
    let isDone = Log<Bool>()
    let loops = Log<Loop>()
    let timers = (0..<8).map { _ in Loop.Timer(after: .seconds(1000)) { _ in } }
    let owner = TestThread {
      let loop = Loop.current
      loops.append(loop)
      while isDone.all.isEmpty {
        for (number, timer) in timers.enumerated() {
          for mode in [Loop.Mode.common, .tests, .other].prefix(1 + number % 3) { loop.add(timer, to: mode) }
        }
        for timer in timers { for mode in [Loop.Mode.other, .common, .tests] { loop.remove(timer, from: mode) } }
      }
    }
    while loops.all.isEmpty { sleepBriefly() }
    var count = 0
    for _ in 0..<20_000 {
      for timer in timers where loops.all[0].contains(timer, in: .tests) { count += 1 }
      if let date = loops.all[0].nextTimerDate(in: .tests), date < .now { count = -1_000_000_000 }
    }
    isDone.append(true)
    owner.join()
    #expect(count >= 0)
  }
}
