import Foundation
import Glibc
import StallMonitor
import Synchronization

/// What a turn of Foundation's main run loop costs more with the monitor: unwatched and watched in turn, in one run, in a process whose
/// main thread has run no other loop.
///
/// Processor time. Each turn waits: what is performed wakes the loop for the next one.
enum FoundationTurnCost {
  private static let turns = 20_000
  private static let rounds = 15

  static func run() throws -> [Row] {
    let numbers = try HostProcess.run("foundation")
    guard numbers.count == 4 else { throw POSIXError(.ECHILD) }
    return [
      Row(benchmark: "turn", subject: "Foundation's run loop alone", value: numbers[0], unit: "ns"),
      Row(
        benchmark: "turn", subject: "Foundation's with StallMonitor", value: numbers[1], unit: "ns",
        ratio: numbers[1] / numbers[0]),
      Row(
        benchmark: "turn", subject: "added by observers that do nothing", value: numbers[3], unit: "ns", ratio: 1),
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
      let end = observeIdly()
      observed.append(measure())
      end()
    }
    print(
      bare.median, watched.median, zip(watched, bare).map { $0 - $1 }.median, zip(observed, bare).map { $0 - $1 }.median
    )
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

  /// Two observers with the monitor's activities, which do nothing: what CoreFoundation itself charges for them.
  ///
  /// The result ends it.
  private static func observeIdly() -> () -> Void {
    typealias Object = UnsafeMutableRawPointer
    let main = unsafeBitCast(dlsym(nil, "CFRunLoopGetMain"), to: (@convention(c) () -> Object).self)()
    let create = unsafeBitCast(
      dlsym(nil, "CFRunLoopObserverCreate"),
      to: (@convention(c) (Object?, UInt, UInt8, Int, @convention(c) (Object?, UInt, Object?) -> Void, Object?) ->
        Object).self)
    let add = unsafeBitCast(
      dlsym(nil, "CFRunLoopAddObserver"), to: (@convention(c) (Object, Object, Object) -> Void).self)
    let invalidate = unsafeBitCast(
      dlsym(nil, "CFRunLoopObserverInvalidate"), to: (@convention(c) (Object) -> Void).self)
    let modes = dlsym(nil, "kCFRunLoopCommonModes").load(as: Object.self)
    let observers = [(1 | 4 | 64, Int.min), (32 | 128, Int.max)].map { activities, order in
      create(nil, UInt(activities), 1, order, { _, _, _ in }, nil)
    }
    for observer in observers { add(main, observer, modes) }
    return { for observer in observers { invalidate(observer) } }
  }

  private final class Count: Sendable {
    let left = Atomic<Int>(turns)
    let end = Mutex<Double?>(nil)
  }

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
      if let end = count.end.withLock({ $0 }) { return (end - start) / Double(turns) }
      _ = RunLoop.main.run(mode: .default, before: Date(timeIntervalSinceNow: 0.05))
    }
  }
}
