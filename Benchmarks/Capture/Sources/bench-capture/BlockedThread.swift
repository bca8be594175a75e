import BenchmarkSupport
import CTarget
import CUnwind
import Foundation

@testable import StallCapture
@testable import StallMonitor
@testable import StallReport

/// Measures what a thread that waits in a system call notices of a capture.
enum BlockedThread {
  private static let captures = 1000

  static func run() throws -> [BenchmarkRow] {
    let target = target_create(TARGET_WAITS, 200)!
    let capture = ThreadCapture(of: .own)
    target_start(target, -1) { cunwind_prepare_thread_for_timer() }
    defer { target_stop(target) }
    let probe = ThreadProbe(thread: target_thread(target), of: .own)
    let alone = watch(target) { usleep(1_000_000) }
    _ = target_was_signalled(target)
    var (slices, whole, times) = (0, 0, [Double]())
    let captured = watch(target) {
      let deadline = nanoseconds() + 5e9
      while times.count < captures, nanoseconds() < deadline {
        usleep(300)
        // In this order: asleep at the second, whatever wakes it later is counted by the first or the third.
        let calls = target_calls(target)
        guard case .blocked = probe.activity() else { continue }
        let before = probe.schedule()?.timeslices
        let start = nanoseconds()
        let moment = capture.capture(probe, stackEnd: 0)
        let time = nanoseconds() - start
        // One that met the end of a call met a thread that was awake by itself.
        let after = probe.schedule()?.timeslices
        guard case .blocked = moment.activity, target_calls(target) == calls else { continue }
        if case .success(let backtrace) = moment.backtrace, !backtrace.isTruncated { whole += 1 }
        if before != after {
          // Its wait may have ended by itself at this moment: once it waits again, it has counted that.
          while case .running = probe.activity() { usleep(100) }
          if target_calls(target) == calls { slices += 1 }
        }
        times.append(time / 1e3)
      }
    }
    let name = "blocked thread, \(times.count) captures"
    return [
      BenchmarkRow(benchmark: name, subject: "whole stacks", value: Double(whole), unit: "stacks"),
      BenchmarkRow(
        benchmark: name, subject: "times the thread ran because of a capture", value: Double(slices), unit: "times",
        bar: 0),
      BenchmarkRow(
        benchmark: name, subject: "signals", value: target_was_signalled(target) ? 1 : 0, unit: "taken", bar: 0),
      BenchmarkRow(
        benchmark: name, subject: "calls broken (EINTR, early)", value: Double(captured.broken), unit: "calls", bar: 0),
      BenchmarkRow(
        benchmark: name, subject: "end of a 5 ms wait, uncaptured", value: alone.lateness.median / 1e3, unit: "us late"),
      BenchmarkRow(
        benchmark: name, subject: "end of a 5 ms wait, captured", value: captured.lateness.median / 1e3,
        unit: "us late"),
      BenchmarkRow(benchmark: name, subject: "watchdog time per capture", value: times.median, unit: "us"),
    ]
  }

  /// What the target has noticed during `body`.
  private static func watch(_ target: OpaquePointer, _ body: () -> Void) -> (lateness: [Double], broken: UInt64) {
    target_open_window(target)
    body()
    var lateness = [Double](repeating: 0, count: 4096)
    let count = lateness.withUnsafeMutableBufferPointer { target_lateness(target, $0.baseAddress, $0.count) }
    return (Array(lateness[..<count]), target_broken_calls(target))
  }
}
