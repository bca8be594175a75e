import Foundation
import TestSupport
import Testing

@testable import stalld

/// Services that stall all the time, and an agent that is killed: what an operator finds in the files afterwards.
@Suite(.serialized, .takingTurns, .timeLimit(.minutes(30)))
struct AgentSoakTests {
  /// In seconds: how long the services run, and how long each agent lives.
  private static let (whole, life) = LongForm.isOn ? (1200, 60) : (9, 2)

  /// A service that links the library.
  private struct Service {
    let name: String
    let state: ScratchDirectory
    private let output = Pipe()
    private let process: Process

    init(_ name: String, agent: RunningAgent) throws {
      self.name = name
      state = try ScratchDirectory()
      process = try Self.start(name, ["often", "\(whole * 1000)"], threshold: "15ms", state, agent, output)
    }

    private static func start(
      _ name: String, _ arguments: [String], threshold: String, _ state: ScratchDirectory, _ agent: RunningAgent,
      _ output: Pipe
    ) throws -> Process {
      try Program.start(
        Program.built("StallVictim", "debug").path, arguments,
        environment: [
          "STALLMONITOR_SINK": "agent:\(agent.socketPath)", "STALLMONITOR_STATE_DIRECTORY": state.path,
          "STALLMONITOR_SERVICE_NAME": name, "STALLMONITOR_THRESHOLD": threshold, "STALLMONITOR_REPEAT_WINDOW": "0s",
          "STALLMONITOR_MAXIMUM_REPORTS_PER_MINUTE": "0",
        ], errors: output)
    }

    /// Waits for its end; the number of its stalls.
    func stalls() throws -> Int {
      let said = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
      process.waitUntilExit()
      let count = try #require(said.firstMatch(of: /stalls=(\d+)/), "\(name) said: \(said)").1
      return try #require(Int(count))
    }

    /// Whether the agent has all that it kept; if not, its next start, which finds no stall of its own, sends it.
    func hasSentAll(to agent: RunningAgent) throws -> Bool {
      let kept = try FileManager.default.contentsOfDirectory(atPath: state.path)
      if !kept.contains(where: { $0.hasPrefix("stallspool") }) { return true }
      try Self.start(name, ["idle", "1000"], threshold: "60s", state, agent, Pipe()).waitUntilExit()
      return false
    }
  }

  @Test("while the agent is killed, rotates, compresses and is reloaded, no report of four services is lost or doubled")
  func fourServices() throws {
    func settings(rotatingAt size: String) -> String {
      """
      limits: { user_bytes_per_day: off }
      outputs: [{ type: file, path: PLACE/logs/stalls.jsonl, max_size: \(size), keep: 10000 }]
      """
    }
    let agent = try RunningAgent(settings(rotatingAt: "64KiB"))
    let services = try (1...4).map { try Service("soak-\($0)", agent: agent) }
    for round in 1..<Self.whole / Self.life {
      usleep(UInt32(Self.life * 1_000_000))
      agent.killAndWait()
      try agent.start()
      guard round == Self.whole / Self.life / 2 else { continue }
      try agent.configure(settings(rotatingAt: "96KiB"))
      let reload = try Program.run(
        Program.built("stalld", "debug").path, ["reload", "--control", agent.controlPath])
      #expect(reload.status == 0, "\(reload.errors)")
    }
    let stalls = try services.map { try $0.stalls() }
    try agent.expect("all reports have been sent", within: 240) {
      try services.allSatisfy { try $0.hasSentAll(to: agent) } && agent.status().queue.lines == 0
    }

    // Each process numbers its reports, also those of a machine that was stopped. A line that is cut is no JSON.
    let lines = try agent.texts().flatMap { $0.split(separator: "\n") }
    let reports = try Dictionary(grouping: lines.map { try WrittenReport($0) }) {
      $0["service", "name"] as? String ?? ""
    }
    for (service, stalls) in zip(services, stalls) {
      let own = reports[service.name] ?? []
      let numbers = own.compactMap { $0["stall", "sequence"] as? Int }
      print("\(service.name): \(stalls) stalls, \(own.count) reports")
      #expect(numbers.sorted() == Array(1...max(1, own.count)), "\(service.name): a report is missing or doubled")
      #expect(own.contains { $0.isEnd && $0.duration >= 500 }, "\(service.name): the end of its last stall is missing")
      let begun = Set(own.lazy.filter { $0.event == "stall.started" }.map(\.id))
      #expect(begun.isSubset(of: own.lazy.filter(\.isEnd).map(\.id)), "\(service.name): a stall has no end")
    }
    let names = try FileManager.default.contentsOfDirectory(atPath: agent.output.deletingLastPathComponent().path)
    #expect(names.contains { $0.hasSuffix(".gz") }, "it rotated and compressed: \(names)")
  }
}
