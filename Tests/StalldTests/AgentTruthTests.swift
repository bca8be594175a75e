import Foundation
import TakingTurns
import Testing

/// What the agent says of hosts that end, reconnect, or are interfered with, is so; and what they had to say is not lost.
@Suite(.takingTurns, .timeLimit(.minutes(2)))
struct AgentTruthTests {
  private func lines(_ agent: RunningAgent) throws -> [WrittenLine] { try agent.lines().map(WrittenLine.init(_:)) }

  /// A service with the monitor in it.
  private func start(
    _ scenario: String, _ milliseconds: Int, agent: RunningAgent, through wrapper: [String] = [],
    environment: [String: String] = [:]
  ) throws -> Process {
    let process = Process()
    let command = wrapper + [try Program.built("StallVictim", "debug").path, scenario, String(milliseconds)]
    process.executableURL = URL(fileURLWithPath: command[0])
    process.arguments = Array(command.dropFirst())
    process.environment = ProcessInfo.processInfo.environment
      .filter { !$0.key.hasPrefix("STALLMONITOR_") && !$0.key.hasSuffix("_DIRECTORY") }
      .merging([
        "STALLMONITOR_SINK": "agent:\(agent.socketPath)", "STALLMONITOR_THRESHOLD": "100ms",
        "STALLMONITOR_SERVICE_NAME": "truth-\(UUID().uuidString)",
      ]) { $1 }
      .merging(environment) { $1 }
    process.standardOutput = FileHandle.nullDevice
    process.standardError = FileHandle.nullDevice
    try process.run()
    return process
  }

  /// A host in another language, as another user if one is given.
  private func script(_ text: String, _ agent: RunningAgent, _ lines: [String], user: Int? = nil, output: Pipe? = nil)
    throws
    -> Process
  {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/python3")
    process.standardOutput = output
    process.arguments = [
      "-c",
      """
      import os, signal, socket, sys, time
      if sys.argv[3]: os.setgroups([]); os.setgid(int(sys.argv[3])); os.setuid(int(sys.argv[3]))
      s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
      s.sendall(sys.argv[2].encode())
      \(text)
      """, agent.socketPath, lines.map { $0 + "\n" }.joined(), user.map(String.init) ?? "",
    ]
    try process.run()
    return process
  }

  // MARK: A stall that was over

  /// On one processor neither the watchdog nor the agent's thread runs between the end of the stall and the end of the process.
  @Test("a stall that was over when its process ended is no fatal, although the process had no time to say so")
  func endedJustAfterItsStall() throws {
    let agent = try RunningAgent()
    for round in 1...4 {
      let service = try start("exit-after-stall", 400, agent: agent, through: ["/usr/bin/taskset", "-c", "0"])
      service.waitUntilExit()
      try agent.expect("the end of stall \(round)") {
        try lines(agent).count { $0.event != "stall.started" } == round
      }
    }
    let ends = try lines(agent).filter { $0.event != "stall.started" }
    #expect(ends.map(\.event) == Array(repeating: "stall.ended", count: 4))
    for end in ends {
      let duration = try #require(end["stall", "duration_ms"] as? Double)
      #expect(duration >= 390, "all of it, and not what had passed when it was last told of")
      #expect((end["message"] as? String)?.contains(" stood still for ") == true)
    }
    try agent.expectValidLines()
  }

  @Test("that holds as well when the agent was restarted in the stall")
  func endedJustAfterItsStallBesideANewAgent() throws {
    let agent = try RunningAgent()
    let service = try start("exit-after-stall", 4000, agent: agent, through: ["/usr/bin/taskset", "-c", "0"])
    try agent.expect("the stall has begun") { try agent.lines().count >= 1 }
    agent.killAndWait()
    try agent.start()
    service.waitUntilExit()
    try agent.expect("its end") { try lines(agent).contains { $0.event == "stall.ended" || $0.event == "stall.fatal" } }
    let ends = try lines(agent).filter { $0.event != "stall.started" && $0.event != "stall.ongoing" }
    #expect(ends.map(\.event) == ["stall.ended"])
    #expect(try #require(ends.first?["stall", "duration_ms"] as? Double) >= 3990)
    try agent.expectValidLines()
  }

  // MARK: A host that is killed while there is no agent

