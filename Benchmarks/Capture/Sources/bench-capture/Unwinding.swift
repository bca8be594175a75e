import BenchmarkSupport
import CTarget
import CUnwind
import Foundation

@testable import StallCapture
@testable import StallMonitor

/// Measures how long the watchdog takes to unwind a copied stack, after the thread has continued.
enum Unwinding {
  static func run() throws -> [BenchmarkRow] {
    if let problem = cunwind_load() { throw BenchmarkError(String(cString: problem)) }
    guard let unwinder = cunwind_unwinder_create(cunwind_own_process()) else {
      throw BenchmarkError("no memory for an unwinder")
    }
    defer { cunwind_unwinder_destroy(unwinder) }
    return try [(TARGET_RUNS, "running"), (TARGET_WAITS, "blocked")].flatMap { leaf, state in
      let target = target_create(leaf, 200)!
      target_start(target, -1) { cunwind_prepare_thread_for_timer() }
      defer { target_stop(target) }
      usleep(20_000)
      guard RunningThread.claim() else { throw BenchmarkError("the snapshot memory is taken") }
      defer { cunwind_snapshot_release(cunwind_own_process()) }
      var snapshot = cunwind_snapshot()
      try take(target, leaf, &snapshot)
      var frames = [cunwind_frame](repeating: cunwind_frame(), count: 2048)
      func unwind() throws -> Double {
        let start = nanoseconds()
        let result = cunwind_unwind(unwinder, &snapshot, &frames, frames.count)
        let time = nanoseconds() - start
        guard result.end == CUNWIND_END_OUTERMOST, result.count > 200 else {
          throw BenchmarkError("the stack of a \(state) thread ends after \(result.count) frames")
        }
        return time / Double(result.count)
      }
      let cold = try (0..<15).map { _ in
        cunwind_unwinder_flush(unwinder)
        return try unwind()
      }
      let warm = try (0..<200).map { _ in try unwind() }
      let name = "unwinding, \(state), 200 frames"
      return [
        BenchmarkRow(benchmark: name, subject: "first after a flush", value: cold.median, unit: "ns a frame"),
        BenchmarkRow(benchmark: name, subject: "warm", value: warm.median, unit: "ns a frame", bar: 800),
      ]
    }
  }

  private static func take(
    _ target: OpaquePointer, _ leaf: target_leaf, _ snapshot: inout cunwind_snapshot
  ) throws {
    let thread = target_thread(target)
    if leaf == TARGET_RUNS {
      guard Snapshots.take(of: thread, into: &snapshot) else {
        throw BenchmarkError("the running thread did not answer")
      }
      return
    }
    let probe = ThreadProbe(thread: thread, of: .own)
    for _ in 0..<1000 {
      guard case .blocked(let call) = probe.activity() else { continue }
      guard cunwind_snapshot_read(cunwind_own_process(), call.stackPointer, 0, &snapshot) else { break }
      snapshot.registers.16 = call.programCounter
      snapshot.registers.7 = call.stackPointer
      snapshot.known = 1 << 16 | 1 << 7
      if probe.activity() == .blocked(call) { return }
    }
    throw BenchmarkError("the waiting thread was never met asleep")
  }
}

/// Copies of running threads.
enum Snapshots {
  /// By a perf event where that is permitted, or by the timer.
  static func take(of thread: Int32, into snapshot: inout cunwind_snapshot) -> Bool {
    var perf = cunwind_perf()
    if cunwind_perf_open(&perf, cunwind_own_process(), thread) == CUNWIND_CAPTURED {
      defer { cunwind_perf_close(&perf) }
      return cunwind_perf_request(&perf) && cunwind_perf_wait(&perf, 1_000_000_000, &snapshot) == CUNWIND_CAPTURED
    }
    var timer = cunwind_timer()
    defer { cunwind_timer_end(&timer) }
    return cunwind_timer_begin(&timer, thread, cunwind_timer_signal(0)) == CUNWIND_CAPTURED
      && cunwind_timer_wait(&timer, 1_000_000_000, &snapshot) == CUNWIND_CAPTURED
  }
}
