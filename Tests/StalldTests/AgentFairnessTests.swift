import Foundation
import TestSupport
import Testing

@testable import stalld

/// Users who do not trust each other: whatever one does, the others are served, and keep what they have reported.
@Suite(
  .serialized, .takingTurns(aloneBecause: "a user floods the agent, and the others have to be served"),
  .repeatedAfterStandstills(because: "rates are counted over a time"), .timeLimit(.minutes(3)),
  .enabled(if: geteuid() == 0, "needs root to be several users"))
struct AgentFairnessTests {
  private static let evil = 1
  private static let honest = 65534

  private func agent(_ settings: String, wrapper: [String] = []) throws -> RunningAgent {
    let agent = try RunningAgent(settings, wrapper: wrapper)
    open(agent)
    return agent
  }

  private func open(_ agent: RunningAgent) {
    for path in [agent.scratch.url.path, agent.socketPath] { chmod(path, 0o777) }
  }

  /// A program of another user's.
  ///
  /// `report(n)` makes a line, `connect()` a connection, `acknowledged(s, n)` waits for n lines.
  private func client(_ user: Int, _ agent: RunningAgent, _ text: String) throws -> (process: Process, output: Pipe) {
    let output = Pipe()
    let process = try Program.start(
      "/usr/bin/python3",
      [
        "-c",
        """
        import os, socket, sys, time
        os.setgroups([]); os.setgid(\(user)); os.setuid(\(user))
        line = sys.argv[2]
        def report(n): return (line.replace("%032x" % 0xfeed, "%032x" % n) + "\\n").encode()
        def connect():
          s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); return s
        def acknowledged(s, n):
          seen = b""
          while b'"acknowledged":%d}' % n not in seen:
            more = s.recv(65536)
            if not more: return False
            seen += more
          return True
        def say(text): print(text, flush=True)
        \(text)
        """, agent.socketPath, AgentClient.report(id: 0xfeed),
      ], output: output)
    return (process, output)
  }

  /// Sends over forty connections as fast as it can, without end.
  private static let flood = """
    all = [connect() for _ in range(40)]
    for s in all: s.setblocking(False)
    n = 1 << 40
    while True:
      for s in all:
        n += 1
        try: s.send(report(n))
        except BlockingIOError: time.sleep(0.001)
    """

  /// What a program says, once it has ended.
  private func run(_ user: Int, _ agent: RunningAgent, _ text: String) throws -> String {
    let (process, output) = try client(user, agent, text)
    let said = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    #expect(process.terminationStatus == 0)
    return said
  }