  @Test("what a host had to say while there was no agent outlives its kill -9", arguments: [true, false])
  func killedWithoutAnAgent(hasDirectory: Bool) throws {
    let agent = try RunningAgent()
    agent.killAndWait()
    let state = try ScratchDirectory()
    var environment = ["STALLMONITOR_SERVICE_NAME": "truth-\(UUID().uuidString)"]
    if hasDirectory { environment["STALLMONITOR_STATE_DIRECTORY"] = state.url.path }
    let service = try start("stall-then-idle", 300, agent: agent, environment: environment)
    usleep(2_500_000)
    kill(service.processIdentifier, SIGKILL)
    service.waitUntilExit()
    try agent.start()
    try start("sleep", 200, agent: agent, environment: environment).waitUntilExit()
    let killed = Int(service.processIdentifier)
    agent.expect("its lines, handed over by the next start") {
      ((try? lines(agent)) ?? []).count { $0.sender == killed } == 2
    }
    #expect(try lines(agent).filter { $0.sender == killed }.map(\.event) == ["stall.started", "stall.ended"])
    #expect(Set(try lines(agent).map { "\($0.id) \($0.event)" }).count == (try lines(agent)).count)
    try agent.expectValidLines()
  }

  @Test("so do the lines that an agent has not acknowledged for a while")
  func killedBesideAnAgentThatHangs() throws {
    let agent = try RunningAgent()
    let state = try ScratchDirectory()
    let environment = [
      "STALLMONITOR_STATE_DIRECTORY": state.url.path, "STALLMONITOR_SERVICE_NAME": "truth-\(UUID().uuidString)",
    ]
    agent.signal(SIGSTOP)
    let service = try start("stall-then-idle", 300, agent: agent, environment: environment)
    usleep(3_500_000)
    kill(service.processIdentifier, SIGKILL)
    service.waitUntilExit()
    agent.killAndWait()
    try agent.start()
    try start("sleep", 200, agent: agent, environment: environment).waitUntilExit()
    let killed = Int(service.processIdentifier)
    agent.expect("its lines, handed over by the next start") {
      ((try? lines(agent)) ?? []).count { $0.sender == killed } == 2
    }
  }

  /// In a container each process of a service has the same pid, so that does not tell them apart.
  @Test("a stall of an ended process by the same pid does not become that of who hands it over")
  func handedOverByTheSamePid() throws {
    let agent = try RunningAgent()
    let old = AgentClient.report(id: 1, event: "stall.started", after: -3600)
    let own = AgentClient.report(id: 2, event: "stall.started")
    // Which of its ends would be told: what it hands over, and its own.
    for (number, hello) in [
      #"{"hello":{"protocol":1,"service":{"name":"web"},"process":{"pid":1}}}"#, #"{"hello":{"protocol":1}}"#,
    ].enumerated() {
      let lines = [hello, old, own].map { $0.replacing("\"id\":\"0000", with: "\"id\":\"000\(number)") }
      let host = try script(
        """
        seen = b""
        while b'"acknowledged":3' not in seen: seen += s.recv(4096)
        """, agent, lines)
      host.waitUntilExit()
      try agent.expect("the end in its own stall") {
        try self.lines(agent).count { $0.event == "stall.fatal" } > number
      }
    }
    usleep(300_000)
    let ends = try lines(agent).filter { $0.event != "stall.started" }
    #expect(ends.map(\.event) == ["stall.fatal", "stall.fatal"])
    #expect(ends.allSatisfy { $0.id.hasSuffix("2") })
    #expect(try lines(agent).count { $0.event == "stall.started" } == 4, "it is written all the same")
    try agent.expectValidLines()
  }

  // MARK: A host that leaves and lives on

