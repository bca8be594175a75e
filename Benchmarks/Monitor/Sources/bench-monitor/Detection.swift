import BenchmarkSupport
import Foundation
import Glibc
import LoopEngine
import StallMonitor
import Synchronization

/// Measures how late a stall is found, when its line can be read, and how long a running loop is
/// paused for its stack.
enum Detection {
  private static let threshold = Duration.milliseconds(20)
  private static let stalls = 200

  /// The longest gaps that the stalling code saw between two readings of the clock, one a stall, around the threshold.
  private final class Gaps: Sendable {
    let values = Mutex<[Double]>([])
  }

  static func run() throws -> [BenchmarkRow] {
    let unwatched = try stall(watched: false, interrupting: false).gaps
    let interrupted = try stall(watched: false, interrupting: true).gaps
    let watched = try stall(watched: true, interrupting: false)
    let waits = TimedWait.latenesses(count: stalls, of: threshold)
    return [
      BenchmarkRow(
        benchmark: "detection, p99", subject: "a thread that only waits until then", value: waits.percentile(0.99),
        unit: "ms", ratio: 1),
      BenchmarkRow(benchmark: "detection, p50", subject: "past the threshold", value: watched.late.median, unit: "ms"),
      BenchmarkRow(
        benchmark: "detection, p99", subject: "past the threshold", value: watched.late.percentile(0.99), unit: "ms",
        ratio: watched.late.percentile(0.99) / waits.percentile(0.99), bar: 1),
      BenchmarkRow(
        benchmark: "line readable, p50", subject: "past the threshold", value: watched.read.median, unit: "ms"),
      BenchmarkRow(
        benchmark: "line readable, p99", subject: "past the threshold", value: watched.read.percentile(0.99), unit: "ms"
      ),
      BenchmarkRow(
        benchmark: "pause of a running loop, p50", subject: "nobody interrupts", value: unwatched.median, unit: "us"),
      BenchmarkRow(
        benchmark: "pause of a running loop, p50", subject: "empty signal handler", value: interrupted.median,
        unit: "us", ratio: 1),
      BenchmarkRow(
        benchmark: "pause of a running loop, p50", subject: "StallMonitor", value: watched.gaps.median, unit: "us",
        ratio: watched.gaps.median / interrupted.median),
    ]
  }

  private static func stall(
    watched: Bool, interrupting: Bool
  ) throws -> (late: [Double], read: [Double], gaps: [Double]) {
    let path = NSTemporaryDirectory() + "bench-monitor-\(getpid()).fifo"
    guard mkfifo(path, 0o600) == 0 else { throw POSIXError(.EIO) }
    defer { unlink(path) }
    // Read and write, so that it opens without a peer.
    let descriptor = open(path, O_RDWR)
    defer { close(descriptor) }
    let begins = Mutex<[Double]>([])
    let reader = Reader(descriptor)
    let limit = Double(threshold / .nanoseconds(1))
    let gaps = Gaps()
    let loop = Loop.main
    let interrupter = interrupting ? Interrupter(target: pthread_self()) : nil
    var monitor: StallMonitor?
    if watched {
      var configuration = StallMonitorConfiguration()
      // Each stall is reported, although all are the same.
      configuration.repeatWindow = .zero
      configuration.maximumReportsPerMinute = 0
      configuration.threshold = threshold
      configuration.sink = .file(path: path)
      monitor = try StallMonitor.start(configuration)
    }
    let left = Atomic<Int>(stalls)
    let timer = Loop.Timer(after: .milliseconds(10), repeats: true) { _ in
      let start = nanoseconds()
      begins.withLock { $0.append(start) }
      interrupter?.signal(at: start + limit)
      var last = start
      var longest = 0.0
      // Past the threshold by far enough to be found, and not by enough for a second sample.
      while last < start + limit + 8e6 {
        let time = nanoseconds()
        if time > start + limit - 1e5 && time < start + limit + 5e6 { longest = max(longest, time - last) }
        last = time
      }
      gaps.values.withLock { $0.append(longest / 1e3) }
      if left.subtract(1, ordering: .relaxed).newValue == 0 { loop.stop() }
    }
    loop.add(timer)
    loop.run()
    timer.invalidate()
    interrupter?.end()
    monitor?.stop()
    let lines = reader.finish(expecting: watched ? 2 * stalls : 0)
    let started = lines.filter { $0.event == "stall.started" }
    let starts = begins.withLock { $0 }
    return (
      started.map { $0.duration - limit / 1e6 },
      // A line belongs to the last stall that could have caused it: the first ones may go by while symbols are read.
      started.compactMap { line in
        starts.last { $0 + limit < line.time }.map { (line.time - $0 - limit) / 1e6 }
      }, gaps.values.withLock { $0 }
    )
  }
}

