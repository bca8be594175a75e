import Foundation
import TestSupport
import Testing

/// Clients that flood, stall, or send what is no report: contained, named, and nobody else's trouble.
@Suite(.serialized, .takingTurns, .timeLimit(.minutes(2)))
struct AgentHostileTests {
  /// A report of another client arrives while `disturbance` lasts.
  private func othersAreServed(_ agent: RunningAgent, from id: Int) throws {
    let other = try AgentClient(agent.socketPath)
    for index in 0..<20 {
      other.send(AgentClient.report(id: id + index))
      #expect(other.isAcknowledged(index + 1))
    }
  }

  @Test("binary, blank lines and a line of 100 MB")
  func garbage() throws {
    let agent = try RunningAgent()
    let binary = try AgentClient(agent.socketPath)
    var generator = SystemRandomNumberGenerator()
    var isOpen = true
    for _ in 0..<200 where isOpen {
      isOpen = binary.send((0..<4096).map { _ in UInt8.random(in: 0...255, using: &generator) })
    }
    #expect(!binary.send([UInt8](repeating: 0x0a, count: 1 << 20)) || !isOpen, "it is disconnected")
    let long = try AgentClient(agent.socketPath)
    let piece = [UInt8](repeating: 0x61, count: 1 << 20)
    var sent = 0
    while sent < 100, long.send(piece) { sent += 1 }
    #expect(sent < 20, "it is disconnected long before")
    #expect(agent.said.contains("a line is longer than 16777216 bytes"))
    #expect(agent.said.contains("process \(getpid())"))
    try othersAreServed(agent, from: 1)
    #expect(try agent.lines().count == 20)
    #expect(agent.process.isRunning)
  }

  /// A client sends its lines again until they are acknowledged, in order.
  @Test("a line that is too long is acknowledged, and the lines behind it arrive")
  func lineThatIsTooLong() throws {
    let agent = try RunningAgent("limits: { line_bytes: 8KiB }")
    let client = try AgentClient(agent.socketPath)
    client.send(AgentClient.report(id: 1))
    // More than one read takes.
    client.send([UInt8](repeating: 0x61, count: 200_000) + [0x0a])
    client.send(AgentClient.report(id: 2))
    var answers: [String] = []
    while answers.last?.contains("\"acknowledged\":3") != true, let answer = client.next() { answers.append(answer) }
    #expect(answers.contains { $0.contains("line 2: longer than 8192 bytes (limits.line_bytes)") }, "\(answers)")
    #expect(answers.last?.contains("\"acknowledged\":3") == true, "\(answers)")
    #expect(try agent.lines().count == 2)
  }

  @Test("a line that is too long is refused at its end, once")
  func lineThatIsTooLongAndUnfinished() throws {
    let agent = try RunningAgent("limits: { line_bytes: 8KiB, incomplete_line_timeout: 1s }")
    let client = try AgentClient(agent.socketPath)
    client.send(AgentClient.report(id: 1))
    #expect(client.isAcknowledged(1))
    client.send([UInt8](repeating: 0x61, count: 100_000))
    // It is not acknowledged: it has not been sent yet.
    #expect(client.next()?.contains("was not finished") == true)
    #expect(client.next() == nil)
  }

  @Test("the longest line that the settings allow, with the least memory")
  func longestLineWithTheLeastMemory() throws {
    let agent = try RunningAgent("limits: { memory: 1MiB }")
    let client = try AgentClient(agent.socketPath)
    let (id, text) = (String(repeating: "a", count: 32), String(repeating: "y", count: 250_000))
    client.send(#"{"detail":{"id":"\#(id)","x":"\#(text)"}}"#.utf8 + [0x0a])
    client.send(AgentClient.report(id: 1))
    #expect(client.isAcknowledged(2))
    #expect(try agent.lines().count == 1)
  }

  @Test("a line that is not finished")
  func unfinished() throws {
    let agent = try RunningAgent("limits: { incomplete_line_timeout: 1s }")
    let slow = try AgentClient(agent.socketPath)
    slow.send(AgentClient.report(id: 1).prefix(100).utf8)
    let patient = try AgentClient(agent.socketPath)
    patient.send(AgentClient.report(id: 2))
    #expect(patient.isAcknowledged(1))
    #expect(slow.next()?.contains("was not finished") == true)
    #expect(slow.next() == nil)
    // A connection without unwritten lines is not closed.
    patient.send(AgentClient.report(id: 3))
    #expect(patient.isAcknowledged(2))
    #expect(try agent.lines().count == 2)
  }

  @Test("a flood is slowed, arrives complete, and delays nobody else")
  func flood() throws {
    let agent = try RunningAgent("limits: { lines_per_second: 20 }")
    let flooding = try AgentClient(agent.socketPath)
    let done = DispatchSemaphore(value: 0)
    Thread {
      for id in 1000..<1120 { flooding.send(AgentClient.report(id: id)) }
      done.signal()
    }.start()
    try othersAreServed(agent, from: 1)
    #expect(flooding.isAcknowledged(120))
    done.wait()
    #expect(try agent.lines().count == 140)
    #expect(agent.said.contains("more than 20 lines per second"))
  }

  // The agent's own monitor has one, too.
  @Test("more connections than allowed, and clients that read nothing")
  func connections() throws {
    let agent = try RunningAgent("limits: { connections: 21 }")
    var clients: [AgentClient] = []
    for id in 0..<20 {
      let client = try AgentClient(agent.socketPath)
      client.send(AgentClient.report(id: 1 + id))
      #expect(client.isAcknowledged(1))
      clients.append(client)
    }
    // Or it comes to it only now.
    let more = try (0..<2).map { _ in try AgentClient(agent.socketPath) }
    for (index, client) in more.enumerated() { client.send(AgentClient.report(id: 50 + index)) }
    let answers = more.map { $0.next() }
    #expect(answers.contains { $0?.contains("refused") == true })
    for client in clients + more { client.end() }
    clients.removeAll()
    agent.expect("there is room again") {
      guard let client = try? AgentClient(agent.socketPath) else { return false }
      client.send(AgentClient.report(id: 100))
      return client.isAcknowledged(1, within: 500)
    }
  }
}
