import CTarget
import CUnwind
import Foundation

@testable import StallMonitor

/// What it takes to name the frames of a stack: module, build id, function, file, line and inlined calls.
enum Symbolication {
  static func run() throws -> [Row] {
    let target = target_create(TARGET_WAITS, 200)!
    target_start(target, -1, nil)
    defer { target_stop(target) }
    let capture = ThreadCapture()
    let backtrace = try capture.capture(ThreadProbe(thread: target_thread(target)), stackEnd: 0).backtrace.get()
    let resolver = FrameResolver(executablePath: ProcessFacts.executablePath())
    resolver.prepareThread()
    func resolve() -> (time: Double, named: Double) {
      let start = now()
      let frames = resolver.resolve(backtrace)
      let time = now() - start
      return (time, Double(frames.count { $0.symbol != nil && $0.line != nil }))
    }
    let cold = resolve()
    let warm = (0..<200).map { _ in resolve().time / Double(backtrace.frames.count) }
    let name = "naming a stack of \(backtrace.frames.count) frames"
    return [
      Row(benchmark: name, subject: "first", value: cold.time / 1e6, unit: "ms"),
      Row(benchmark: name, subject: "frames with their line", value: resolve().named, unit: "frames"),
      Row(benchmark: name, subject: "warm", value: warm.median, unit: "ns a frame", bar: 1000),
    ]
  }
}