  private func count(_ agent: RunningAgent, user: Int) throws -> Int {
    try agent.lines().count { $0.contains(#""user":{"id":"\#(user)"}"#) }
  }

  // MARK: Rates

  @Test("a user with forty connections sends no more than one unit may, and others are acknowledged meanwhile")
  func flood() throws {
    let begin = ContinuousClock.now
    let agent = try agent("limits: { lines_per_second: 50 }")
    let flooder = try client(Self.evil, agent, Self.flood)
    defer { kill(flooder.process.processIdentifier, SIGKILL) }
    try agent.expect("the flood") { try count(agent, user: Self.evil) >= 200 }
    let said = try run(
      Self.honest, agent,
      """
      s = connect()
      for n in range(1, 151):
        s.sendall(report(n))
        acknowledged(s, n)
      say("done")
      """)
    #expect(said == "done\n")
    #expect(agent.said.contains("more than 50 lines per second (limits.lines_per_second)"))
    kill(flooder.process.processIdentifier, SIGKILL)
    // Those that are on their way are written by then.
    usleep(100_000)
    let accepted = try count(agent, user: Self.evil)
    let seconds = begin.duration(to: .now) / .seconds(1)
    #expect(Double(accepted) <= 200 + 50 * seconds + 1)
    #expect(try count(agent, user: Self.honest) == 150)
  }

  @Test("a long line counts as several lines")
  func bytes() throws {
    let agent = try agent("limits: { lines_per_second: 10 }")
    let begin = ContinuousClock.now
    // Each counts ten times as much as a short line: eighty, and forty are accepted at once.
    let said = try run(
      Self.evil, agent,
      """
      s = connect()
      for n in range(8): s.sendall(b'{"hello":{"filler":"' + b"x" * 80000 + b'"}}\\n')
      say(acknowledged(s, 8))
      """)
    #expect(said == "True\n")
    #expect(begin.duration(to: .now) >= .seconds(3))
  }

  @Test(
    "waiting lines of ended processes are read before their ends are reported, also if they ended before the agent met them",
    arguments: [(1, false), (2, false), (2, true)])
  func endOfThoseThatWait(processes: Int, areGone: Bool) throws {
    let agent = try agent("limits: { lines_per_second: 10 }")
    if areGone { agent.signal(SIGSTOP) }
    // The first ends in its stall, the second after it; a child of each keeps the socket.
    let (process, output) = try client(
      Self.evil, agent,
      """
      for n in (1, 2):
        s = \(processes == 1 ? "connect()" : "None")
        if not os.fork():
          s = s or connect()
          s.sendall(report(n).replace(b"stall.ended", b"stall.started"))
          s.sendall(b"\\n" * 60 + (report(n).replace(b'"sequence":1', b'"sequence":2') if n == 2 else b""))
          if not os.fork():
            os.close(1)
            while s.recv(4096): pass
          os._exit(0)
        if s: s.close()
        os.wait()
      say("done")
      """)
    #expect(try output.fileHandleForReading.readToEnd() == Data("done\n".utf8))
    // A busy agent meets a process long after its end.
    if areGone { usleep(300_000) }
    agent.signal(SIGCONT)
    try agent.expect("the end of the first") { try agent.reports().contains { $0.event == "stall.fatal" } }
    try agent.expect("the end of the second's stall") { try agent.reports().contains { $0.event == "stall.ended" } }
    try agent.catchUp()
    let events = try agent.reports().map { "\(Int($0.id, radix: 16) ?? 0) \($0.event)" }
    #expect(events.sorted() == ["1 stall.fatal", "1 stall.started", "2 stall.ended", "2 stall.started"])
    // The client's children have its descriptors, and end with their connections.
    agent.killAndWait()
    process.waitUntilExit()
    #expect(process.terminationStatus == 0)
  }

  @Test("shares follow the kernel's values: unit, container, or user of a session")
  func places() {
    func peer(_ cgroup: String?) -> Peer { Peer(pid: 1, uid: 100_007, gid: 0, cgroup: cgroup) }
    let id = String(repeating: "0123456789abcdef", count: 4)
    #expect(peer("/system.slice/web.service/sub").place == "web.service")
    #expect(peer("/docker/\(id)/made/by/itself").place == "/docker/\(id)")
    #expect(peer("/kubepods/burstable/pod12/\(id)").place == "/kubepods/burstable/pod12")
    #expect(peer("/lxc/box/a/b").place == "/lxc/box")
    #expect(peer("/").place == "")
    #expect(peer(nil).place == "")
    #expect(peer("/system.slice/web.service").owner == 100_007)
    #expect(peer("/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope").owner == 1000)
  }

  @Test("the units of a user take turns when the user's limit is reached")
  func turnsOfUnits() {
    var shares = ClientShares()
    let policy = Ingest.Policy(limits: .init(linesPerSecond: 500, userLinesPerSecond: 600))
    func share(_ unit: String) -> UnitShare {
      shares.unit(of: Peer(pid: 1, uid: 0, gid: 0, cgroup: "/system.slice/\(unit).service"), policy)
    }
    let (a, b) = (share("a"), share("b"))
    #expect(a.user === b.user)
    #expect(share("a") === a)
    for _ in 0..<2000 { a.take(bytes: 100) }
    #expect(!a.hasToken)
    #expect(b.hasToken, "the user has some left")
    for _ in 0..<400 { b.take(bytes: 100) }
    #expect(!b.hasToken, "a user's total is limited")
  }

  // MARK: Connections and memory

  @Test("a user with all connections loses one to a user with none")
  func connections() throws {
    let agent = try agent("limits: { connections: 24 }")
    let greedy = try client(
      Self.evil, agent,
      """
      all = []
      for n in range(60):
        try: all.append(connect())
        except OSError: break
      say("connected")
      time.sleep(120)
      """)
    defer { kill(greedy.process.processIdentifier, SIGKILL) }
    _ = greedy.output.fileHandleForReading.availableData
    try agent.expect("all are taken") { try agent.status().connections == 24 }
    let said = try run(
      Self.honest, agent,
      """
      all = [connect() for _ in range(5)]
      for n, s in enumerate(all):
        s.sendall(report(n + 1))
        say(acknowledged(s, 1))
      """)
    #expect(said == String(repeating: "True\n", count: 5))
    #expect(try count(agent, user: Self.honest) == 5)
  }

  @Test("a storm of connections is accepted at a limited rate, and another user is accepted meanwhile")
  func connectionStorm() throws {
    let agent = try agent("")
    let storm = try client(
      Self.evil, agent,
      """
      count, begun = 0, time.monotonic()
      while time.monotonic() < begun + 3:
        s = socket.socket(socket.AF_UNIX); s.setblocking(False)
        try: s.connect(sys.argv[1]); count += 1
        except BlockingIOError: pass
        s.close()
      say("%d %f" % (count, time.monotonic() - begun))
      """)
    let said = try run(
      Self.honest, agent, "s = connect(); s.sendall(report(1)); say(acknowledged(s, 1))")
    #expect(said == "True\n")
    let words = String(decoding: storm.output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
      .split(whereSeparator: \.isWhitespace).compactMap { Double($0) }
    storm.process.waitUntilExit()
    let (connects, seconds) = (try #require(words.first), try #require(words.last))
    // Its rate, the pace of refusals, and what waits in the listening socket's queue.
    let pace = RefusalPace.interval / .seconds(1)
    let refusals = Double(RefusalPace.limit) / pace
    let rate = ConnectionRate.perSecond * (seconds + 4) + refusals * seconds
    print("a storm of \(connects / seconds) connects a second")
    #expect(connects <= rate + 4096 + 1000)
    // The agent is as quick as before.
    let calm = try run(Self.honest, agent, "s = connect(); s.sendall(report(2)); say(acknowledged(s, 1))")
    #expect(calm == "True\n")
  }

  @Test("a user's unit has at most half of the user's connections")
  func connectionsOfUnit() throws {
    let agent = try agent("limits: { connections_per_user: 10 }")
    let said = try run(
      Self.evil, agent,
      """
      all = [connect() for _ in range(6)]
      for n, s in enumerate(all):
        # The last one may have been refused by now.
        try: s.sendall(report(n + 1))
        except OSError: pass
      say(" ".join(s.recv(24).decode() for s in all))
      """)
    #expect(said.components(separatedBy: "acknowledged").count - 1 == 5)
    #expect(agent.said.contains("half of its user's limit (limits.connections_per_user)"))
  }

  @Test("while a file is not accepting writes, one user's reports do not take all memory")
  func memory() throws {
    let agent = try agent(
      "limits: { memory: 1MiB, lines_per_second: 100000 }",
      wrapper: [
        "/usr/bin/unshare", "--mount", "--propagation", "private", "/bin/sh", "-c",
        "mount -t tmpfs -o size=64k tmpfs $(dirname \"$4\")/logs && exec \"$@\"", "sh",
      ])
    let greedy = try client(Self.evil, agent, Self.flood)
    defer { kill(greedy.process.processIdentifier, SIGKILL) }
    agent.expect("its user waits") { agent.said.contains("of user \(Self.evil) are queued (limits.memory)") }
    let other = try client(Self.honest, agent, "s = connect(); s.sendall(report(1)); s.recv(1)")
    defer { kill(other.process.processIdentifier, SIGKILL) }
    try agent.expect("the other one's line is taken in") {
      try agent.status().clients.contains { Int($0.uid) == Self.honest && $0.lines == 1 }
    }
    let queue = try agent.status().queue
    #expect(queue.bytes < queue.bytesLimit)
  }

  @Test("unfinished lines of a user use at most its share of memory")
  func unfinishedLines() throws {
    let agent = try agent("limits: { memory: 1MiB }")
    let said = try run(
      Self.evil, agent,
      """
      all = [connect() for _ in range(5)]
      for s in all: s.sendall(b"x" * 60000)
      say(all[4].recv(200).decode())
      """)
    #expect(said.contains("unfinished lines of its user use too much memory (limits.memory)"))
    #expect(try agent.status().connections >= 1)
  }

  // MARK: History

  @Test(
    "lines above a user's daily quota are acknowledged and counted, but not written, also after a restart")
  func quota() throws {
    let agent = try agent(
      """
      limits: { user_bytes_per_day: 1MiB, lines_per_second: 100000 }
      metrics: { textfile: PLACE/stalld.prom, textfile_interval: 1s }
      """)
    func report(_ first: Int, _ count: Int) -> String {
      """
      s = connect()
      for n in range(\(first), \(first + count)): s.sendall(report(n))
      seen = b""
      while b'"acknowledged":\(count)}' not in seen: seen += s.recv(65536)
      say(seen.count(b"limits.user_bytes_per_day"))
      """
    }
    #expect(try run(Self.evil, agent, report(1, 2000)) == "1\n")
    func bytes() throws -> Int {
      try agent.lines().filter { $0.contains(#""user":{"id":"\#(Self.evil)"}"#) }.reduce(0) { $0 + $1.utf8.count + 1 }
    }
    let written = try bytes()
    // One unit has half of it.
    #expect((500 << 10...540 << 10).contains(written))
    #expect(try run(Self.honest, agent, report(5000, 10)) == "0\n")
    #expect(try count(agent, user: Self.honest) == 10)
    #expect(agent.said.components(separatedBy: "limits.user_bytes_per_day").count == 2)
    let metrics = agent.scratch.url.appending(path: "stalld.prom")
    agent.expect("they are counted") {
      let text = (try? String(contentsOf: metrics, encoding: .utf8)) ?? ""
      return text.contains(/stalld_lines_refused_total\{reason="over_quota"\} [1-9]/)
    }
    #expect(agent.stop() == 0)
    try agent.start()
    open(agent)
    #expect(try run(Self.evil, agent, report(10_000, 100)) == "1\n")
    #expect(try bytes() == written)
  }

  @Test("added names count for the daily quota, and for memory while the line waits")
  func quotaOfNames() throws {
    let fixtures = try NameFixtures()
    let frame = try fixtures.library(
      fixtures.directory("lib") + "/liblong.so", function: "f" + String(repeating: "x", count: 300),
      buildID: String(repeating: "ab", count: 20))
    let agent = try agent("limits: { user_bytes_per_day: 1MiB, lines_per_second: 100000 }")
    let frames = String(repeating: frame.json + ",", count: 15).dropLast()
    let said = try run(
      Self.evil, agent,
      """
      s = connect()
      seen = b""
      for n in range(1, 601):
        s.sendall(report(n).replace(b'"stack":[]', b'"stack":[\(frames)]'))
        if n % 20 == 0:
          while b'"acknowledged":%d}' % n not in seen: seen += s.recv(65536)
      say(seen.count(b"limits.user_bytes_per_day"))
      """)
    #expect(said == "1\n")
    let lines = try agent.lines()
    #expect(lines.contains { $0.utf8.count > 5000 }, "they have names: \(lines.first ?? "")")
    let bytes = lines.reduce(0) { $0 + $1.utf8.count + 1 }
    // One unit has half of it, and what was in progress.
    #expect((400 << 10...680 << 10).contains(bytes), "\(bytes)")
    #expect(try agent.status().queue.bytes == 0)
  }

  @Test("the quota is counted by unit and user, starts again each day, and is restored from its file")
  func usage() {
    var usage = DailyUsage(day: 5)
    let web = Peer(pid: 1, uid: 0, gid: 0, cgroup: "/system.slice/web.service")
    let other = Peer(pid: 2, uid: 0, gid: 0, cgroup: "/system.slice/b c.service")
    #expect(usage.admit(bytes: 50, of: web, limit: 100, today: 5) == .admitted)
    #expect(usage.admit(bytes: 1, of: web, limit: 100, today: 5) == .refusedForTheFirstTime)
    #expect(usage.admit(bytes: 1, of: web, limit: 100, today: 5) == .refused)
    #expect(usage.admit(bytes: 25, of: other, limit: 100, today: 5) == .admitted)
    var again = DailyUsage(text: usage.text(), today: 5)
    #expect(again.users[0]?.units.total == 75)
    #expect(again.users[0]?.units.taken == ["web.service": 50, "b c.service": 25])
    #expect(again.admit(bytes: 1, of: web, limit: 100, today: 5) == .refusedForTheFirstTime)
    #expect(DailyUsage(text: usage.text(), today: 6).users.isEmpty)
    #expect(usage.admit(bytes: 50, of: web, limit: 100, today: 6) == .admitted)
    #expect(DailyUsage(text: "nonsense\n1 2\n", today: 6).users.isEmpty)
    // What names add counts, and what was cut off does not.
    usage.correct(by: 40, of: 0, web.place)
    #expect(usage.users[0]?.units.total == 90)
    #expect(usage.users[0]?.units.taken == ["web.service": 90])
    usage.correct(by: -80, of: 0, web.place)
    #expect(usage.admit(bytes: 10, of: other, limit: 100, today: 6) == .admitted)
    #expect(usage.users[0]?.units.taken == ["web.service": 10, "b c.service": 10])
    usage.correct(by: 5, of: 1, web.place)
    #expect(usage.users[1] == nil)
  }

  @Test("a user who knows a stall's ID cannot overwrite another user's detail file")
  func details() throws {
    let agent = try agent("")
    let id = String(repeating: "ab", count: 16)
    func send(_ user: Int, _ text: String) throws {
      _ = try run(
        user, agent,
        "s = connect(); s.sendall(b'{\"detail\":{\"id\":\"\(id)\",\"x\":\"\(text)\"}}\\n'); acknowledged(s, 1)")
    }
    let folder = agent.scratch.url.appending(path: "details")
    func file(_ user: Int) -> String? {
      try? String(contentsOf: folder.appending(path: "\(id).\(user).json"), encoding: .utf8)
    }
    try send(Self.honest, "true one")
    agent.expect("the file") { file(Self.honest)?.contains("true one") == true }
    agent.killAndWait()
    try agent.start()
    open(agent)
    try send(Self.evil, "forged")
    agent.expect("the other file") { file(Self.evil)?.contains("forged") == true }
    #expect(file(Self.honest)?.contains("true one") == true)
  }

  // MARK: Counters

  @Test("a user cannot increase another user's counters by using its service name")
  func counters() throws {
    let agent = try agent("metrics: { textfile: PLACE/stalld.prom, textfile_interval: 1s }")
    func send(_ user: Int, _ n: Int, dropped: Int) throws {
      let dropped = #""dropped":\#(dropped),"#
      _ = try run(
        user, agent,
        """
        s = connect()
        s.sendall(report(\(n)).replace(b'"event":{', b'"event":{\(dropped)'))
        acknowledged(s, 1)
        """)
    }
    // The second line repeats the first one.
    for _ in 1...2 { try send(Self.honest, 1, dropped: 2) }
    for n in 2...4 { try send(Self.evil, n, dropped: 100) }
    let metrics = agent.scratch.url.appending(path: "stalld.prom")
    func has(_ name: String, _ labels: String, user: Int, _ value: Int) -> Bool {
      let text = (try? String(contentsOf: metrics, encoding: .utf8)) ?? ""
      return text.split(separator: "\n").contains {
        $0.hasPrefix(name + "{" + labels) && $0.contains(#"user="\#(user)""#) && $0.hasSuffix("} \(value)")
      }
    }
    let stalls = #"service="web",cause="lock""#
    agent.expect("the flooder's own") { has("stalld_stalls_total", stalls, user: Self.evil, 3) }
    #expect(has("stalld_stalls_total", stalls, user: Self.honest, 1))
    #expect(has("stalld_lines_dropped_by_hosts_total", "", user: Self.evil, 300))
    #expect(has("stalld_lines_dropped_by_hosts_total", "", user: Self.honest, 2))
  }
}
