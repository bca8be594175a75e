import Foundation
import TestSupport
import Testing

@testable import stalld

/// `stalld reload`: what `systemctl reload stalld` runs.
@Suite(.serialized, .takingTurns, .timeLimit(.minutes(2)))
struct AgentReloadTests {
  private func reload(_ agent: RunningAgent, _ more: String...) throws -> Program {
    try Program.run(Program.built("stalld", "debug").path, ["reload", "--control", agent.controlPath] + more)
  }

  @Test("a reload returns when the new settings apply, or fails with all errors, and the old ones still apply")
  func outcome() throws {
    let agent = try RunningAgent("services: [{ match: web, threshold: 70ms }]")
    let client = try AgentClient(agent.socketPath)
    client.send(#"{"hello":{"protocol":1,"service":{"name":"web"}}}"#)
    #expect(client.next()?.contains("70ms") == true)
    #expect(client.isAcknowledged(1))

    try agent.configure("services: [{ match: web, threshold: 80ms }]")
    let good = try reload(agent)
    #expect(good.status == 0 && good.output + good.errors == "", "\(good.errors)")
    #expect(client.next(within: 0) == #"{"settings":{"threshold":"80ms"}}"#, "in force when the command has ended")

    try agent.configure("services: [{ match: web, threshold: soon }]\nlimts: {}")
    let bad = try reload(agent)
    #expect(bad.status == 1 && bad.output.isEmpty)
    let problems = bad.errors.split(separator: "\n")
    #expect(problems.count == 2 && problems.allSatisfy { $0.hasPrefix("stalld reload: not reloaded: ") })
    #expect(bad.errors.contains("services[0].threshold = soon: allowed: "))
    #expect(bad.errors.contains("limts: no such key"))
    #expect(try agent.status().configuration.error?.contains("limts") == true)
    #expect(client.next(within: 200) == nil)

    try agent.configure("services: [{ match: web, threshold: 90ms }]")
    #expect(try reload(agent).status == 0)
    #expect(try agent.status().configuration.error == nil)
  }

  @Test("an unusable output or directory makes a reload fail; settings that need a restart are logged")
  func outputsAndRestart() throws {
    let agent = try RunningAgent()
    try agent.configure("outputs: [{ type: file, path: /nonexistent/stalls.jsonl }]")
    let output = try reload(agent)
    #expect(output.status == 1 && output.errors.contains("/nonexistent/stalls.jsonl"), "\(output.errors)")

    try agent.configure("")
    let detailsFile = agent.scratch.url.appending(path: "no-directory")
    try Data().write(to: detailsFile)
    let file = agent.scratch.url.appending(path: "stalld.yaml")
    let text = try String(contentsOf: file, encoding: .utf8)
    try text.replacing("\(agent.scratch.url.path)/details", with: detailsFile.path)
      .write(to: file, atomically: true, encoding: .utf8)
    let details = try reload(agent)
    #expect(
      details.status == 1 && details.errors.contains("details.directory \(detailsFile.path): "), "\(details.errors)")
    #expect(try agent.status().configuration.error?.contains("in effect") == false)

    // All of the settings or none: the outputs do not change if the directory cannot be used.
    let other = agent.scratch.url.appending(path: "other.jsonl")
    try text.replacing("\(agent.scratch.url.path)/details", with: detailsFile.path)
      .replacing(agent.output.path, with: other.path)
      .write(to: file, atomically: true, encoding: .utf8)
    #expect(try reload(agent).status == 1)
    #expect(!FileManager.default.fileExists(atPath: other.path))
    #expect(try agent.status().outputs.map(\.target) == [agent.output.path])

    try text.replacing("socket: { path", with: "socket: { mode: \"0600\", path")
      .write(to: file, atomically: true, encoding: .utf8)
    let restart = try reload(agent)
    #expect(restart.status == 0)
    #expect(restart.errors == "stalld reload: restart the agent to apply socket.mode\n")
  }

  @Test("a reload refuses an output at the path of a text file that the agent writes until it is restarted")
  func textfileOfTheRunningAgent() throws {
    let agent = try RunningAgent("metrics: { textfile: PLACE/a.prom }")
    let place = agent.scratch.url.path
    for more in ["", "metrics: { textfile: \(place)/b.prom }"] {
      try agent.configure("outputs: [{ type: file, path: PLACE/a.prom }]\n" + more)
      let refused = try reload(agent)
      #expect(refused.status == 1)
      let reason = "outputs[0].path has the same path; it applies until the agent is restarted"
      #expect(refused.errors.contains("metrics.textfile = \(place)/a.prom: \(reason)"), "\(refused.errors)")
    }
    // What applies after a restart, all at once, is no conflict.
    try agent.configure("metrics: { textfile: PLACE/b.prom, listen: \"unix:PLACE/m\" }")
    #expect(try reload(agent).status == 0)
  }

  @Test("reload finds the agent by settings that have errors; without an agent it fails")
  func whereItAsks() throws {
    let agent = try RunningAgent()
    let file = agent.scratch.url.appending(path: "stalld.yaml").path
    let stalld = try Program.built("stalld", "debug").path
    #expect(try Program.run(stalld, ["reload", "--config", file]).status == 0)
    try agent.configure("limts: {}")
    let refused = try Program.run(stalld, ["reload", "--config", file])
    #expect(refused.status == 1 && refused.errors.contains("limts: no such key"))
    #expect(agent.stop() == 0)
    let gone = try Program.run(stalld, ["reload", "--config", file])
    #expect(gone.status == 1 && gone.errors.contains("no agent responds"))
  }

  @Test("only root and the agent's own user may reload", .enabled(if: getuid() == 0, "not root"))
  func whoMay() throws {
    let agent = try RunningAgent()
    chmod(agent.controlPath, 0o666)
    for (user, answer) in [("65534", "only root and the agent's own user may reload"), ("0", "{\"reload\":{}}")] {
      let script =
        "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(b'{\"reload\":{}}\\n'); print(s.recv(4096).decode())"
      let asked = try Program.run(
        "/usr/bin/setpriv", ["--reuid", user, "--clear-groups", "/usr/bin/python3", "-c", script, agent.controlPath])
      #expect(asked.output.contains(answer), "\(asked)")
    }
  }

  @Test("systemd is notified of the start and the end of a reload before the command exits", arguments: [true, false])
  func notified(isGood: Bool) throws {
    let manager = try NotifySocket(.path)
    let agent = try RunningAgent(wrapper: ["/usr/bin/env", "NOTIFY_SOCKET=\(manager.address)"])
    var words: [String] = []
    func read() { while let message = manager.next(within: 0) { words.append(message) } }
    read()
    words = []
    try agent.configure(isGood ? "" : "limts: {}")
    #expect(try reload(agent).status == (isGood ? 0 : 1))
    read()
    let told = words.filter { !$0.hasPrefix("WATCHDOG") }
    #expect(told.count == 2 && told.first?.hasPrefix("RELOADING=1\nMONOTONIC_USEC=") == true, "\(told)")
    #expect(told.last == "READY=1\nSTATUS=Serving" + (isGood ? "" : "; the last reload failed"))
  }
}