  @Test("who has left in mid-stall is watched to its end, but not more of a user than there is room for")
  func leftInMidStall() throws {
    let agent = try RunningAgent()
    let started = AgentClient.report(id: 1, event: "stall.started")
    let early = try script("s.recv(100); s.close(); time.sleep(60)", agent, [started])
    defer { kill(early.processIdentifier, SIGKILL) }
    try agent.expect("its stall") { try agent.lines().count == 1 }
    // One of each of 64 others: then the first has to give way.
    let crowd = try script(
      """
      s.recv(100); s.close()
      for n in range(64):
        if os.fork() == 0:
          c = socket.socket(socket.AF_UNIX); c.connect(sys.argv[1])
          c.sendall(sys.argv[2].replace("%032x" % 2, "%032x" % (100 + n)).encode()); c.recv(100); c.close()
          while n or not os.path.exists(sys.argv[1] + ".go"): time.sleep(0.05)
          os.kill(os.getpid(), 9)
      time.sleep(60)
      """, agent, [AgentClient.report(id: 2, event: "stall.started")])
    defer {
      _ = try? Program.run("/usr/bin/pkill", ["-KILL", "-P", String(crowd.processIdentifier)])
      kill(crowd.processIdentifier, SIGKILL)
    }
    try agent.expect("their stalls") { try agent.lines().count == 66 }
    agent.expect("the first one has to give way") { agent.said.contains("have left in mid-stall") }
    try Data().write(to: URL(fileURLWithPath: agent.socketPath + ".go"))
    try agent.expect("the end of one of them") { try lines(agent).contains { $0.event == "stall.fatal" } }
    kill(early.processIdentifier, SIGKILL)
    usleep(500_000)
    let fatal = try lines(agent).filter { $0.event == "stall.fatal" }
    #expect(fatal.map(\.id).map { Int($0, radix: 16) } == [100])
  }

  // MARK: The rate

  @Test("who connects again and again sends no more than who stays")
  func reconnecting() throws {
    let agent = try RunningAgent("limits: { lines_per_second: 50 }")
    let begin = ContinuousClock.now
    var id = 1
    for _ in 0..<12 {
      let client = try AgentClient(agent.socketPath)
      // More than is read at once, and less than the socket holds.
      let batch = (0..<100).map { AgentClient.report(id: id + $0) + "\n" }.joined()
      id += 100
      client.send(batch.utf8)
      usleep(100_000)
      client.end()
    }
    let count = try agent.lines().count
    let seconds = begin.duration(to: .now) / .seconds(1)
    // What is read at once may be more than is left.
    #expect(Double(count) <= 200 + 100 + 50 * seconds)
    #expect(count >= 200, "a burst is let through")
  }

  // MARK: Whose report it is

