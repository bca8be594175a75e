import BenchmarkSupport
import CTarget
import CUnwind
import Foundation

@testable import StallCapture
@testable import StallMonitor
@testable import StallReport

/// What it takes to name the frames of a stack: module, build ID, function, file, line and inlined calls.
enum Symbolication {
  static func run() throws -> [BenchmarkRow] {
    // Opaque to Swift; its functions for other threads are atomic.
    nonisolated(unsafe) let target = target_create(TARGET_WAITS, 100)!
    // Half of it Swift, half of it C.
    let thread = Thread { SwiftTower(target: target).first(100) }
    thread.stackSize = 1 << 20
    thread.start()
    while target_thread(target) == 0 { usleep(1000) }
    defer { target_stop(target) }
    let capture = ThreadCapture(of: .own)
    let backtrace = try capture.capture(ThreadProbe(thread: target_thread(target), of: .own), stackEnd: 0).backtrace
      .get()
    let reader = FrameReader(executablePath: ProcessFacts.executablePath())
    let namer = FrameNamer()
    namer.prepareThread()
    func resolve() -> (time: Double, named: Double) {
      let start = nanoseconds()
      let frames = namer.names(of: reader.frames(of: backtrace))
      let time = nanoseconds() - start
      return (time, Double(frames.count { $0.symbol != nil && $0.line != nil }))
    }
    let cold = resolve()
    let count = Double(backtrace.frames.count)
    let sameStall = (0..<500).map { _ in resolve().time / count }
    let nextStall = (0..<500).map { _ in
      reader.flush()
      return resolve().time / count
    }
    let name = "naming a stack of \(backtrace.frames.count) frames"
    return [
      BenchmarkRow(benchmark: name, subject: "first", value: cold.time / 1e6, unit: "ms"),
      BenchmarkRow(benchmark: name, subject: "frames with their line", value: resolve().named, unit: "frames"),
      BenchmarkRow(
        benchmark: name, subject: "again in the same stall", value: sameStall.median, unit: "ns a frame", bar: 1000),
      BenchmarkRow(
        benchmark: name, subject: "again in the next stall", value: nextStall.median, unit: "ns a frame", bar: 1000),
    ]
  }
}
