import Foundation
import Glibc
import TestSupport
import Testing

@testable import stalld

/// Two files; one is behind when the agent ends.
@Suite(
  .serialized, .takingTurns, .timeLimit(.minutes(3)),
  .enabled(if: geteuid() == 0, "mounting a small file system needs root"))
struct AgentUnevenOutputsTests {
  @Test("after a restart, each file gets its missing lines, and no line twice", arguments: [SIGTERM, SIGKILL])
  func restart(signal: Int32) throws {
    let disk = try SmallDisk(size: "256k")
    let full = disk.path + "/second.jsonl"
    let agent = try RunningAgent(
      "outputs: [{ type: file, path: PLACE/logs/stalls.jsonl }, { type: file, path: \(full) }]")
    let first = agent.output.path
    func count(_ path: String) -> Int {
      ((try? Data(contentsOf: URL(fileURLWithPath: path))) ?? Data()).count { $0 == UInt8(ascii: "\n") }
    }
    let client = try AgentClient(agent.socketPath)
    for id in 1...20 { client.send(AgentClient.report(id: id, filler: 20)) }
    agent.expect("both have the first ones") { client.isAcknowledged(20) }
    try disk.fill(leaving: 8192)
    for id in 21...60 { client.send(AgentClient.report(id: id, filler: 20)) }
    agent.expect("the first file has all") { count(first) == 60 }
    agent.expect("the second is full") { agent.said.contains("No space left on device") }
    #expect(!client.isAcknowledged(60, within: 300))
    agent.signal(signal)
    agent.process.waitUntilExit()
    client.end()
    #expect(count(full) < 60)
    try disk.makeSpace()
    try agent.start()
    let again = try AgentClient(agent.socketPath)
    // Its host does not know of 15 to 20 that they had arrived.
    for id in 15...70 { again.send(AgentClient.report(id: id, filler: 20)) }
    agent.expect("all are acknowledged") { again.isAcknowledged(56) }
    for path in [first, full] {
      let lines = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").map(String.init)
      let ids = try lines.map { try WrittenReport($0).id }
      #expect(ids.count == 70 && Set(ids).count == 70, "\(path): \(ids.count) lines, \(Set(ids).count) stalls")
      #expect(ids == ids.sorted(), "in order")
    }
    #expect(agent.stop() == 0)
  }
}
