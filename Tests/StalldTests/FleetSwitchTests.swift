import Foundation
import TestSupport
import Testing

@testable import stalld

/// What an agent's settings switch off in services that run.
@Suite(
  .serialized, .takingTurns, .repeatedAfterStandstills(because: "silence is a time without a line"),
  .timeLimit(.minutes(3)))
struct FleetSwitchTests {
  /// A service that stalls repeatedly, for 150 ms each.
  private final class Service {
    let process: Process
    /// In memory, where the stall record lies that it is killed in.
    private let state = URL(fileURLWithPath: "/dev/shm/stalld-test-\(UUID().uuidString)")
    private let words: URL

    init(_ agent: RunningAgent, _ scenario: String = "stalls", _ more: [String: String] = [:]) throws {
      try FileManager.default.createDirectory(at: state, withIntermediateDirectories: false)
      words = state.appending(path: "words")
      try Data().write(to: words)
      process = try Program.start(
        Program.built("StallVictim", "debug").path, [scenario, "150"],
        environment: [
          "STALLMONITOR_SINK": "agent:\(agent.socketPath)", "STALLMONITOR_STATE_DIRECTORY": state.path,
          "STALLMONITOR_REPEAT_WINDOW": "0s", "STALLMONITOR_BUDGET": "0", "STALLMONITOR_SERVICE_NAME": "web",
        ].merging(more) { $1 }, errors: FileHandle(forWritingTo: words))
    }

    var said: String { (try? String(contentsOf: words, encoding: .utf8)) ?? "" }

    deinit {
      kill(process.processIdentifier, SIGKILL)
      process.waitUntilExit()
      try? FileManager.default.removeItem(at: state)
    }
  }

  private func reload(_ agent: RunningAgent, _ service: String) throws {
    try agent.configure("services: [{ match: web, threshold: 60ms\(service) }]")
    let reloaded = try Program.run(
      Program.built("stalld", "debug").path, ["reload", "--control", agent.controlPath])
    #expect(reloaded.status == 0, "\(reloaded.errors)")
  }

  private func stalls(_ agent: RunningAgent) throws -> [WrittenReport] {
    try agent.reports().ofStall(in: "blockByComputing")
  }

  /// Waits until no line has come for so long that several stalls would have been reported.
  private func waitForSilence(_ agent: RunningAgent) throws {
    var count = -1
    try agent.expect("nothing more is reported", within: 60) {
      let before = count
      count = try agent.lines().count
      if count != before { usleep(1_500_000) }
      return count == before
    }
  }

  @Test(
    "enabled: false stops the reports of a service and ends its open stalls; enabled: true starts them again")
  func enabled() throws {
    let agent = try RunningAgent("services: [{ match: web, threshold: 60ms }]")
    let service = try Service(agent)
    try agent.expect("stalls") { try stalls(agent).contains { $0.event == "stall.ended" } }
    try reload(agent, ", enabled: false")
    try waitForSilence(agent)
    let before = try agent.reports()
    // A stall that lasted when the service was switched off has its end.
    for line in before where line.event == "stall.started" {
      #expect(before.contains { $0.id == line.id && $0.event == "stall.ended" }, "\(line.id)")
    }
    #expect(try agent.status().clients.first { $0.service == "web" }?.openStalls == 0)
    #expect(service.process.isRunning)
    try reload(agent, ", enabled: true")
    try agent.expect("its stalls are reported again") { try agent.reports().count > before.count + 4 }
    // The duration of a stall does not include the time while the service was off.
    let next = try #require(try agent.reports().dropFirst(before.count).first)
    #expect(next["stall", "threshold_ms"] as? Double == 60)
    // Taken back: the service's own configuration says nothing against it.
    try reload(agent, ", enabled: false")
    try waitForSilence(agent)
    let count = try agent.lines().count
    try reload(agent, "")
    try agent.expect("its stalls are reported without the switch") { try agent.lines().count > count }
    try agent.expectValidLines()
  }

  @Test("a service that starts disabled sends no reports after it has received the agent's settings")
  func startsSwitchedOff() throws {
    let agent = try RunningAgent("services: [{ match: web, threshold: 60ms, enabled: false }]")
    let service = try Service(agent)
    try agent.expect("it is connected") { try agent.status().clients.contains { $0.service == "web" } }
    try waitForSilence(agent)
    #expect(try agent.reports().count { $0.event == "stall.started" } <= 1, "what was under way")
    // The agent goes away and comes back: that changes nothing.
    agent.killAndWait()
    try agent.start()
    try agent.expect("it is back", within: 60) { try agent.status().clients.contains { $0.service == "web" } }
    try waitForSilence(agent)
    #expect(try agent.reports().count { $0.event == "stall.started" } <= 1)
    #expect(service.process.isRunning)
  }

  @Test(
    "with captures: blocked-only, a running thread has no stack and the right reason; a blocked thread has its stack"
  )
  func blockedOnly() throws {
    let agent = try RunningAgent("services: [{ match: web, threshold: 60ms, captures: blocked-only }]")
    do {
      let service = try Service(agent)
      func unsampled() throws -> [WrittenReport] {
        try agent.reports().filter {
          ($0["stall", "capture", "failure"] as? String)?.contains("captures: blocked-only") == true
        }
      }
      try agent.expect("stalls without a stack") { try unsampled().contains { $0.event == "stall.ended" } }
      let line = try #require(try unsampled().last)
      #expect(line.stack.isEmpty && line["stall", "capture", "method"] == nil)
      #expect(line["stall", "evidence", "state"] as? String == "running")
      // From the first one on no thread is sampled.
      let first = try #require(try unsampled().first)
      let all = try agent.reports()
      let later = all.drop { $0.id != first.id }
      #expect(later.allSatisfy { !["perf", "timer"].contains($0["stall", "capture", "method"] as? String) })
      try reload(agent, ", captures: all")
      try agent.expect("stalls with a stack again") {
        try agent.reports().last?["stall", "capture", "method"] as? String != nil && !stalls(agent).isEmpty
      }
      #expect(!service.said.contains("is invalid"))
    }
    try reload(agent, ", captures: blocked-only")
    let blocked = try Service(agent, "sleep")
    try agent.expect("a sleeping thread's stack") {
      try agent.reports().ofStall(in: "blockBySleeping").contains {
        $0["stall", "capture", "method"] as? String == "procfs"
      }
    }
    blocked.process.waitUntilExit()
    try agent.expectValidLines()
  }

  @Test("enabled: true does not enable a service that is disabled in its own configuration")
  func ownSwitchStays() throws {
    let agent = try RunningAgent("services: [{ match: \"*\", threshold: 60ms, enabled: true }]")
    let service = try Service(agent, "never-runs", ["STALLMONITOR_ENABLED": "false"])
    service.process.waitUntilExit()
    #expect(try agent.lines().isEmpty)
    #expect(try agent.status().clients.allSatisfy { $0.service != "web" })
  }
}
