import Foundation
import Synchronization
import TestSupport
import Testing

@testable import StallMonitor
@testable import stalld

/// What the agent says of hosts that end, reconnect, or are interfered with, is so; and what they had to say is not lost.
@Suite(.serialized, .takingTurns, .timeLimit(.minutes(2)))
struct AgentTruthTests {
  /// A service with the monitor in it.
  private func start(
    _ scenario: String, _ milliseconds: Int, agent: RunningAgent, through wrapper: [String] = [],
    environment: [String: String] = [:]
  ) throws -> Process {
    let command = wrapper + [try Program.built("StallVictim", "debug").path, scenario, String(milliseconds)]
    let process = try Program.start(
      command[0], Array(command.dropFirst()),
      environment: [
        "STALLMONITOR_SINK": "agent:\(agent.socketPath)", "STALLMONITOR_THRESHOLD": "100ms",
        "STALLMONITOR_SERVICE_NAME": "truth-\(UUID().uuidString)",
      ].merging(environment) { $1 }, errors: FileHandle.nullDevice)
    leftovers.add(process.processIdentifier)
    return process
  }

  private let leftovers = Leftovers()

  /// Removes what killed services leave in `/dev/shm`: each has a name of its own, so that no later one takes it over.
  private final class Leftovers: Sendable {
    private let processes = Mutex<[Int32]>([])

    func add(_ process: Int32) { processes.withLock { $0.append(process) } }

    deinit {
      let names = (try? FileManager.default.contentsOfDirectory(atPath: "/dev/shm")) ?? []
      for process in processes.withLock({ $0 }) {
        for name in names where name.hasPrefix("stall") && name.contains("-\(process)-") {
          try? FileManager.default.removeItem(atPath: "/dev/shm/\(name)")
        }
      }
    }
  }

  /// A host in another language, as another user if one is given.
  private func script(_ text: String, _ agent: RunningAgent, _ lines: [String], user: Int? = nil, output: Pipe? = nil)
    throws
    -> Process
  {
    try Program.start(
      "/usr/bin/python3",
      [
        "-c",
        """
        import os, signal, socket, sys, time
        if sys.argv[3]: os.setgroups([]); os.setgid(int(sys.argv[3])); os.setuid(int(sys.argv[3]))
        s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
        s.sendall(sys.argv[2].encode())
        \(text)
        """, agent.socketPath, lines.map { $0 + "\n" }.joined(), user.map(String.init) ?? "",
      ], output: output ?? FileHandle.standardOutput)
  }

  /// What is written of a process's sleep on its loop.
  private func stall(of process: Process, _ agent: RunningAgent) throws -> [WrittenReport] {
    try agent.reports().filter { $0.sender == Int(process.processIdentifier) }.ofStall(in: "blockBySleeping")
  }

  // MARK: A stall that was over

  /// On one processor neither the watchdog nor the agent's thread runs between the end of the stall and the end of the process.
  @Test("a stall that ended before its process is not fatal, although stall.ended was not sent")
  func endedJustAfterItsStall() throws {
    let agent = try RunningAgent()
    var services: [Process] = []
    for round in 1...4 {
      let service = try start("exit-after-stall", 900, agent: agent, through: ["/usr/bin/taskset", "-c", "0"])
      services.append(service)
      service.waitUntilExit()
      try agent.expect("the end of stall \(round)") { try stall(of: service, agent).contains(where: \.isEnd) }
    }
    for service in services {
      let told = try stall(of: service, agent)
      let ends = told.filter(\.isEnd)
      #expect(ends.map(\.event) == ["stall.ended"])
      let end = try #require(ends.first)
      #expect(told.first?.event == "stall.started")
      #expect(end.duration >= 890, "all of it, and not what had passed when it was last told of")
      #expect((end["message"] as? String)?.contains(" blocked for ") == true)
    }
    #expect(try !agent.reports().contains { $0.event == "stall.fatal" })
    try agent.expectValidLines()
  }

  @Test("a stall that ended before its process is not fatal, also after a restart of the agent during the stall")
  func endedJustAfterItsStallBesideANewAgent() throws {
    let agent = try RunningAgent()
    // The service tries to connect again after 0.1, 0.3, 0.7, 1.5, 3.1 and 6.3 s, and is reported
    // for the last time after 8 s.
    let service = try start("exit-after-stall", 12_000, agent: agent, through: ["/usr/bin/taskset", "-c", "0"])
    try agent.expect("the stall has begun") { try !stall(of: service, agent).isEmpty }
    agent.killAndWait()
    try agent.start()
    service.waitUntilExit()
    try agent.expect("its end") { try stall(of: service, agent).contains(where: \.isEnd) }
    let told = try stall(of: service, agent)
    let ends = told.filter(\.isEnd)
    #expect(ends.map(\.event) == ["stall.ended"])
    #expect(try #require(ends.first).duration >= 11_990)
    try agent.expectValidLines()
  }

