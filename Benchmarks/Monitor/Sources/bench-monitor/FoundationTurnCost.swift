import Foundation
import Glibc
import StallMonitor
import Synchronization

/// What a turn of Foundation's main run loop costs more with the monitor: unwatched and watched in turn, in one run, in a process whose
/// main thread has run no other loop.
///
/// Processor time. A turn is a pass of the loop that waits and passes all activities: what is performed wakes the loop for the
/// next one. CoreFoundation performs blocks at two places of a pass, so there are two to a turn.
enum FoundationTurnCost {
  private static let blocks = 20_000
  private static let rounds = 15

  static func run() throws -> [Row] {
    let numbers = try HostProcess.run("foundation")
    guard numbers.count == 5 else { throw POSIXError(.ECHILD) }
    return [
      Row(benchmark: "turn", subject: "Foundation's run loop alone", value: numbers[0], unit: "ns"),
      Row(
        benchmark: "turn", subject: "Foundation's with StallMonitor", value: numbers[1], unit: "ns",
        ratio: numbers[1] / numbers[0]),
      Row(benchmark: "turn", subject: "added by one empty activity", value: numbers[4], unit: "ns"),
      Row(benchmark: "turn", subject: "added by empty observers", value: numbers[3], unit: "ns", ratio: 1),
      Row(
        benchmark: "turn", subject: "added to Foundation's", value: numbers[2], unit: "ns",
        ratio: numbers[2] / numbers[3], bar: 60),
    ]
  }

  /// The process: prints the times of a turn, and what the monitor adds.
  static func host() throws -> Never {
    // As in any service that has Foundation there is another thread; see ``TurnCost``.
    Thread.detachNewThread { sleep(3600) }
    _ = measure()
    // First: CoreFoundation goes on to look for observers of an activity that once had one.
    let single = (0..<rounds).map { _ in
      let before = measure()
      let end = observe([(afterWaiting, .min)])
      defer { end() }
      return measure() - before
    }
    var bare: [Double] = []
    var watched: [Double] = []
    var observed: [Double] = []
    for _ in 0..<rounds {
      bare.append(measure())
      var configuration = StallMonitorConfiguration()
      configuration.sink = .file(path: "/dev/null")
      let monitor = try StallMonitor.start(configuration)
      watched.append(measure())
      monitor.stop()
      let end = observe([(entry | beforeSources | afterWaiting, .min), (beforeWaiting | exitActivity, .max)])
      observed.append(measure())
      end()
    }
    // CoreFoundation performs blocks at two places of a turn.
    let scale = blocksPerTurn()
    let rows = [
      bare.median, watched.median, zip(watched, bare).map { $0 - $1 }.median,
      zip(observed, bare).map { $0 - $1 }.median, single.median,
    ]
    for row in rows { print(row * scale) }
    exit(0)
  }

  /// Of the calling thread, in nanoseconds: a turn here takes some microseconds, of which other processes would take as much.
  private static func processorTime() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return Double(time.tv_sec) * 1e9 + Double(time.tv_nsec)
  }

  /// `CFRunLoopWakeUp` of the main run loop, which Foundation's module does not have.
  private static let wakeUp: @Sendable () -> Void = {
    let main = unsafeBitCast(
      dlsym(nil, "CFRunLoopGetMain"), to: (@convention(c) () -> UnsafeMutableRawPointer).self)
    let wakeUp = unsafeBitCast(
      dlsym(nil, "CFRunLoopWakeUp"), to: (@convention(c) (UnsafeMutableRawPointer) -> Void).self)
    return { wakeUp(main()) }
  }()

  // CFRunLoopActivity (CFRunLoop.h).
  private static let entry: UInt = 1
  private static let beforeSources: UInt = 4
  private static let beforeWaiting: UInt = 32
  private static let afterWaiting: UInt = 64
  private static let exitActivity: UInt = 128

  private typealias Object = UnsafeMutableRawPointer
  private typealias Callout = @convention(c) (Object?, UInt, Object?) -> Void

  /// Observers of the common modes by activities and order, which do nothing unless told: what CoreFoundation itself charges for them.
  ///
  /// The result ends them.
  private static func observe(_ wanted: [(activities: UInt, order: Int)], _ callout: Callout = { _, _, _ in })
    -> () -> Void
  {
    let main = unsafeBitCast(dlsym(nil, "CFRunLoopGetMain"), to: (@convention(c) () -> Object).self)()
    let create = unsafeBitCast(
      dlsym(nil, "CFRunLoopObserverCreate"),
      to: (@convention(c) (Object?, UInt, UInt8, Int, Callout, Object?) -> Object).self)
    let add = unsafeBitCast(
      dlsym(nil, "CFRunLoopAddObserver"), to: (@convention(c) (Object, Object, Object) -> Void).self)
    let invalidate = unsafeBitCast(
      dlsym(nil, "CFRunLoopObserverInvalidate"), to: (@convention(c) (Object) -> Void).self)
    let modes = dlsym(nil, "kCFRunLoopCommonModes").load(as: Object.self)
    let observers = wanted.map { create(nil, $0.activities, 1, $0.order, callout, nil) }
    for observer in observers { add(main, observer, modes) }
    return { for observer in observers { invalidate(observer) } }
  }

  private static let waits = Atomic<Int>(0)
  private static let countWait: @Sendable @convention(c) (Object?, UInt, Object?) -> Void = { _, _, _ in
    waits.add(1, ordering: .relaxed)
  }

  /// How many of ``measure()``'s blocks a turn has.
  private static func blocksPerTurn() -> Double {
    let end = observe([(beforeWaiting, .max)], countWait)
    _ = measure()
    end()
    return Double(blocks) / Double(waits.load(ordering: .relaxed))
  }

  private final class Count: Sendable {
    let left = Atomic<Int>(blocks)
    let end = Mutex<Double?>(nil)
  }

  /// Nanoseconds a block.
  private static func measure() -> Double {
    let count = Count()
    @Sendable func turn() {
      if count.left.subtract(1, ordering: .relaxed).newValue == 0 {
        count.end.withLock { $0 = processorTime() }
      } else {
        RunLoop.main.perform { turn() }
        wakeUp()
      }
    }
    RunLoop.main.perform { turn() }
    let start = processorTime()
    while true {
      if let end = count.end.withLock({ $0 }) { return (end - start) / Double(blocks) }
      _ = RunLoop.main.run(mode: .default, before: Date(timeIntervalSinceNow: 0.05))
    }
  }
}
