import Foundation
import TestSupport
import Testing

/// A file system that is full: a small tmpfs in a mount namespace of the test's own.
@Suite(
  .serialized, .takingTurns, .timeLimit(.minutes(2)),
  .enabled(if: getuid() == 0, "needs root for a mount in a namespace of its own"))
struct AgentDiskFullTests {
  @Test("with a full disk the agent keeps running, loses and truncates nothing, and recovers by itself")
  func diskFull() throws {
    // 400 KiB for what are more than 2 MB of reports. The memory limit is its least, so that hosts have to wait.
    let agent = try RunningAgent(
      "limits: { memory: 1MiB, lines_per_second: 100000 }",
      wrapper: [
        "/usr/bin/unshare", "--mount", "--propagation", "private", "/bin/sh", "-c",
        // The directory is in sight through the process's root.
        "mount -t tmpfs -o size=400k tmpfs $(dirname \"$4\")/logs && exec \"$@\"", "sh",
      ])
    let process = agent.process.processIdentifier
    let file = URL(fileURLWithPath: "/proc/\(process)/root\(agent.output.path)")
    let count = 1500
    let client = try AgentClient(agent.socketPath)
    Thread {
      for id in 1...count { client.send(AgentClient.report(id: id, filler: 20)) }
    }.start()
    agent.expect("it logs that the file is not accepting writes") { agent.said.contains("No space left on device") }
    #expect(agent.process.isRunning)
    // Space is freed step by step: what is there is read, and taken away as a shipper would after
    // it was rotated.
    var seen: [String] = []
    let deadline = Date(timeIntervalSinceNow: 90)
    while seen.count < count, Date() < deadline {
      func content() -> String { (try? String(contentsOf: file, encoding: .utf8)) ?? "" }
      // Half of a line may be seen of one write(2), also of one that is taken back at once.
      var text = content()
      let isAtRest = eventually(within: 10) {
        let before = text
        usleep(200_000)
        text = content()
        return text == before
      }
      let settled = text.prefix(upTo: text.lastIndex(of: "\n").map { text.index(after: $0) } ?? text.startIndex)
      #expect(!isAtRest || settled == text, "no line is cut, not even for a moment that a reader sees at rest")
      seen += settled.split(separator: "\n").map(String.init)
      // Rotation from outside: rename, reopen, remove.
      let rotated = file.deletingLastPathComponent().appending(path: "old")
      try? FileManager.default.removeItem(at: rotated)
      try FileManager.default.moveItem(at: file, to: rotated)
      agent.signal(SIGHUP)
      agent.expect("the file is created again") { FileManager.default.fileExists(atPath: file.path) }
      // What was written between the reading and the rename.
      let rest = try String(contentsOf: rotated, encoding: .utf8)
      seen += rest.dropFirst(settled.count).split(separator: "\n").map(String.init)
      try FileManager.default.removeItem(at: rotated)
    }
    #expect(seen.count == count)
    #expect(Set(seen).count == count, "nothing is doubled")
    for line in seen {
      _ = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
    }
    #expect(client.isAcknowledged(count))
    agent.expect("it logs that the file accepts writes again") { agent.said.contains("accepts writes again") }
  }
}