  @Test(
    "another user's report by the same id and number hides nobody's, also not after a restart",
    .enabled(if: geteuid() == 0))
  func preempted() throws {
    let agent = try RunningAgent()
    func open() { for path in [agent.scratch.url.path, agent.socketPath] { chmod(path, 0o777) } }
    open()
    func send(_ text: String, user: Int) throws {
      let host = try script(#"s.recv(100)"#, agent, [AgentClient.report(id: 7, sequence: 2, service: text)], user: user)
      host.waitUntilExit()
      #expect(host.terminationStatus == 0)
    }
    try send("evil", user: 1)
    try send("victim", user: 65534)
    func services() throws -> [String] { try lines(agent).compactMap { $0["service", "name"] as? String } }
    #expect(try services() == ["evil", "victim"])
    try send("victim", user: 65534)
    #expect(try services() == ["evil", "victim"])
    agent.killAndWait()
    try agent.start()
    open()
    try send("victim", user: 65534)
    #expect(try services() == ["evil", "victim"])
    // A service of root's that gives its privilege up is the same one.
    try send("victim", user: 0)
    try send("another", user: 2)
    #expect(try services() == ["evil", "victim", "victim"])
  }

  // MARK: Hosts that note what they like

  @Test("memory for a host is bounded, cannot be cut, and what is in it harms nobody")
  func hostileMemory() throws {
    let agent = try RunningAgent()
    let hello = #"{"hello":{"protocol":1,"service":{"name":"web"},"recovery":1}}"#
    // What it is given it tries to cut, and fills.
    let write = """
      def page():
        bytes, given, _, _ = socket.recv_fds(s, 4096, 4)
        assert b'"recovery"' in bytes and len(given) == 1, (bytes, given)
        for size in 0, 4095, 4097:
          try: os.ftruncate(given[0], size); os._exit(9)
          except OSError: pass
        return given[0]
      def kill(): s.recv(4096); time.sleep(0.2); os.kill(os.getpid(), 9)
      def stall(n): s.sendall(sys.argv[2].split("\\n")[1].replace("%032x" % 1, "%032x" % n).encode() + b"\\n")
      def place(high, low, turn, since, passed, time): return struct.pack("<6Q16x", high, low, turn, since, passed, time)
      import struct
      head = struct.pack("<8s2Q40x", b"STALLRCV", 1, 0)
      last = 2**64 - 1

      """
    let started = AgentClient.report(id: 1, event: "stall.started")
    let garbage = try script(write + "os.pwrite(page(), bytes([255]) * 4096, 0); kill()", agent, [hello, started])
    let absurd = try script(
      write + "f = page(); stall(2); os.pwrite(f, (head + place(0, 2, 0, 0, last, last) * 63)[:4096], 0); kill()",
      agent,
      [hello, started])
    let other = try script(
      write + "f = page(); stall(3); os.pwrite(f, head + place(0, 3, 7, 9, 8, 4), 0); kill()", agent, [hello, started])
    // Descriptors of its own, a line that asks again and again, and connections without an end.
    let greedy = try script(
      """
      for n in range(50):
        try: socket.send_fds(s, [b" "], [0, 1, 2])
        except PermissionError: pass
      s.sendall(sys.argv[2].encode() * 50)
      more = []
      for n in range(50):
        c = socket.socket(socket.AF_UNIX); c.connect(sys.argv[1]); c.sendall(sys.argv[2].encode()); c.recv(10)
        more.append(c)
      print("ready", flush=True); time.sleep(60)
      """, agent, [hello], output: Pipe())
    defer { kill(greedy.processIdentifier, SIGKILL) }
    _ = (greedy.standardOutput as? Pipe)?.fileHandleForReading.availableData
    // Two of the 51 connections, three others, and the agent's own.
    #expect(try memories(of: agent) <= 6)
    for process in [garbage, absurd, other] {
      process.waitUntilExit()
      #expect(process.terminationStatus == 9 && process.terminationReason == .uncaughtSignal)
    }
    try agent.expect("their ends") {
      try lines(agent).count { $0.event == "stall.fatal" || $0.event == "stall.ended" } >= 3
    }
    kill(greedy.processIdentifier, SIGKILL)
    greedy.waitUntilExit()
    try agent.expect("no descriptor is left behind") { try memories(of: agent) <= 1 }
    func ends(_ id: Int) throws -> [String] {
      try lines(agent).filter { Int($0.id, radix: 16) == id && $0.event != "stall.started" }.map(\.event)
    }
    #expect(try ends(2) == ["stall.ended"])
    #expect(try ends(3) == ["stall.ended"])
    try agent.expectValidLines()
    #expect(agent.process.isRunning)
  }

  /// A socket that is closed where its last descriptor is, and waits there for a reader who does not read.
  @Test("a descriptor that a host sends holds up nobody (Linux 6.16)")
  func lingeringDescriptor() throws {
    let version = try String(contentsOfFile: "/proc/sys/kernel/osrelease", encoding: .utf8).split(separator: ".")
    guard let major = Int(version[0]), let minor = Int(version[1]), (major, minor) >= (6, 16) else { return }
    let agent = try RunningAgent()
    // It meets the descriptor when nobody else has it any more.
    agent.signal(SIGSTOP)
    let host = try script(
      """
      import struct
      l = socket.socket(); l.bind(("127.0.0.1", 0)); l.listen()
      c = socket.socket(); c.connect(l.getsockname()); a, _ = l.accept()
      c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 40)); c.setblocking(False)
      try:
        while True: c.send(bytes(65536))
      except BlockingIOError: pass
      try: socket.send_fds(s, [b" "], [c.fileno()])
      except PermissionError: c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
      os.dup2(0, c.fileno())
      os.write(1, b"sent")
      time.sleep(60)
      """, agent, [], output: Pipe())
    defer { kill(host.processIdentifier, SIGKILL) }
    _ = (host.standardOutput as? Pipe)?.fileHandleForReading.availableData
    agent.signal(SIGCONT)
    let client = try AgentClient(agent.socketPath)
    client.send(AgentClient.report(id: 1))
    #expect(client.isAcknowledged(1))
  }

  /// How many descriptors it has of what hosts note in.
  private func memories(of agent: RunningAgent) throws -> Int {
    let directory = "/proc/\(agent.process.processIdentifier)/fd"
    return try FileManager.default.contentsOfDirectory(atPath: directory).count {
      (try? FileManager.default.destinationOfSymbolicLink(atPath: "\(directory)/\($0)"))?.contains("stalld-recovery")
        == true
    }
  }
}

extension WrittenLine {
  fileprivate var sender: Int? { (self["process", "reported_pid"] ?? self["process", "pid"]) as? Int }
}
