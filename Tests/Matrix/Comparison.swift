import Foundation
import Synchronization

/// A scenario's watched run beside its unwatched one.
public struct Comparison: Sendable {
  /// What was run.
  public let scenario: Scenario
  /// What differs, a line each; empty if the process has noticed nothing.
  public let differences: [String]
  /// How many stalls were reported: with none, the comparison says little.
  public let reports: Int

  /// Whether the monitor was at work, as far as the scenario lets it.
  public var isSound: Bool { reports > 0 || !scenario.isReported || scenario.sink == .own || scenario.sink == .agent }

  /// Runs a scenario twice and compares, three scenarios at a time.
  ///
  /// A paused machine hides a stall from the monitor, so a watched run without a report is repeated.
  public static func run(_ scenario: Scenario) async throws -> Comparison {
    try await onOwnThread {
      let unwatched = try baseline(scenario)
      var comparison: Comparison
      var runs = 0
      repeat {
        let watched = try HostRun(scenario, isWatched: true)
        comparison = Comparison(
          scenario: scenario, differences: differences(unwatched, watched.outcome), reports: watched.reports)
        runs += 1
      } while !comparison.isSound && comparison.differences.isEmpty && runs < 10
      return comparison
    }
  }

  /// Runs a scenario twice, unwatched: a difference is a fault of the scenario.
  public static func runUnwatchedTwice(_ scenario: Scenario) async throws -> Comparison {
    try await onOwnThread {
      let runs = try [HostRun(scenario, isWatched: false), HostRun(scenario, isWatched: false)]
      return Comparison(
        scenario: scenario, differences: differences(runs[0].outcome, runs[1].outcome), reports: 1)
    }
  }

  private static let queue = {
    let queue = OperationQueue()
    queue.maxConcurrentOperationCount = 3
    return queue
  }()

  private static func onOwnThread(_ body: @escaping @Sendable () throws -> Comparison) async throws -> Comparison {
    try await withCheckedThrowingContinuation { continuation in
      queue.addOperation { continuation.resume(with: Result(catching: body)) }
    }
  }

  private static let baselines = Mutex<[[String]: HostRun.Outcome]>([:])

  /// What a transfer returns does not depend on its role, so one unwatched run serves them all.
  private static func baseline(_ scenario: Scenario) throws -> HostRun.Outcome {
    guard scenario.name.first == "transfer" else { return try HostRun(scenario, isWatched: false).outcome }
    if let known = baselines.withLock({ $0[scenario.name] }) { return known }
    let outcome = try HostRun(scenario, isWatched: false).outcome
    baselines.withLock { $0[scenario.name] = outcome }
    return outcome
  }

  private static func differences(_ unwatched: HostRun.Outcome, _ watched: HostRun.Outcome) -> [String] {
    var differences: [String] = []
    if unwatched.end != watched.end { differences.append("end: \(unwatched.end), watched: \(watched.end)") }
    for (kind, before, after) in [
      ("output", unwatched.output, watched.output), ("files", unwatched.files, watched.files),
    ] where before != after {
      for change in after.difference(from: before).inferringMoves() {
        switch change {
        case .remove(_, let line, _): differences.append("\(kind), unwatched only: \(line.prefix(300))")
        case .insert(_, let line, _): differences.append("\(kind), watched only: \(line.prefix(300))")
        }
      }
    }
    return differences
  }
}
