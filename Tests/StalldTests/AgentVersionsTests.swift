import Foundation
import TestSupport
import Testing

@testable import stalld

/// The agent with hosts, and with files, of other versions than its own.
@Suite(.serialized, .takingTurns, .timeLimit(.minutes(2)))
struct AgentVersionsTests {
  @Test("a service of the next minor version is served: unknown fields are ignored, or written unchanged")
  func newerHost() throws {
    let agent = try RunningAgent("services: [{ match: web, threshold: 70ms }]")
    let client = try AgentClient(agent.socketPath)
    client.send(
      #"{"hello":{"protocol":1,"minor":9,"service":{"name":"web","zone":{"a":[1]}},"process":{"pid":1},"recovery":7,"features":["x"]},"later":1}"#
    )
    // The memory to note in is of the version that both know.
    #expect(client.next() == #"{"recovery":{"version":1}}"#)
    #expect(client.next() == #"{"settings":{"threshold":"70ms"}}"#)
    #expect(client.isAcknowledged(1))
    let report = AgentClient.report(id: 1, event: "stall.started")
    let later = [
      report.replacing(#""schema":"1.0""#, with: #""schema":"1.1","note":{"a":1}"#)
        .replacing(#""cause":"lock""#, with: #""cause":"quota","quota":{"ms":1.5}"#)
        .replacing(#""host":{"#, with: #""new_object":{"k":[{}]},"host":{"rack":"7","#),
      report.replacing(#""schema":"1.0""#, with: #""schema":"1.12""#).replacing("stall.started", with: "stall.moved")
        .replacing(#""sequence":1"#, with: #""sequence":2"#),
      AgentClient.report(id: 1, sequence: 3).replacing(#""schema":"1.0""#, with: #""schema":"1.12""#),
    ]
    // Kinds of lines that this version has not: as many as would close a connection that misbehaves.
    for _ in 0..<120 { client.send(#"{"load":{"turns":5}}"#) }
    for line in later { client.send(line) }
    while let answer = client.next() {
      #expect(!answer.contains("error"), "\(answer)")
      if answer == #"{"acknowledged":124}"# { break }
    }
    let events = try agent.reports().map(\.event)
    #expect(events == ["stall.started", "stall.moved", "stall.ended"])
    #expect(try agent.lines().first?.contains(#""new_object":{"k":[{}]}"#) == true)
    // The stall is over; what is not known has not opened it again.
    #expect(try agent.status().clients.first?.openStalls == 0)
    #expect(try agent.status().linesRefused == 0)
  }

  @Test(
    "a line that is no report is refused: of this version, of another major version, and without hello")
  func notOfALaterVersion() throws {
    let agent = try RunningAgent()
    let report = AgentClient.report(id: 1)
    for line in [
      report.replacing("stall.ended", with: "stall.moved"),
      report.replacing(#""schema":"1.0""#, with: #""schema":"2.0""#),
      report.replacing(#""schema":"1.0""#, with: #""schema":"1.1""#).replacing("stall.ended", with: "log.line"),
      report.replacing(#""schema":"1.0""#, with: #""schema":"1.1""#).replacing("stall.ended", with: "stall."),
      #"{"load":{"turns":5}}"#,
    ] {
      let client = try AgentClient(agent.socketPath)
      client.send(line)
      #expect(client.next()?.contains("error") == true, "\(line)")
    }
    #expect(try agent.lines().isEmpty)
  }

  @Test("the next agent recognises reports of an agent of version 1.0, also those in a compressed file")
  func writtenByAnEarlierAgent() throws {
    let agent = try RunningAgent()
    #expect(agent.stop() == 0)
    let logs = agent.output.deletingLastPathComponent()
    let recorded = try String(
      contentsOf: Repository.file("Tests/Support/versions/1.0/stalls.jsonl"), encoding: .utf8
    ).split(separator: "\n").map { String($0) }
    try #require(recorded.count == 4)
    // The older half has been rotated away, and compressed.
    let rotated = logs.appending(path: "stalls.jsonl.2026-11-22T23-59-00.000000Z")
    try (recorded[..<2].joined(separator: "\n") + "\n").write(to: rotated, atomically: true, encoding: .utf8)
    #expect(try Program.run("/usr/bin/gzip", [rotated.path]).status == 0)
    try (recorded[2...].joined(separator: "\n") + "\n").write(to: agent.output, atomically: true, encoding: .utf8)
    try agent.start()
    let client = try AgentClient(agent.socketPath)
    let report = AgentClient.report(id: 0xabc, event: "stall.started")
    for (event, sequence) in [("stall.started", 1), ("stall.ongoing", 2), ("stall.ended", 3), ("stall.started", 4)] {
      let id = event == "stall.started" && sequence == 4 ? "0def" : "0abc"
      client.send(
        report.replacing("stall.started", with: event).replacing(#""sequence":1"#, with: "\"sequence\":\(sequence)")
          .replacing("0abc\"", with: "\(id)\""))
    }
    client.send(AgentClient.report(id: 0xabd))
    #expect(client.isAcknowledged(5))
    #expect(try agent.status().linesDuplicate == 4)
    let lines = try agent.lines()
    #expect(lines.count == 5 && lines.last?.contains("0abd\"") == true)
  }
}
