import Foundation
import LoopEngine
import TestSupport
import Testing

@testable import stalld

/// A loop on a thread of its own, with the parts of the agent that a test wants.
final class AgentDriver: @unchecked Sendable {
  // @unchecked: the parts are touched on the loop's thread alone.
  let thread = PermanentThread(name: "agent")
  let metrics = AgentMetrics(version: "1.2.3")
  var sample = MetricsSample()
  var problems: [String] = []

  init() throws { try thread.start() }

  deinit { thread.stop() }

  var loop: Loop { thread.loop! }

  @discardableResult
  func perform<Value: Sendable>(_ body: @escaping @Sendable (AgentDriver) throws -> Value) throws -> Value {
    try loop.performAndWait { try body(self) }
  }

  /// How many turns the loop has made, once it has made none for 300 ms.
  ///
  /// The one that has served the last question is counted after the answer.
  func turnsAtRest() throws -> UInt {
    var turns = loop.statistics.turns
    try waitUntil {
      let before = turns
      usleep(300_000)
      turns = loop.statistics.turns
      return turns == before
    }
    return turns
  }

  func record(_ reports: [SampleReport]) throws {
    try perform { driver in for report in reports { driver.metrics.record(report.line) } }
  }

  func text() throws -> String {
    try perform { String(decoding: $0.metrics.text($0.sample), as: UTF8.self) }
  }

  func server(_ address: String = "127.0.0.1:0", connectionTime: Duration = .seconds(10)) throws -> MetricsServer {
    try perform { driver in
      try MetricsServer(
        address: MetricsAddress(address)!, loop: driver.loop, connectionTime: connectionTime,
        metrics: { driver.metrics.text(driver.sample) }, problems: { driver.problems })
    }
  }
}
