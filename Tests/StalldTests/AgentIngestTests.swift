import Foundation
import TestSupport
import Testing

@testable import stalld

/// The real agent, and hosts that speak its protocol.
@Suite(.serialized, .takingTurns, .timeLimit(.minutes(2)))
struct AgentIngestTests {
  private func object(_ line: String) throws -> [String: Any] {
    try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
  }

  @Test("a report is written once, acknowledged, and has the kernel's identity of its process")
  func stamped() throws {
    let agent = try RunningAgent()
    let client = try AgentClient(agent.socketPath)
    // It claims another pid, and to be root's.
    client.send(
      AgentClient.report(
        id: 1,
        process: #"{"pid":1,"user":{"id":"4711"},"linux":{"cgroup":"/evil"},"executable":{"path":"/usr/bin/web"}}"#))
    client.send(AgentClient.report(id: 1))
    client.send(AgentClient.report(id: 1, sequence: 2, event: "stall.ongoing"))
    #expect(client.isAcknowledged(3))
    let lines = try agent.lines()
    #expect(lines.count == 2, "the second one is the first one again")
    let process = try #require(try object(lines[0])["process"] as? [String: Any])
    #expect(process["pid"] as? Int == Int(getpid()))
    #expect(process["reported_pid"] as? Int == 1)
    #expect((process["user"] as? [String: Any])?["id"] as? String == String(getuid()))
    #expect((process["executable"] as? [String: Any])?["path"] as? String == "/usr/bin/web")
    #expect(!lines[0].contains("evil"))
    try agent.expectValidLines()
    #expect(agent.stop() == 0)
  }

  @Test(
    "a process that changes its user gets the identity of its new one with its next connection",
    .enabled(if: geteuid() == 0, "needs root to change the user"))
  func changedUser() throws {
    let agent = try RunningAgent()
    chmod(agent.scratch.url.path, 0o777)
    chmod(agent.socketPath, 0o777)
    let lines = [
      AgentClient.report(id: 1, event: "stall.started"), AgentClient.report(id: 2, event: "stall.started"),
      AgentClient.report(id: 1, sequence: 2), AgentClient.report(id: 3),
    ]
    let service = try Program.start(
      "/usr/bin/python3",
      [
        "-c",
        """
        import os, socket, sys
        def send(count, lines):
          s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
          s.sendall("".join(line + "\\n" for line in lines).encode())
          seen = b""
          while b'"acknowledged":%d}' % count not in seen and (more := s.recv(4096)): seen += more
          return s
        first = send(2, sys.argv[2:4])
        os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
        second = send(2, sys.argv[4:])
        os._exit(0)
        """, agent.socketPath,
      ] + lines)
    service.waitUntilExit()
    try agent.expect("the end in a stall") { try agent.lines().contains { $0.contains("stall.fatal") } }
    func users(_ event: String) throws -> [String] {
      try agent.lines().filter { $0.contains(event) }.map { line in
        let process = try #require(try object(line)["process"] as? [String: Any])
        #expect(process["pid"] as? Int == Int(service.processIdentifier))
        return try #require((process["user"] as? [String: Any])?["id"] as? String)
      }
    }
    #expect(try users("stall.started") == ["0", "0"])
    #expect(try users("stall.ended") == ["65534", "65534"])
    #expect(try users("stall.fatal") == ["0"], "of the stall that has not ended")
  }

  @Test(
    "a line that claims another process or unit, or is no report, is refused with a reason; other lines are accepted")
  func refused() throws {
    let agent = try RunningAgent()
    let client = try AgentClient(agent.socketPath)
    let good = AgentClient.report(id: 1)
    let bad = [
      "{\"systemd\":{\"unit\":\"sshd.service\"},\(good.dropFirst())", "{\"process.pid\":7,\(good.dropFirst())",
      "{\"process\":{\"pid\":7},\(good.dropFirst())", good.replacing("stall.ended", with: "stall.invented"),
      good.replacing(#""sequence":1"#, with: #""sequence":-1"#), good.replacing("0001\"", with: "000\""), "nonsense",
      "{}",
    ]
    for line in bad {
      client.send(line)
      let answer = try #require(client.next())
      #expect(answer.contains("\"error\""), "\(line): \(answer)")
      #expect(client.isAcknowledged(1))
    }
    client.send(good)
    #expect(client.isAcknowledged(bad.count + 1))
    #expect(try agent.lines().count == 1)
    #expect(agent.said.contains("was refused"))
    #expect(agent.said.contains("process \(getpid())"))
  }

  @Test("the next agent recognises a report that a killed one has written and not acknowledged")
  func knownAfterRestart() throws {
    let agent = try RunningAgent()
    let first = try AgentClient(agent.socketPath)
    for id in 1...50 { first.send(AgentClient.report(id: id)) }
    #expect(first.isAcknowledged(50))
    agent.killAndWait()
    try agent.start()
    let second = try AgentClient(agent.socketPath)
    for id in 40...60 { second.send(AgentClient.report(id: id)) }
    #expect(second.isAcknowledged(21))
    #expect(try agent.lines().count == 60)
  }

  @Test("kept lines of a service are counted, and exceeding the rate is logged")
  func spooledAndRate() throws {
    let agent = try RunningAgent("metrics: { textfile: PLACE/stalld.prom, textfile_interval: 1s }")
    let client = try AgentClient(agent.socketPath)
    client.send(#"{"hello":{"protocol":1,"service":{"name":"web-1"},"spooled":3}}"#)
    for id in 1...30 { client.send(AgentClient.report(id: id)) }
    #expect(client.isAcknowledged(31))
    let status = try object(try Program.agentStatus("--json", control: agent.controlPath).output)
    let clients = try #require(status["clients"] as? [[String: Any]])
    let ours = try #require(clients.first { $0["service"] as? String == "web-1" })
    #expect(try #require(ours["lines_per_second"] as? Double) > 0.1)
    let metrics = agent.scratch.url.appending(path: "stalld.prom")
    agent.expect("the number is in the metrics") {
      (try? String(contentsOf: metrics, encoding: .utf8))?.contains(
        "\nstalld_lines_spooled_total{user=\"\(getuid())\"} 3\n") == true
    }
    func connections() -> Substring? {
      (try? String(contentsOf: metrics, encoding: .utf8))?.split(separator: "\n").last {
        $0.hasPrefix("stalld_connections ")
      }
    }
    let before = connections()
    client.end()
    agent.expect("so is the end of a connection") { connections() != before }
  }

  @Test("a process that is not allowed is refused, and the reason is logged")
  func notAllowed() throws {
    let agent = try RunningAgent("allow: { users: [65534] }")
    let client = try AgentClient(agent.socketPath)
    #expect(client.next()?.contains("refused") == true)
    #expect(client.next() == nil)
    #expect(agent.said.contains("refused a connection of process \(getpid()) of user \(getuid())"))
    // The same user by its group.
    try agent.configure("allow: { users: [65534], groups: [\(getgid())] }")
    agent.signal(SIGHUP)
    agent.expect("the group is let in") {
      guard let client = try? AgentClient(agent.socketPath) else { return false }
      client.send(AgentClient.report(id: 1))
      return client.isAcknowledged(1, within: 500)
    }
  }

  @Test("a process in hundreds of groups is allowed by its last one", .enabled(if: geteuid() == 0, "needs root"))
  func manyGroups() throws {
    let agent = try RunningAgent("allow: { users: [65534], groups: [100500] }")
    let service = try Program.start(
      "/usr/bin/python3",
      [
        "-c",
        """
        import os, socket, sys
        os.setgroups(range(100001, 100501))
        s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
        s.sendall(sys.argv[2].encode() + b"\\n")
        os._exit(0 if b"acknowledged" in s.recv(4096) else 1)
        """, agent.socketPath, AgentClient.report(id: 1),
      ])
    service.waitUntilExit()
    #expect(service.terminationStatus == 0, "\(agent.said)")
  }

  @Test(
    "clients that take all descriptors: the others are refused with a reason, counted and reported, and the agent's own work continues"
  )
  func noDescriptors() throws {
    let agent = try RunningAgent(
      """
      outputs: [{ type: file, path: PLACE/logs/stalls.jsonl, max_size: 64KiB }]
      metrics: { listen: "unix:PLACE/m", textfile: PLACE/stalld.prom, textfile_interval: 1s }
      """, wrapper: ["/usr/bin/prlimit", "--nofile=96:96"])
    #expect(agent.said.contains("(RLIMIT_NOFILE) is 96: some clients are refused when there are more than "))
    #expect(try agent.status().problems == [])
    try agent.expect("the agent's own connection") { try agent.status().connections == 1 }
    func http(_ path: String) throws -> String {
      let socket = try ClientSocket(path: agent.scratch.url.appending(path: "m").path)
      socket.send("GET \(path) HTTP/1.0\r\n\r\n")
      return socket.readToEnd()
    }
    let clients = try (0..<120).map { _ in try AgentClient(agent.socketPath) }
    for (id, client) in clients.enumerated() { client.send(AgentClient.report(id: id + 1)) }
    var served: [AgentClient] = []
    for client in clients {
      if let answer = client.next(), answer.hasPrefix("{\"acknowledged\":") {
        served.append(client)
      } else {
        #expect(client.next() == nil)
      }
    }
    // Each of the others was answered, and the agent has counted what it answered.
    let refused = clients.count - served.count
    #expect(served.count > 5 && refused > 5)
    let count = "\nstalld_connections_refused_total{reason=\"no_descriptors\"} "
    #expect(try http("/metrics").contains("\(count)\(refused)\n"))
    let latest = try AgentClient(agent.socketPath)
    #expect(latest.next() == #"{"error":"refused: the agent has no descriptors left for another connection"}"#)
    #expect(try agent.lines().count == served.count)
    // One message a minute.
    let messages = agent.said.components(separatedBy: "refused a connection of process \(getpid()) of user").count - 1
    #expect((1...3).contains(messages))
    let problem = try agent.status().problems.joined()
    #expect(problem.hasPrefix("services cannot connect: no descriptors are left for clients (RLIMIT_NOFILE is 96)"))
    let health = try http("/healthz")
    #expect(health.contains(" 503 ") && health.contains(problem))

    // Rotation and compression, detail files, the textfile, a reload, and another process that looks up names.
    let client = served[0]
    for id in 1001...1200 { client.send(AgentClient.report(id: id)) }
    client.send("{\"detail\":{\"id\":\"\(String(repeating: "a", count: 32))\",\"samples\":[]}}")
    #expect(client.isAcknowledged(202))
    func hasFile(in directory: String, _ isIt: (String) -> Bool) -> Bool {
      let names = try? FileManager.default.contentsOfDirectory(atPath: agent.scratch.path + directory)
      return names?.contains(where: isIt) == true
    }
    agent.expect("a compressed file") { hasFile(in: "/logs") { $0.hasSuffix(".gz") } }
    agent.expect("a detail file") { hasFile(in: "/details") { $0.hasPrefix("aaaa") } }
    agent.expect("the number in the textfile") {
      (try? String(contentsOfFile: agent.scratch.path + "/stalld.prom", encoding: .utf8))?
        .contains("\(count)\(refused + 1)\n") == true
    }
    agent.signal(SIGHUP)
    agent.expect("a reload") { agent.said.contains("stalld: reloaded") }
    func workers() throws -> [Int32] {
      let children = try Program.run("/usr/bin/pgrep", ["-P", "\(agent.process.processIdentifier)"]).output
      return children.split(separator: "\n").compactMap { Int32($0) }
    }
    let workersBefore = try workers()
    for worker in workersBefore { kill(worker, SIGKILL) }
    var build = 2000
    try agent.expect("another name worker") {
      // Of a build that is not known to be missing.
      build += 1
      let report = AgentClient.report(id: build, filler: 1)
      client.send(report.replacing("6a52383ed409c6a700", with: "6a52383ed409c6\(build)"))
      return try !Set(workers()).subtracting(workersBefore).isEmpty
    }

    // There is space again when clients have gone.
    served.dropFirst().forEach { $0.end() }
    try agent.expect("a healthy agent") { try agent.status().problems.isEmpty }
    #expect(try http("/healthz").hasSuffix("\r\n\r\nok\n"))
    let last = try AgentClient(agent.socketPath)
    last.send(AgentClient.report(id: 3000))
    #expect(last.isAcknowledged(1))
    #expect(agent.stop() == 0)
  }

  @Test(
    "a user with all descriptors loses a connection to another user",
    .enabled(if: geteuid() == 0, "needs root to change the user"))
  func descriptorsOfTwoUsers() throws {
    let agent = try RunningAgent(wrapper: ["/usr/bin/prlimit", "--nofile=96:96"])
    chmod(agent.scratch.url.path, 0o777)
    chmod(agent.socketPath, 0o777)
    let clients = try (0..<120).map { _ in try AgentClient(agent.socketPath) }
    try agent.catchUp()
    let other = try Program.start(
      "/usr/bin/python3",
      [
        "-c",
        """
        import os, socket, sys
        os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
        for line in sys.argv[2:]:
          s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
          s.sendall(line.encode() + b"\\n")
          if b"acknowledged" not in s.recv(4096): os._exit(1)
        os._exit(0)
        """, agent.socketPath, AgentClient.report(id: 1), AgentClient.report(id: 2),
      ])
    other.waitUntilExit()
    #expect(other.terminationStatus == 0, "\(agent.said)")
    let answers = clients.compactMap { $0.next(within: 0) }
    #expect(
      answers.contains(
        #"{"error":"closed: all descriptors are in use (LimitNOFILE=), and another user has fewer connections"}"#))
    #expect(answers.count < clients.count, "most stay connected")
  }

  @Test("with too few descriptors for a connection, the agent does not start, and says so")
  func tooFewDescriptors() throws {
    let failure = #expect(throws: RunningAgent.DidNotStart.self) {
      try RunningAgent(wrapper: ["/usr/bin/prlimit", "--nofile=40:40"])
    }
    #expect(failure?.said.contains("(RLIMIT_NOFILE) is 40, too few for the agent and one connection") == true)
  }

  @Test("a service receives its settings after hello and after each change; an invalid file changes nothing")
  func settings() throws {
    let agent = try RunningAgent("services: [{ match: \"web*\", threshold: 100ms, budget: 7, sampling: 20ms }]")
    let client = try AgentClient(agent.socketPath)
    client.send(#"{"hello":{"protocol":1,"service":{"name":"web-1"}}}"#)
    #expect(client.next() == #"{"settings":{"threshold":"100ms","budget":7,"sampling":"20ms"}}"#)
    #expect(client.isAcknowledged(1))
    try agent.configure("services: [{ match: \"web*\", treshold: 200ms }]")
    agent.signal(SIGHUP)
    agent.expect("the mistake is named, with the key that was meant") {
      agent.said.contains("treshold") && agent.said.contains("threshold")
    }
    #expect(client.next(within: 300) == nil)
    try agent.configure("services: [{ match: \"web*\", threshold: 200ms }]")
    agent.signal(SIGHUP)
    #expect(client.next() == #"{"settings":{"threshold":"200ms"}}"#)
    #expect(agent.process.isRunning)
  }

  @Test(
    "a process that ends during a stall gets stall.fatal with the exit reason; after the stall, or after goodbye, it gets none"
  )
  func fatal() throws {
    let agent = try RunningAgent()
    func host(_ lines: [String], _ end: String) throws -> Process {
      try Program.start(
        "/usr/bin/python3",
        [
          "-c",
          """
          import socket, sys, os, time, signal
          # How it has ended is known when it was waited for, and the agent does not ask for long.
          if child := os.fork():
            os.waitpid(child, 0)
            os._exit(0)
          s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
          s.sendall(sys.argv[2].encode())
          seen, last = b"", b'"acknowledged":%d}' % sys.argv[2].count("\\n")
          while last not in seen and (more := s.recv(4096)): seen += more
          \(end)
          """, agent.socketPath, lines.map { $0 + "\n" }.joined(),
        ])
    }
    func started(_ id: Int) -> String { AgentClient.report(id: id, event: "stall.started") }
    let killed = try host([started(1)], "os.kill(os.getpid(), signal.SIGKILL)")
    let exited = try host([started(2)], "os._exit(3)")
    let recovered = try host([started(3), AgentClient.report(id: 3, sequence: 2)], "os._exit(0)")
    let polite = try host([started(4), #"{"goodbye":{}}"#], "os._exit(0)")
    // The socket stays open in a child, although the process has ended. (It has nothing else of its
    // parent's, of whose end Foundation learns by an inherited descriptor.)
    let survived = try host(
      [started(5)],
      "os._exit(1) if os.fork() else (os.closerange(0, s.fileno()), os.closerange(s.fileno() + 1, 256), time.sleep(60))"
    )
    let closed = try host([started(6)], "s.close(); time.sleep(2)")
    for process in [killed, exited, recovered, polite, survived, closed] { process.waitUntilExit() }
    try agent.expect("four ends") { try agent.lines().count { $0.contains("stall.fatal") } >= 4 }
    let fatal = try agent.lines().filter { $0.contains("stall.fatal") }
    #expect(fatal.count == 4)
    func line(_ id: Int) -> String { fatal.first { $0.contains("000\(id)\"") } ?? "" }
    // Before 6.15 the kernel does not tell others how a process has ended.
    if ProcessInfo.isKernelAtLeast(6, 15) {
      #expect(line(1).contains("was killed by SIGKILL"))
      #expect(line(1).contains(#""exit_signal":"SIGKILL""#))
      #expect(line(2).contains("exited with code 3"))
    }
    #expect(line(5).contains("stall.fatal"))
    #expect(line(6).contains("stall.fatal"), "it closed its socket and ended in the stall")
    try agent.expectValidLines()
    // The service's own record of the same stall, reported by its next start.
    let client = try AgentClient(agent.socketPath)
    client.send(AgentClient.report(id: 1, sequence: 9, event: "stall.fatal"))
    #expect(client.isAcknowledged(1))
    #expect(try agent.lines().count { $0.contains("stall.fatal") } == 4)
  }
}
