import Foundation
import TestSupport
import Testing

@testable import stalld

/// A service with the monitor in it, the agent, and what an operator finds in the agent's file.
@Suite(
  .serialized, .takingTurns, .repeatedAfterStandstills(because: "durations are compared with the victim's own clock"),
  .timeLimit(.minutes(3)))
struct AgentEndToEndTests {
  /// A service that is started with a sink; `state` is its state directory.
  private func start(_ scenario: String, _ milliseconds: Int, sink: String, state: ScratchDirectory) throws -> Process {
    try Program.start(
      Program.built("StallVictim", "debug").path, [scenario, String(milliseconds)],
      environment: [
        "STALLMONITOR_SINK": sink, "STALLMONITOR_STATE_DIRECTORY": state.url.path, "STALLMONITOR_THRESHOLD": "100ms",
      ], errors: FileHandle.nullDevice)
  }

  private func run(_ scenario: String, _ milliseconds: Int, sink: String) throws {
    let state = try ScratchDirectory()
    try start(scenario, milliseconds, sink: sink, state: state).waitUntilExit()
  }

  /// The beginning and the end of a stall in this function, once both are written.
  ///
  /// Stalls of 900 ms are found also on a busy machine, and end before a `stall.ongoing` is due.
  private func stall(in function: String, of agent: RunningAgent) throws -> [WrittenReport] {
    var found: [WrittenReport] = []
    try agent.expect("the beginning and the end of a stall in \(function)") {
      found = try agent.reports().ofStall(in: function).filter { $0.event != "stall.ongoing" }
      return found.map(\.event) == ["stall.started", "stall.ended"]
    }
    return found
  }

  @Test(
    "the agent writes the same responsible function, line and fingerprint as the service would",
    arguments: [("compute", "blockByComputing"), ("deep", "blockByComputing"), ("sleep", "blockBySleeping")])
  func named(scenario: String, function: String) throws {
    let agent = try RunningAgent()
    let own = try ScratchDirectory()
    let file = own.url.appending(path: "own.jsonl")
    try run(scenario, 900, sink: "file:\(file.path)")
    let written = try WrittenReport.all(in: String(contentsOf: file, encoding: .utf8))
    let expected = try #require(written.ofStall(in: function).last)
    // Names do not go with the process that was asked first, which has ended by now.
    try run("select", 900, sink: "agent:\(agent.socketPath)")
    _ = try stall(in: "blockBySelecting", of: agent)
    try run(scenario, 900, sink: "agent:\(agent.socketPath)")
    let told = try stall(in: function, of: agent)
    try agent.expectValidLines()
    for line in told.named {
      #expect(line.bytes <= 8000)
      #expect(line.culprit.contains(function))
      // A computation may be met at one of the compiler's own instructions, which have no line.
      #expect(line.culpritFrame?["line"] is Int || function == "blockByComputing")
      #expect(line.fingerprint == expected.fingerprint)
      #expect((line["message"] as? String)?.contains("\(function)() (\(line.culpritPlace))") == true)
    }
    let ended = try #require(told.last)
    let functions = ended["stall", "path", "functions"] as? [String]
    #expect(functions != nil && functions == expected["stall", "path", "functions"] as? [String])
    try agent.expect("a file of each stall, and nothing else") {
      let files = try FileManager.default.contentsOfDirectory(
        atPath: agent.scratch.url.appending(path: "details").path)
      return try Set(files) == Set(agent.reports().map { "\($0.id).\(getuid()).json" })
    }
  }

  @Test(
    "a kill -9 during a stall is reported once, although both the agent and the next start of the service report it")
  func killedInAStall() throws {
    let agent = try RunningAgent()
    let state = try ScratchDirectory()
    let sink = "agent:\(agent.socketPath)"
    let service = try start("sleep", 60_000, sink: sink, state: state)
    try agent.expect("the stall has begun") { try !agent.reports().ofStall(in: "blockBySleeping").isEmpty }
    agent.killAndWait()
    try agent.start()
    // The new agent hears of it again; it has been written already.
    try agent.expect("the service is back", within: 60) {
      try agent.status().clients.contains { $0.pid == service.processIdentifier && $0.openStalls > 0 }
    }
    kill(service.processIdentifier, SIGKILL)
    service.waitUntilExit()
    func fatal() throws -> [WrittenReport] { try agent.reports().filter { $0.event == "stall.fatal" } }
    try agent.expect("its end is told") { try fatal().count == 1 }
    let told = try #require(try fatal().first)
    // The kernel says how a process ended since version 6.15.
    let saysHow = ProcessInfo.processInfo.isOperatingSystemAtLeast(
      OperatingSystemVersion(majorVersion: 6, minorVersion: 15, patchVersion: 0))
    #expect(told["process", "exit_signal"] as? String == (saysHow ? "SIGKILL" : nil))
    #expect(told.culprit.contains("blockBySleeping"))
    #expect(told["process", "pid"] as? Int == Int(service.processIdentifier))
    let next = try start("compute", 900, sink: sink, state: state)
    next.waitUntilExit()
    // The next start's own stall.
    _ = try stall(in: "blockByComputing", of: agent)
    #expect(try fatal().count == 1)
    let begun = try agent.reports().filter { $0.event == "stall.started" && $0.culprit.contains("blockBy") }
    #expect(begun.count == 2 && Set(begun.map(\.id)).count == 2)
    try agent.expectValidLines()
  }

  @Test("a reload changes the settings of a running service")
  func retuned() throws {
    let agent = try RunningAgent("services: [{ match: \"*\", threshold: 30s }]")
    let state = try ScratchDirectory()
    let service = try start("stalls", 300, sink: "agent:\(agent.socketPath)", state: state)
    defer {
      kill(service.processIdentifier, SIGKILL)
      service.waitUntilExit()
    }
    usleep(1_500_000)
    let before = try agent.reports().count { $0.culprit.contains("blockByComputing") }
    #expect(before <= 2, "what was under way until the agent had spoken")
    try agent.configure("services: [{ match: \"*\", threshold: 60ms, repeat_window: 0s }]")
    agent.signal(SIGHUP)
    try agent.expect("its stalls are told") {
      try agent.reports().contains { $0["stall", "threshold_ms"] as? Double == 60 }
    }
  }

  @Test(
    "lines are complete and short enough if the service looks up names, or nobody does", arguments: ["host", "agent"])
  func namedElsewhere(symbolication: String) throws {
    let agent = try RunningAgent(
      """
      services: [{ match: "*", symbolication: \(symbolication) }]
      symbolication: { enabled: \(symbolication == "host") }
      """)
    try run("deep", 900, sink: "agent:\(agent.socketPath)")
    try agent.expect("both lines") {
      let lines = try agent.reports()
      guard let end = lines.longestEnd, end.duration > 400 else { return false }
      return lines.contains { $0.id == end.id && $0.event == "stall.started" }
    }
    try agent.expectValidLines()
    let last = try #require(try agent.reports().longestEnd)
    #expect(last["frames_omitted"] is Int)
    #expect(last.culprit.contains("blockByComputing") == (symbolication == "host"))
  }
}
