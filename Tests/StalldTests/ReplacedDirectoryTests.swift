import Foundation
import TestSupport
import Testing

@testable import stalld

/// Directories of the agent that are removed and made again, while it may write nowhere else: as for a unit with `ProtectSystem=strict`
/// and `LogsDirectory=`, a mount makes each of them writable, and that mount ends when the directory is removed.
@Suite(
  .serialized, .takingTurns, .timeLimit(.minutes(3)),
  .enabled(if: getuid() == 0, "needs root for mounts in a namespace of its own"))
struct ReplacedDirectoryTests {
  private let manager: NotifySocket

  init() throws { manager = try NotifySocket(.path) }

  /// What comes before the command line of an agent that may write only to `PLACE/unit/logs` and `PLACE/unit/state`.
  private func confinement(isSupervised: Bool) -> [String] {
    let script = #"""
      unit=$(dirname "$4")/unit && mkdir -p "$unit/logs" "$unit/state" &&
        mount --bind "$unit" "$unit" && mount -o remount,bind,ro "$unit" || exit 7
      for name in logs state; do
        mount --bind "$unit/$name" "$unit/$name" && mount -o remount,bind,rw "$unit/$name" || exit 7
      done
      exec "$@" --details "$unit/state/stalls"
      """#
    let notified = isSupervised ? ["/usr/bin/env", "NOTIFY_SOCKET=\(manager.address)"] : []
    return notified + ["/usr/bin/unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", script, "sh"]
  }

  private func makeAgent(isSupervised: Bool) throws -> RunningAgent {
    try RunningAgent(
      "outputs: [{ type: file, path: PLACE/unit/logs/stalls.jsonl }]",
      wrapper: confinement(isSupervised: isSupervised))
  }

  private func place(_ name: String, of agent: RunningAgent) -> URL {
    agent.scratch.url.appending(path: "unit/\(name)")
  }

  private func remove(_ name: String, of agent: RunningAgent) throws {
    try FileManager.default.removeItem(at: place(name, of: agent))
  }

  private func make(_ name: String, of agent: RunningAgent) {
    #expect(mkdir(place(name, of: agent).path, 0o750) == 0)
  }

  private static let replaced = "was replaced, and this process cannot write to the new one: Read-only file system"

  @Test func agentEndsForItsServiceManagerToStartItAgain() throws {
    let agent = try makeAgent(isSupervised: true)
    let client = try AgentClient(agent.socketPath)
    client.send(AgentClient.report(id: 1))
    #expect(client.isAcknowledged(1))

    // With no directory at all, a restart would not help.
    try remove("logs", of: agent)
    client.send(AgentClient.report(id: 2))
    agent.expect("it logs why") {
      agent.said.contains("stalls.jsonl: No such file or directory; lines are kept; retrying")
    }
    #expect(try agent.status().problems.contains { $0.hasSuffix("not accepting writes: No such file or directory") })

    make("logs", of: agent)
    try waitUntil("it ends: \(agent.said)") { !agent.process.isRunning }
    #expect(agent.process.terminationStatus == 1)
    #expect(agent.said.ranges(of: Self.replaced).count == 1, "\(agent.said)")
    #expect(agent.said.contains("; lines are kept; the agent ends, and its service manager starts it again"))
    while let line = client.next() { #expect(!line.contains("acknowledged"), "it is in no file") }

    try agent.start(wrapper: confinement(isSupervised: true))
    let next = try AgentClient(agent.socketPath)
    for id in 2...3 { next.send(AgentClient.report(id: id)) }
    #expect(next.isAcknowledged(2))
    let text = try String(contentsOf: place("logs/stalls.jsonl", of: agent), encoding: .utf8)
    #expect(try WrittenReport.all(in: text).map { Int($0.id, radix: 16) } == [2, 3])
    #expect(agent.stop() == 0)
  }

  /// Nobody would start it again.
  @Test func agentWithoutAServiceManagerKeepsLinesAndSaysWhatToDo() throws {
    let agent = try makeAgent(isSupervised: false)
    let client = try AgentClient(agent.socketPath)
    client.send(AgentClient.report(id: 1))
    #expect(client.isAcknowledged(1))
    try remove("logs", of: agent)
    make("logs", of: agent)
    client.send(AgentClient.report(id: 2))
    agent.expect("it says what to do") { agent.said.contains("\(Self.replaced); lines are kept; restart the agent") }
    // It retries more than once.
    try agent.expect("it goes on") { try agent.status().outputs[0].errors > 3 }
    #expect(try agent.status().outputs[0].queued == 1)
    #expect(try agent.status().problems.contains { $0.contains(Self.replaced) })
    #expect(agent.said.ranges(of: Self.replaced).count == 1, "\(agent.said)")
  }

  @Test func reloadFindsTheDirectoryOfDetailsReplaced() throws {
    let agent = try makeAgent(isSupervised: true)
    let stalls = place("state/stalls", of: agent)
    // Where it may make the directory itself, it does.
    try FileManager.default.removeItem(at: stalls)
    let reload = [try Program.built("stalld", "debug").path, "reload", "--control", agent.controlPath]
    #expect(try Program.run(reload[0], Array(reload.dropFirst())).status == 0)
    #expect(FileManager.default.fileExists(atPath: stalls.path))

    try remove("state", of: agent)
    make("state", of: agent)
    let answer = try Program.run(reload[0], Array(reload.dropFirst()))
    #expect(answer.status == 0, "the next process has the settings: \(answer.errors)")
    try waitUntil("it ends: \(agent.said)") { !agent.process.isRunning }
    #expect(agent.process.terminationStatus == 1)
    #expect(agent.said.ranges(of: Self.replaced).count == 1, "\(agent.said)")
    try agent.start(wrapper: confinement(isSupervised: true))
    #expect(FileManager.default.fileExists(atPath: stalls.path))
    #expect(agent.stop() == 0)
  }
}
