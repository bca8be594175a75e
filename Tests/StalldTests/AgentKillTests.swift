import Foundation
import TestSupport
import Testing

@testable import stalld

/// `kill -9` at random moments: what was acknowledged is there, once, and no line is cut.
@Suite(.timeLimit(.minutes(5)), .serialized, .takingTurns)
struct AgentKillTests {
  private static let rounds = LongForm.isOn ? 100 : 25

  private func identities(_ agent: RunningAgent) throws -> [Int] {
    try agent.lines().map { line in
      let object = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any], "\(line)")
      let stall = try #require(object["stall"] as? [String: Any])
      let id = try #require(stall["id"] as? String)
      return try #require(Int(id, radix: 16))
    }
  }

  @Test("after a kill of the agent, resent lines are neither lost nor duplicated")
  func agentIsKilled() throws {
    let agent = try RunningAgent(configurationName: "release")
    // It rotates and compresses all the time.
    try agent.configure(
      """
      limits: { lines_per_second: 100000 }
      outputs: [{ type: file, path: \(agent.output.path), max_size: 1MiB, keep: 1000 }]
      """)
    agent.killAndWait()
    try agent.start(configurationName: "release")
    var next = 1
    var waiting: [Int] = []
    for round in 0..<Self.rounds {
      if round > 0 { try agent.start(configurationName: "release") }
      let client = try AgentClient(agent.socketPath)
      var isOpen = true
      for id in waiting where isOpen { isOpen = client.send(AgentClient.report(id: id, filler: id % 5)) }
      let doom = DispatchTime.now() + .microseconds(Int.random(in: 0...30_000))
      let killed = DispatchSemaphore(value: 0)
      let processID = agent.process.processIdentifier
      DispatchQueue.global().asyncAfter(deadline: doom) {
        kill(processID, SIGKILL)
        killed.signal()
      }
      var acknowledged = 0
      while isOpen {
        isOpen = client.send(AgentClient.report(id: next, filler: next % 5))
        waiting.append(next)
        next += 1
        while let line = client.next(within: waiting.count - acknowledged > 200 ? 1000 : 0) {
          if line.hasPrefix("{\"acknowledged\":") { acknowledged = Int(line.dropFirst(16).dropLast()) ?? acknowledged }
        }
      }
      while let line = client.next() {
        if line.hasPrefix("{\"acknowledged\":") { acknowledged = Int(line.dropFirst(16).dropLast()) ?? acknowledged }
      }
      waiting.removeFirst(min(acknowledged, waiting.count))
      killed.wait()
      agent.process.waitUntilExit()
    }
    try agent.start(configurationName: "release")
    let client = try AgentClient(agent.socketPath)
    for id in waiting { client.send(AgentClient.report(id: id, filler: id % 5)) }
    if !waiting.isEmpty { #expect(client.isAcknowledged(waiting.count)) }
    let written = try identities(agent)
    print("reports: \(next - 1), under way at the last kill: \(waiting.count)")
    #expect(next > Self.rounds)
    #expect(written.count == next - 1, "nothing is doubled")
    #expect(Set(written) == Set(1..<next), "nothing is lost")
  }

  @Test("after a kill of the service, each acknowledged line is in the file, and no partial line")
  func hostIsKilled() throws {
    let agent = try RunningAgent("limits: { lines_per_second: 100000 }", configurationName: "release")
    var promised: [(first: Int, count: Int)] = []
    for round in 0..<Self.rounds {
      let first = 1 + round * 100_000
      let output = Pipe()
      let host = try Program.start(
        "/usr/bin/python3",
        [Repository.file("Tests/Support/agent-client.py").path, agent.socketPath, String(first)], output: output)
      _ = output.fileHandleForReading.availableData
      usleep(UInt32.random(in: 0...20_000))
      kill(host.processIdentifier, SIGKILL)
      let told = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
      host.waitUntilExit()
      promised.append((first, told.split(separator: "\n").last.flatMap { Int($0) } ?? 1))
    }
    try agent.expect("nobody is connected but the agent's own monitor, and all that was read is written", within: 60) {
      let status = try agent.status()
      return status.connections <= 1 && status.queue.lines == 0
    }
    let all = try identities(agent)
    let written = Set(all)
    for (first, count) in promised {
      #expect((first..<(first + count)).allSatisfy(written.contains))
    }
    #expect(all.count == written.count)
    #expect(agent.process.isRunning)
  }
}