  // MARK: A host that is killed while there is no agent

  /// What a process has kept in a directory for the next agent, as the next start of its service would find it.
  private func kept(by process: Process, in directory: String) throws -> [WrittenReport] {
    let names = try FileManager.default.contentsOfDirectory(atPath: directory)
    let own = names.filter { $0.hasPrefix("stallspool-") && $0.contains("-\(process.processIdentifier)-") }
    return try own.flatMap { name -> [WrittenReport] in
      let file = FileManager.default.contents(atPath: "\(directory)/\(name)") ?? Data()
      // No lines of a file while its head is being written.
      guard case .lines(let lines, isDamaged: _) = file.withUnsafeBytes({ SpoolFormat.read($0) }) else { return [] }
      return try WrittenReport.all(in: lines.map { String(decoding: $0, as: UTF8.self) }.joined(separator: "\n"))
    }
  }

  /// Kills a service when both lines of its stall outlive that.
  ///
  /// Returns the stall's id.
  private func killWhenKept(_ service: Process, in directory: String) throws -> String {
    defer {
      kill(service.processIdentifier, SIGKILL)
      service.waitUntilExit()
    }
    var id = ""
    try waitUntil("both lines of the stall outlive the process") {
      let lines = try kept(by: service, in: directory)
      guard let end = lines.longestEnd, end.duration > 400 else { return false }
      id = end.id
      return lines.contains { $0.id == id && $0.event == "stall.started" }
    }
    return id
  }

  /// Starts a killed service again, and waits for both lines of the stall.
  private func expectHandedOver(
    _ id: String, of killed: Process, _ agent: RunningAgent, environment: [String: String]
  ) throws {
    let next = try start("idle", 60_000, agent: agent, environment: environment)
    defer {
      kill(next.processIdentifier, SIGKILL)
      next.waitUntilExit()
    }
    func events() throws -> [String] {
      try agent.reports()
        .filter { $0.sender == Int(killed.processIdentifier) && $0.id == id && $0.event != "stall.ongoing" }
        .map(\.event)
    }
    try agent.expect("its lines, handed over by the next start") { try events().count >= 2 }
    #expect(try events() == ["stall.started", "stall.ended"])
  }

  @Test("lines that a service kept without an agent survive its kill -9", arguments: [true, false])
  func killedWithoutAnAgent(hasDirectory: Bool) throws {
    let agent = try RunningAgent()
    agent.killAndWait()
    let state = try ScratchDirectory()
    var environment = ["STALLMONITOR_SERVICE_NAME": "truth-\(UUID().uuidString)"]
    if hasDirectory { environment["STALLMONITOR_STATE_DIRECTORY"] = state.url.path }
    let service = try start("stall-then-idle", 900, agent: agent, environment: environment)
    let id = try killWhenKept(service, in: hasDirectory ? state.url.path : "/dev/shm")
    try agent.start()
    try expectHandedOver(id, of: service, agent, environment: environment)
    let told = try agent.reports().filter { $0.event != "stall.ongoing" }
    #expect(Set(told.map { "\($0.id) \($0.event)" }).count == told.count)
    try agent.expectValidLines()
  }

  @Test("lines that an agent has not acknowledged for a second survive a kill -9 of the service")
  func killedBesideAnAgentThatHangs() throws {
    let agent = try RunningAgent()
    let state = try ScratchDirectory()
    let environment = [
      "STALLMONITOR_STATE_DIRECTORY": state.url.path, "STALLMONITOR_SERVICE_NAME": "truth-\(UUID().uuidString)",
    ]
    agent.signal(SIGSTOP)
    let service = try start("stall-then-idle", 900, agent: agent, environment: environment)
    let id = try killWhenKept(service, in: state.url.path)
    agent.killAndWait()
    try agent.start()
    try expectHandedOver(id, of: service, agent, environment: environment)
  }