/// A thread that waits until a deadline while another one computes, and nothing else: what the machine itself is late by.
private enum TimedWait {
  /// How late the thread woke each time, in milliseconds.
  static func latenesses(count: Int, of wait: Duration) -> [Double] {
    let results = Mutex<[Double]>([])
    let deadline = Atomic<UInt64>(0)
    let (isSet, isOver) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    Thread.detachNewThread {
      for _ in 0..<count {
        isSet.wait()
        let due = deadline.load(ordering: .acquiring)
        var time = timespec(tv_sec: Int(due / 1_000_000_000), tv_nsec: Int(due % 1_000_000_000))
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nil)
        results.withLock { $0.append((nanoseconds() - Double(due)) / 1e6) }
        isOver.signal()
      }
    }
    for _ in 0..<count {
      usleep(10_000)
      let due = UInt64(nanoseconds() + wait / .nanoseconds(1))
      deadline.store(due, ordering: .releasing)
      isSet.signal()
      while nanoseconds() < Double(due) + 8e6 {}
      isOver.wait()
    }
    return results.withLock { $0 }
  }
}

/// Reads report lines from a pipe as they come, with the time of each.
private final class Reader: Sendable {
  struct Line {
    var time: Double
    var event: String
    var duration: Double
  }

  private let lines = Mutex<[(time: Double, text: Data)]>([])
  private let descriptor: Int32

  init(_ descriptor: Int32) {
    self.descriptor = descriptor
    Thread.detachNewThread { [self] in
      var buffer = [UInt8](repeating: 0, count: 65_536)
      var text = Data()
      while true {
        let count = read(descriptor, &buffer, buffer.count)
        if count <= 0 { return }
        let time = nanoseconds()
        text.append(contentsOf: buffer[..<count])
        while let end = text.firstIndex(of: UInt8(ascii: "\n")) {
          let line = Data(text[..<end])
          text = Data(text[(end + 1)...])
          if line.isEmpty { return }
          lines.withLock { $0.append((time, line)) }
        }
      }
    }
  }

  func finish(expecting count: Int) -> [Line] {
    let end = nanoseconds() + 2e9
    while lines.withLock({ $0.count }) < count, nanoseconds() < end { usleep(10_000) }
    write(descriptor, "\n", 1)
    return lines.withLock { lines in
      lines.compactMap { time, text in
        guard let object = try? JSONSerialization.jsonObject(with: text) as? [String: Any],
          let event = (object["event"] as? [String: Any])?["name"] as? String,
          let duration = (object["stall"] as? [String: Any])?["duration_ms"] as? Double
        else { return nil }
        return Line(time: time, event: event, duration: duration)
      }
    }
  }
}

/// Sends one signal with an empty handler to the main thread at each time that is asked for: the least that interrupting a
/// running thread can cost.
private final class Interrupter: Sendable {
  private let next = Mutex<Double>(0)
  private let isDone = Atomic<Bool>(false)

  init(target: pthread_t) {
    var action = sigaction()
    action.__sigaction_handler.sa_handler = { _ in }
    action.sa_flags = SA_RESTART
    sigaction(SIGUSR2, &action, nil)
    Thread.detachNewThread { [self] in
      while !isDone.load(ordering: .relaxed) {
        let time = next.withLock { $0 }
        let left = time - nanoseconds()
        if time > 0 && left < 1e5 {
          while nanoseconds() < time {}
          pthread_kill(target, SIGUSR2)
          next.withLock { $0 = 0 }
        } else {
          var pause = timespec(tv_sec: 0, tv_nsec: 100_000)
          nanosleep(&pause, nil)
        }
      }
    }
  }

  func signal(at time: Double) { next.withLock { $0 = time } }
  func end() { isDone.store(true, ordering: .relaxed) }
}
