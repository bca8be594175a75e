import Foundation

/// C++ exceptions in a host that is watched, beside a program that does not link the monitor.
///
/// libunwind exports the same functions as libgcc's unwinder: linked to a host it would make them 35 times slower.
enum ThrowSpeed {
  static func run() throws -> [Row] {
    let programs = ["throw-watched", "throw-alone"].map {
      URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent().appending(path: $0)
    }
    var pairs: [(watched: Double, alone: Double)] = []
    for round in 0..<31 {
      var speeds = [0.0, 0.0]
      // In turn, so that a machine that gets slower harms both.
      for which in round % 2 == 0 ? [0, 1] : [1, 0] {
        let child = try ChildProcess(executable: programs[which], [])
        guard let speed = child.line().flatMap({ Double($0) }) else { throw Problem("a child throws nothing") }
        child.end()
        speeds[which] = speed
      }
      pairs.append((1e9 / speeds[0], 1e9 / speeds[1]))
    }
    let name = "C++ exception, ten frames"
    return [
      Row(
        benchmark: name, subject: "program without the monitor", value: pairs.map(\.alone).median, unit: "ns", ratio: 1),
      Row(
        benchmark: name, subject: "watched host", value: pairs.map(\.watched).median, unit: "ns",
        ratio: pairs.map { $0.watched / $0.alone }.median, bar: 1.05),
    ]
  }
}
