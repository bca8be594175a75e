import Foundation
import Matrix

/// Runs the matrices several times and prints what differed: `run-matrix RUNS [transfers|hosts] [--unwatched] [WORD…]`.
///
/// With words, only scenarios whose names contain one of them. Ends with 1 if anything differed.
@main
struct MatrixCommand {
  static func main() async throws {
    var words = Array(CommandLine.arguments.dropFirst())
    let runs = words.first.flatMap { Int($0) } ?? 1
    words.removeAll { Int($0) != nil }
    let isUnwatched = words.contains("--unwatched")
    words.removeAll { $0 == "--unwatched" }
    let scenarios = chosen(by: words)
    _ = try MatrixHost.program.get()
    var summary = Summary()
    for run in 1...max(1, runs) {
      summary.add(try await compare(scenarios, isUnwatched: isUnwatched))
      let line = "run \(run) of \(runs): \(summary.differing.count) scenarios differed\n"
      FileHandle.standardError.write(Data(line.utf8))
    }
    summary.print(scenarios)
    exit(summary.differing.isEmpty ? 0 : 1)
  }

  private static func chosen(by words: [String]) -> [Scenario] {
    let kinds = words.filter { $0 == "transfers" || $0 == "hosts" }
    let names = words.filter { !kinds.contains($0) }
    var scenarios: [Scenario] = []
    if kinds.isEmpty || kinds.contains("transfers") { scenarios += Scenario.transfers }
    if kinds.isEmpty || kinds.contains("hosts") { scenarios += Scenario.hosts }
    return scenarios.filter { scenario in
      names.isEmpty || names.contains { scenario.description.contains($0) }
    }
  }

  private static func compare(_ scenarios: [Scenario], isUnwatched: Bool) async throws -> [Comparison] {
    try await withThrowingTaskGroup(of: Comparison.self) { group in
      for scenario in scenarios {
        group.addTask {
          isUnwatched ? try await Comparison.runUnwatchedTwice(scenario) : try await Comparison.run(scenario)
        }
      }
      return try await group.reduce(into: []) { $0.append($1) }
    }
  }
}

/// What differed in which runs.
struct Summary {
  private var runs = 0
  private(set) var differing: [Scenario: Int] = [:]
  private var first: [Scenario: [String]] = [:]
  private var unsound: [Scenario: Int] = [:]

  mutating func add(_ comparisons: [Comparison]) {
    runs += 1
    for comparison in comparisons {
      if !comparison.isSound { unsound[comparison.scenario, default: 0] += 1 }
      guard !comparison.differences.isEmpty else { continue }
      differing[comparison.scenario, default: 0] += 1
      if first[comparison.scenario] == nil { first[comparison.scenario] = comparison.differences }
    }
  }

  /// Prints each scenario that differed, with its first differences.
  func print(_ scenarios: [Scenario]) {
    for scenario in scenarios {
      if let count = differing[scenario] {
        Swift.print("\(count) of \(runs) differ: \(scenario)")
        for line in (first[scenario] ?? []).prefix(4) { Swift.print("    \(line)") }
      }
      if let count = unsound[scenario] { Swift.print("\(count) of \(runs) without a report: \(scenario)") }
    }
    let total = differing.values.reduce(0, +)
    Swift.print(
      "\(scenarios.count) scenarios, \(runs) runs each: \(differing.count) scenarios differed, in \(total) runs.")
  }
}
