import BenchmarkSupport
import CTarget
import CUnwind
import Foundation

@testable import StallMonitor

/// How long a thread that computes is held for its own copy.
///
/// As the thread itself sees it: the longest gap between two readings of its time stamp counter. Beside it a handler that does nothing,
/// for a signal that is sent (the least that any signal costs) and for one that a timer raises at a tick of the kernel's clock, as a capture's.
enum RunningThread {
  private static let rounds = 600

  static func run() throws -> [BenchmarkRow] {
    let signal = cunwind_timer_signal(0)
    guard signal > 0, target_install_empty_handler() else { throw BenchmarkError("no signal is free") }
    guard cunwind_load() == nil, let unwinder = cunwind_unwinder_create(cunwind_own_process()) else {
      throw BenchmarkError("no libunwind")
    }
    defer { cunwind_unwinder_destroy(unwinder) }
    var unwound = [cunwind_frame](repeating: cunwind_frame(), count: 2048)
    let tick = target_tick_length() / 1e3
    var (first, last) = (Int32(), Int32())
    target_processors(&first, &last)
    target_pin(first)
    defer { target_pin(-1) }
    return try [20, 200, 1000].flatMap { frames in
      let target = target_create(TARGET_RUNS, UInt32(frames))!
      target_start(target, last) { cunwind_prepare_thread_for_timer() }
      defer { target_stop(target) }
      guard claim() else { throw BenchmarkError("the snapshot memory is taken") }
      defer { cunwind_snapshot_release(cunwind_own_process()) }
      var gaps = (nothing: [Double](), sent: [Double](), empty: [Double](), perf: [Double](), timer: [Double]())
      var perf = cunwind_perf()
      let hasPerf = cunwind_perf_open(&perf, cunwind_own_process(), target_thread(target)) == CUNWIND_CAPTURED
      defer { cunwind_perf_close(&perf) }
      var bytes = 0
      func gap(_ interrupt: () -> Bool) -> Double? {
        usleep(200)
        target_open_window(target)
        return interrupt() ? Double(target_longest_gap(target)) * tick : nil
      }
      for round in 0..<rounds {
        if let gap = gap({ target_interrupt(target) }) { gaps.sent.append(gap) }
        let isTicked = round % 4 < 2
        let empty = { if let gap = gap({ target_interrupt_by_timer(target) }) { gaps.empty.append(gap) } }
        if round % 4 == 0 { empty() }
        var snapshot = cunwind_snapshot()
        if hasPerf {
          let sampled = gap {
            cunwind_perf_request(&perf) && cunwind_perf_wait(&perf, 200_000_000, &snapshot) == CUNWIND_CAPTURED
          }
          if let sampled { gaps.perf.append(sampled) }
        }
        // A tick of the kernel's clock each, so not in each round.
        let copied =
          !isTicked
          ? nil
          : gap {
            var timer = cunwind_timer()
            defer { cunwind_timer_end(&timer) }
            return cunwind_timer_begin(&timer, target_thread(target), signal) == CUNWIND_CAPTURED
              && cunwind_timer_wait(&timer, 200_000_000, &snapshot) == CUNWIND_CAPTURED
          }
        if let copied {
          gaps.timer.append(copied)
          bytes = Int(snapshot.stack_length)
          // As in life, where the copy has been read on another processor before the next one is made.
          _ = cunwind_unwind(unwinder, &snapshot, &unwound, unwound.count)
        }
        if round % 4 == 1 { empty() }
        let nothing = gap {
          let end = nanoseconds() + 2e4
          while nanoseconds() < end {}
          return true
        }
        if let nothing { gaps.nothing.append(nothing) }
      }
      let name = "pause of a running thread, \(frames) frames"
      return [
        BenchmarkRow(
          benchmark: name, subject: "longest gap in 20 us without a signal (noise)", value: gaps.nothing.median,
          unit: "us"),
        BenchmarkRow(benchmark: name, subject: "empty handler, signal sent", value: gaps.sent.median, unit: "us"),
        BenchmarkRow(benchmark: name, subject: "empty handler, timer", value: gaps.empty.median, unit: "us", ratio: 1),
        BenchmarkRow(
          benchmark: name, subject: "StallMonitor, timer (\((bytes + 512) / 1024) KiB)", value: gaps.timer.median,
          unit: "us", ratio: gaps.timer.median / gaps.empty.median, bar: 1.2),
      ]
        + (hasPerf
          ? [
            BenchmarkRow(
              benchmark: name, subject: "StallMonitor, perf event", value: gaps.perf.median, unit: "us",
              ratio: gaps.perf.median / gaps.empty.median, bar: 1.2)
          ] : [])
    }
  }

  static func claim() -> Bool {
    for _ in 0..<1000 {
      if cunwind_snapshot_claim(cunwind_own_process()) { return true }
      usleep(1000)
    }
    return false
  }
}
