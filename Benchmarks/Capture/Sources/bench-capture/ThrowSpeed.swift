import BenchmarkSupport
import Foundation

/// C++ exceptions in a host that is watched, beside one whose monitor is disabled, and beside a program that does not link the monitor.
///
/// libunwind exports the same functions as libgcc's unwinder: linked to a host it would make them 35 times slower. That whatever is
/// linked makes the tables longer in which libgcc looks up each frame is a few hundredths.
enum ThrowSpeed {
  static func run() throws -> [BenchmarkRow] {
    let directory = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent()
    let alone = ["throw-alone"], disabled = ["throw-watched", "disabled"], watched = ["throw-watched"]
    var times: [[String]: [Double]] = [:]
    // One process differs from the next by a fifth: the median of so many is good to two hundredths.
    for round in 0..<151 {
      // In turn, so that a machine that gets slower harms all.
      for program in round % 2 == 0 ? [alone, disabled, watched] : [watched, disabled, alone] {
        let child = try ChildProcess(executable: directory.appending(path: program[0]), Array(program.dropFirst()))
        guard let speed = child.line().flatMap({ Double($0) }) else { throw BenchmarkError("a child throws nothing") }
        child.end()
        times[program, default: []].append(1e9 / speed)
      }
    }
    func row(_ subject: String, _ program: [String], bar: Double? = nil) -> BenchmarkRow {
      BenchmarkRow(
        benchmark: "C++ exception, ten frames", subject: subject, value: times[program]!.median, unit: "ns",
        ratio: zip(times[program]!, times[alone]!).map { $0 / $1 }.median, bar: bar)
    }
    return [
      row("program without the monitor", alone), row("service, monitor disabled", disabled),
      row("watched service", watched, bar: 1.05),
    ]
  }
}
