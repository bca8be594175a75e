import BenchmarkSupport
import Foundation

@testable import StallCapture
@testable import StallReport

// `make bench-capture`: what a capture costs the service. One run; ratios are against rows of the
// same run, and the exit code shows only that it ran.
//
// With `--child` it is one of the processes that it measures.

let parts: [(name: String, run: () throws -> [BenchmarkRow])] = [
  ("blocked", BlockedThread.run), ("running", RunningThread.run), ("tools", OtherTools.run),
  ("unwinding", Unwinding.run), ("naming", Symbolication.run), ("memory", FixedMemory.run),
  ("detection", Detection.run), ("throws", ThrowSpeed.run),
]

runBenchmark {
  if CommandLine.arguments.dropFirst().first == "--child" {
    try Child.run(Array(CommandLine.arguments.dropFirst(2)))
  } else if let only = CommandLine.arguments.dropFirst().first {
    // One part of it, and nothing is written.
    guard let part = parts.first(where: { $0.name == only }) else {
      throw BenchmarkError("no part is called \(only); there are: \(parts.map(\.name).joined(separator: ", "))")
    }
    if only == "tools" { requirePrograms(OtherTools.packages) }
    var results = BenchmarkTable()
    results.add(try part.run())
  } else {
    // Before it has measured for minutes.
    requirePrograms(OtherTools.packages)
    var results = BenchmarkTable()
    for part in parts { results.add(try part.run()) }
    try results.writeJSON("capture")
    try results.writeCaptureCost()
  }
}
