import CLinux
import LoopEngine
import Testing
import TurnSource

@Suite struct ObserverTests {
  @Test func rawValuesAreCoreFoundations() {
    #expect(Loop.Activity.entry.rawValue == 1)
    #expect(Loop.Activity.beforeTimers.rawValue == 2)
    #expect(Loop.Activity.beforeSources.rawValue == 4)
    #expect(Loop.Activity.beforeWaiting.rawValue == 32)
    #expect(Loop.Activity.afterWaiting.rawValue == 64)
    #expect(Loop.Activity.exit.rawValue == 128)
  }

  @Test func orderAscendsAndTiesGoByInsertionAcrossModes() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      loop.observe(.entry, order: 5) { _, _ in log.append("5") }
      loop.observe(.entry, in: .default, order: 1) { _, _ in log.append("1a") }
      loop.observe(.entry, in: .common, order: 1) { _, _ in log.append("1b") }
      loop.observe(.entry, order: -3) { _, _ in log.append("-3") }
      loop.perform {}
      return loop.run()
    }
    #expect(log.all == ["-3", "1a", "1b", "5"])
  }

  @Test func anObserverIsNotEnteredAgainWhileItFires() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      loop.observe(.entry) { _, _ in
        log.append("in")
        loop.perform {}
        loop.run()
        log.append("out")
      }
      loop.perform {}
      return loop.run()
    }
    #expect(log.all == ["in", "out"])
  }

  @Test func aOneShotObserverIsInvalidAfterItsCall() throws {
    let log = Log<Bool>()
    let valid = try onFreshLoop { loop in
      let observer = loop.observe(.beforeTimers, repeats: false) { observer, _ in log.append(observer.isValid) }
      loop.add(Loop.Source {})
      loop.run(mode: .default, for: .zero)
      loop.run(mode: .default, for: .zero)
      return observer.isValid
    }
    #expect(log.count == 1)
    #expect(!valid)
  }

  @Test func observersCanBeAddedAndRemovedWhileFiring() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      let victim = Loop.Observer(.entry, order: 2) { _, _ in log.append("victim") }
      loop.add(victim)
      loop.observe(.entry, order: 1) { _, _ in
        log.append("first")
        loop.remove(victim, from: .common)
        loop.observe(.entry, order: 3) { _, _ in log.append("late") }
      }
      loop.perform {}
      loop.run()
      loop.perform {}
      return loop.run()
    }
    #expect(log.all == ["first", "first", "late"])
  }

  @Test func anObserverBelongsToOneLoop() throws {
    let observer = Loop.Observer(.entry) { _, _ in }
    let first = try onFreshLoop { $0.add(observer) }
    let second = try onFreshLoop { $0.add(observer) }
    #expect(first && !second)
  }

  @Test func theMonitorsStampSeesEveryModePresentAndFuture() throws {
    let log = Log<String>()
    _ = try onFreshLoop { loop in
      // The stamps' words lie here: the word, what is asked, and the callouts.
      let words = UnsafeMutablePointer<UInt64>.allocate(capacity: 8)
      words.initialize(repeating: 0, count: 8)
      let late = UnsafeMutablePointer<clinux_late_turns>.allocate(capacity: 1)
      late.initialize(to: clinux_late_turns())
      defer { late.deallocate() }
      let stamps = (0..<2).map { _ in
        let stamp = UnsafeMutablePointer<clinux_turn_stamp>.allocate(capacity: 1)
        stamp.initialize(to: clinux_turn_stamp())
        stamp.pointee.word = words
        stamp.pointee.attention = UnsafePointer(UnsafeMutableRawPointer(words + 1).assumingMemoryBound(to: UInt32.self))
        stamp.pointee.callouts = UnsafeMutableRawPointer(words + 2).assumingMemoryBound(to: clinux_callouts.self)
        stamp.pointee.late = late
        stamp.pointee.context = Unmanaged.passUnretained(log).toOpaque()
        stamp.pointee.entry = { Unmanaged<Log<String>>.fromOpaque($0!).takeUnretainedValue().append("entry") }
        stamp.pointee.exit = { Unmanaged<Log<String>>.fromOpaque($0!).takeUnretainedValue().append("exit") }
        loop.add(TurnStamp(stamp))
        return stamp
      }
      loop.perform(in: .tests) {}
      loop.run(mode: .tests, for: .zero)
      for stamp in stamps {
        loop.remove(TurnStamp(stamp)) { log.append("removed") }
        loop.perform(in: "a mode of later") {}
        loop.run(mode: "a mode of later", for: .zero)
        stamp.deallocate()
      }
      words.deallocate()
      return true
    }
    #expect(log.all == ["entry", "entry", "exit", "exit", "removed", "entry", "exit", "removed"])
  }

  @Test func observersKeepNoModeFromBeingEmptyAndEndNoRunForOneSource() throws {
    let log = Log<String>()
    let results = try onFreshLoop { loop in
      let observer = loop.observe(.all) { _, activity in log.append("\(activity.rawValue)") }
      let first = loop.run()
      loop.perform {}
      let second = loop.run(mode: .default, before: .distantFuture)
      observer.invalidate()
      return [first, second]
    }
    #expect(results == [.finished, .finished])
    #expect(log.all == ["1", "2", "4", "128"])
  }

  @Test func anObserverIsCalledForItsActivitiesAloneWithOneAtATime() throws {
    let log = Log<Loop.Activity>()
    _ = try onFreshLoop { loop in
      loop.observe([.exit, .beforeSources]) { observer, activity in
        #expect(observer.activities == [.exit, .beforeSources] && observer.repeats && observer.order == 0)
        log.append(activity)
      }
      loop.observe([]) { _, activity in log.append(activity) }
      loop.perform {}
      return loop.run()
    }
    #expect(log.all == [.beforeSources, .exit])
  }

  @Test func allActivitiesAreTheSixAndThoseToCome() {
    let six: Loop.Activity = [.entry, .beforeTimers, .beforeSources, .beforeWaiting, .afterWaiting, .exit]
    #expect(Loop.Activity.all.isStrictSuperset(of: six) && six.rawValue == 231)
  }
}