  /// In a container, each process of a service has the same pid, so the pid does not distinguish
  /// them.
  @Test("a stall of an ended process with the same pid is not assigned to the process that delivers it")
  func handedOverByTheSamePid() throws {
    let agent = try RunningAgent()
    let old = AgentClient.report(id: 1, event: "stall.started", after: -3600)
    let own = AgentClient.report(id: 2, event: "stall.started")
    // The two ends that could be reported: that in the lines that it delivers, and its own.
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
        try agent.reports().count { $0.event == "stall.fatal" } > number
      }
    }
    usleep(300_000)
    let ends = try agent.reports().filter { $0.event != "stall.started" }
    #expect(ends.map(\.event) == ["stall.fatal", "stall.fatal"])
    #expect(ends.allSatisfy { $0.id.hasSuffix("2") })
    #expect(try agent.reports().count { $0.event == "stall.started" } == 4, "it is written all the same")
    try agent.expectValidLines()
  }

  // MARK: A host that leaves and lives on

  @Test("a process that disconnected during a stall is watched until it ends, up to the limit of its user")
  func leftInMidStall() throws {
    let agent = try RunningAgent()
    let started = AgentClient.report(id: 1, event: "stall.started")
    let early = try script(
      "s.recv(100); s.close(); print('left', flush=True); time.sleep(60)", agent, [started], output: Pipe())
    defer { kill(early.processIdentifier, SIGKILL) }
    try agent.expect("its stall") { try agent.lines().count == 1 }
    // It is the first that the agent sees leave.
    _ = (early.standardOutput as? Pipe)?.fileHandleForReading.availableData
    try agent.catchUp()
    // One of each of 64 others: then the first is dropped.
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
    agent.expect("the first one has to give way") { agent.said.contains("disconnected during a stall") }
    try Data().write(to: URL(fileURLWithPath: agent.socketPath + ".go"))
    try agent.expect("the end of one of them") { try agent.reports().contains { $0.event == "stall.fatal" } }
    kill(early.processIdentifier, SIGKILL)
    usleep(500_000)
    let fatal = try agent.reports().filter { $0.event == "stall.fatal" }
    #expect(fatal.map(\.id).map { Int($0, radix: 16) } == [100])
  }

  // MARK: The rate

  @Test("a client that reconnects repeatedly sends no more lines than one that stays connected")
  func reconnecting() throws {
    let agent = try RunningAgent("limits: { lines_per_second: 25 }")
    // Its own monitor is a client of the same user's: later it would take what one of these has left.
    try agent.expect("its own monitor") { try agent.status().connections == 1 }
    let begin = ContinuousClock.now
    var id = 1
    for _ in 0..<8 {
      let client = try AgentClient(agent.socketPath)
      // Less than the socket holds.
      let batch = (0..<100).map { AgentClient.report(id: id + $0) + "\n" }.joined()
      id += 100
      client.send(batch.utf8)
      // The agent has read what it reads of it before it leaves, and seen it leave before the next one comes.
      try agent.catchUp()
      client.end()
      try agent.catchUp()
    }
    try agent.expect("what was read is written") { try agent.status().queue.lines == 0 }
    let count = try agent.lines().count
    let seconds = begin.duration(to: .now) / .seconds(1)
    // What is read at once may be more than is left.
    #expect(Double(count) <= 100 + 100 + 25 * seconds)
    #expect(count >= 100, "a burst is let through")
  }

  // MARK: Whose report it is

  @Test(
    "a report with another user's ID and number does not suppress that user's report, also after a restart",
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
    func services() throws -> [String] { try agent.reports().compactMap { $0["service", "name"] as? String } }
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

  @Test("recovery memory is bounded and sealed, and hostile content is harmless")
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
    // Descriptors of its own, a line that asks repeatedly, and connections without an end.
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
    func ends(_ id: Int) throws -> [String] {
      try agent.reports().filter { Int($0.id, radix: 16) == id && $0.event != "stall.started" }.map(\.event)
    }
    try agent.expect("their ends") { try !ends(2).isEmpty && !ends(3).isEmpty }
    kill(greedy.processIdentifier, SIGKILL)
    greedy.waitUntilExit()
    try agent.expect("no descriptor is left behind") { try memories(of: agent) <= 1 }
    #expect(try ends(2) == ["stall.ended"])
    #expect(try ends(3) == ["stall.ended"])
    try agent.expectValidLines()
    #expect(agent.process.isRunning)
  }

  /// A socket that is closed where its last descriptor is, and waits there for a reader who does not read.
  @Test("a descriptor that a client sends delays nobody (Linux 6.16)")
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

extension WrittenReport {
  fileprivate var sender: Int? { (self["process", "reported_pid"] ?? self["process", "pid"]) as? Int }
}
