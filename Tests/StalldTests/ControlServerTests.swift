import Foundation
import LoopEngine
import TestSupport
import Testing

@testable import stalld

/// The control socket, and `stalld status` as a program beside it.
@Suite(.serialized, .takingTurns, .timeLimit(.minutes(3))) struct ControlServerTests {
  /// An agent with a control socket.
  final class Agent {
    let driver: AgentDriver
    let server: ControlServer
    let path: String
    private let scratch: ScratchDirectory

    init(_ status: AgentStatus = ControlServerTests.status) throws {
      driver = try AgentDriver()
      scratch = try ScratchDirectory()
      let path = scratch.url.appending(path: "control.sock").path
      self.path = path
      server = try driver.perform { driver in try ControlServer(path: path, loop: driver.loop) { status } }
    }

    deinit { try? driver.perform { [server] _ in server.stop() } }

    func publish(_ reports: [SampleReport]) throws {
      try driver.perform { [server] _ in server.publish(reports.map(\.line)) }
    }

    var readers: Int { get throws { try driver.perform { [server] _ in server.readers } } }
  }

  static let status: AgentStatus = {
    var status = AgentStatus(version: "1.2.3", pid: 4711, uptimeSeconds: 7265)
    status.configuration = .init(file: "/etc/stalld/stalld.yaml", error: "line 3: no such key")
    status.outputs = [.init(type: "file", target: "/var/log/stalld/stalls.jsonl", lines: 12, bytes: 34567)]
    status.clients = [
      .init(
        service: "we\u{1b}[31mb", unit: "web.service", pid: 26057, uid: 33, connected: "2026-11-21T06:00:00Z", lines: 9,
        openStalls: 1)
    ]
    status.connections = 1
    var recent = RecentStalls()
    recent.record(SampleReport(event: "stall.started").line)
    recent.record(SampleReport(event: "stall.ended").line)
    status.stalls = recent.stalls
    return status
  }()

  static func stalld(_ arguments: String...) throws -> Program {
    try Program.run(Program.built("stalld", "debug").path, arguments)
  }

  @Test func statusIsATableForPeople() throws {
    let agent = try Agent()
    let result = try Program.agentStatus(control: agent.path)
    #expect(result.status == 0 && result.errors.isEmpty, "\(result.errors)")
    let lines = result.output.split(separator: "\n", omittingEmptySubsequences: false).map { String($0) }
    #expect(lines.first == "stalld 1.2.3, process 4711, up 2.02 h, 0 B resident: healthy")
    #expect(result.output.contains("the last reload failed; the previous settings are in effect: line 3: no such key"))
    #expect(result.output.contains("  /var/log/stalld/stalls.jsonl  ok          12  33.8 KiB"))
    #expect(result.output.contains("  we\\u{1b}[31mb  web.service  26057   33      9"))
    // One stall, by its latest line.
    #expect(lines.filter { $0.contains("619 ms") }.count == 1)
    #expect(
      result.output.contains(
        "2026-11-21T06:04:01Z  web      ended  619 ms    lock   Pool.take()\n"))
  }

  @Test func statusAsJSONIsWhatTheAgentSays() throws {
    let agent = try Agent()
    let result = try Program.agentStatus("--json", control: agent.path)
    #expect(result.status == 0)
    #expect(try JSONDecoder().decode(AgentStatus.self, from: Data(result.output.utf8)) == Self.status)
    #expect(result.output.split(separator: "\n").count == 1 && result.output.hasSuffix("}\n"))
    let mode = try FileManager.default.attributesOfItem(atPath: agent.path)[.posixPermissions] as? Int
    #expect(mode == 0o660)
  }

  /// The status of an agent says which file its settings come from, and whether that exists.
  @Test func aSettingsFileThatDoesNotExistIsNotNamedAsItsSettings() throws {
    var status = Self.status
    status.configuration = .init(file: "/etc/stalld/stalld.yaml", exists: false)
    let agent = try Agent(status)
    #expect(
      try Program.agentStatus(control: agent.path).output.contains(
        "  settings: none (defaults, STALLD_ variables and flags; /etc/stalld/stalld.yaml does not exist)\n"))
    status.configuration.exists = true
    let other = try Agent(status)
    #expect(
      try Program.agentStatus(control: other.path).output.contains("  settings: /etc/stalld/stalld.yaml\n"))
  }

  /// Each command says that it has the other socket; so does the agent to a service.
  @Test func theOtherSocketIsNamedAsThat() throws {
    let agent = try RunningAgent()
    for command in [["status"], ["tail"], ["reload"]] {
      let run = try Program.run(
        Program.built("stalld", "debug").path, command + ["--control", agent.socketPath], limit: 30)
      #expect(run.status == 1 && run.output == "")
      #expect(
        run.errors.contains("this socket is for services; use --control PATH with the agent's control socket"),
        "\(run.errors)")
    }
    #expect(try agent.status().configuration.exists == true)
    // Later ones have lines of earlier ones to send as well, and the agent closes the connection before it has read them.
    let state = try ScratchDirectory.inMemory()
    func run() throws -> Program {
      try Program.run(
        Program.built("StallVictim", "debug").path, ["stalls", "150"],
        environment: [
          "STALLMONITOR_SINK": "agent:\(agent.controlPath)", "STALLMONITOR_THRESHOLD": "100ms",
          "STALLMONITOR_STATE_DIRECTORY": state.url.path,
        ], limit: 1.5)
    }
    for _ in 0..<4 {
      let service = try run()
      #expect(
        service.errors.contains(
          "the agent reports: unknown request; allowed: status, tail and reload. This is the control socket")
          && service.errors.contains(
            "services connect to the agent's other socket (setting socket.path, or --socket of stalld run)"),
        "\(service.errors)")
    }
  }

  /// The same JSON is refused here as everywhere else.
  @Test func answerThatIsHostileJSONIsNotUsed() throws {
    let scratch = try ScratchDirectory()
    let path = scratch.url.appending(path: "control.sock").path
    let status = String(decoding: try JSONEncoder().encode(Self.status), as: UTF8.self)
    func answer(_ text: String) throws -> Program {
      let listener = try StreamListener(path: path, mode: 0o600)
      defer { listener.end() }
      Thread.detachNewThread {
        var entry = pollfd(fd: listener.descriptor, events: Int16(POLLIN), revents: 0)
        _ = poll(&entry, 1, 10_000)
        var isExhausted = false
        guard let connection = listener.accept(isExhausted: &isExhausted) else { return }
        entry.fd = connection
        _ = poll(&entry, 1, 10_000)
        var request = [UInt8](repeating: 0, count: 100)
        _ = recv(connection, &request, request.count, 0)
        let bytes = Array((text + "\n").utf8)
        _ = send(connection, bytes, bytes.count, Int32(MSG_NOSIGNAL))
        close(connection)
      }
      return try Self.stalld("status", "--control", path)
    }
    #expect(try answer(status).status == 0)
    let nested = String(repeating: "[", count: 100) + String(repeating: "]", count: 100)
    let refused = try answer(status.dropLast() + ",\"other\":\(nested)}")
    #expect(refused.status == 1 && refused.errors.contains("cannot read the answer of the agent"))
  }

  @Test func missingAgentIsReportedInTime() throws {
    let missing = try Self.stalld("status", "--control", "/nonexistent/control.sock")
    #expect(missing.status == 1 && missing.output.isEmpty)
    #expect(
      missing.errors
        == "stalld status: no agent responds at /nonexistent/control.sock: no such socket; start it (systemctl start stalld.socket stalld.service, or stalld run), or name its socket with --control\n"
    )
    // What a killed agent leaves behind.
    let scratch = try ScratchDirectory()
    let path = scratch.url.appending(path: "dead.sock").path
    let listener = try StreamListener(path: path, mode: 0o600)
    // It listens, and nobody ever answers.
    let silent = try Self.stalld("status", "--control", path)
    #expect(silent.status == 1)
    #expect(silent.errors.contains("timed out"))
    close(listener.descriptor)
    let dead = try Self.stalld("status", "--control", path)
    #expect(dead.status == 1)
    #expect(dead.errors.contains("connection refused; start it"))
    // The next agent takes the place of a dead one, and not of a living one, nor of a file.
    let next = try StreamListener(path: path, mode: 0o600)
    #expect(throws: StreamListener.Failure.self) { try StreamListener(path: path, mode: 0o600) }
    next.end()
    try Data("mine".utf8).write(to: URL(filePath: path))
    #expect(throws: StreamListener.Failure.self) { try StreamListener(path: path, mode: 0o600) }
    #expect(try String(contentsOfFile: path, encoding: .utf8) == "mine")
  }

  @Test func readersGetEachLineAsItIsWritten() throws {
    let agent = try Agent()
    try agent.publish((1...60).map { SampleReport(sequence: $0) })
    let reader = try ClientSocket(path: agent.path)
    reader.send("{\"tail\":{\"lines\":2}}\n")
    #expect(reader.line() == SampleReport(sequence: 59).text + "\n")
    #expect(reader.line() == SampleReport(sequence: 60).text + "\n")
    try agent.publish([SampleReport(sequence: 61)])
    #expect(reader.line() == SampleReport(sequence: 61).text + "\n")
  }

  @Test func slowReaderLosesLinesAndGetsTheirNumber() throws {
    let agent = try Agent()
    let (slow, quick) = (try ClientSocket(path: agent.path), try ClientSocket(path: agent.path))
    for reader in [slow, quick] { reader.send("{\"tail\":{}}\n") }
    #expect(try eventually { try agent.readers == 2 })
    let count = 4000
    var received = 0
    for first in stride(from: 1, through: count, by: 100) {
      try agent.publish((first..<(first + 100)).map { SampleReport(sequence: $0) })
      for number in first..<(first + 100) {
        received += quick.line() == SampleReport(sequence: number).text + "\n" ? 1 : 0
      }
    }
    #expect(received == count, "the quick one has all")
    // Now the slow one reads: what came, how much did not, and then what comes.
    var (sequence, lost) = (0, 0)
    var line = slow.line()
    while sequence + lost < count, !line.isEmpty {
      let object = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
      if let dropped = object["dropped"] as? Int {
        lost += dropped
      } else {
        let stall = try #require(object["stall"] as? [String: Any])
        #expect(stall["sequence"] as? Int == sequence + lost + 1, "in order, and the number lost is exact")
        sequence += 1
      }
      if sequence + lost < count { line = slow.line() }
    }
    #expect(lost > 0 && sequence > 0 && sequence + lost == count)
    try agent.publish([SampleReport(sequence: count + 1)])
    #expect(slow.line() == SampleReport(sequence: count + 1).text + "\n")
  }

  @Test func invalidRequestsDoNoHarm() throws {
    let agent = try Agent()
    for (request, answer) in [
      ("nonsense\n", "the request is not JSON"),
      ("{\"stop\":{}}\n", "unknown request; allowed: status, tail and reload"),
    ] {
      let socket = try ClientSocket(path: agent.path)
      socket.send(request)
      #expect(socket.line() == "{\"error\":\"\(answer)\"}\n")
      #expect(socket.line().isEmpty, "closed")
    }
    // Endless requests, and clients that never say anything or go at once.
    let endless = try ClientSocket(path: agent.path)
    endless.send(String(repeating: "x", count: 1 << 16))
    #expect(endless.line().isEmpty)
    var silent: [ClientSocket] = []
    for _ in 0..<100 { silent.append(try ClientSocket(path: agent.path)) }
    // Those above the limit get the refusal at once; the others' time ends some seconds later.
    let answers = silent.map { $0.line() }
    #expect(answers.filter { $0.contains("too many connections") }.count >= 100 - ControlServer.connectionLimit)
    #expect(answers.allSatisfy { $0.isEmpty || $0.hasPrefix("{\"error\":") }, "closed")
    #expect(try Program.agentStatus("--json", control: agent.path).status == 0)
  }
}
