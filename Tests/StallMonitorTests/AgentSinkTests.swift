import Foundation
import Glibc
import TestSupport
import Testing

extension WatchedHosts {
  /// Hosts whose lines go to an agent, and an agent that comes, goes and misbehaves.
  @Suite(
    .serialized, .takingTurns)
  struct AgentSinkTests {
    private typealias State = FatalTests.State

    private func environment(
      _ agent: TestAgent, _ state: State? = nil, _ more: [String: String] = [:]
    ) -> [String: String] {
      var variables = [
        "STALLMONITOR_SINK": "agent:\(agent.path)", "STALLMONITOR_THRESHOLD": "50ms",
        "STALLMONITOR_REPEAT_WINDOW": "0s", "STALLMONITOR_BUDGET": "0", "SWIFT_BACKTRACE": "enable=no",
      ]
      if let state { variables["STALLMONITOR_STATE_DIRECTORY"] = state.path }
      return variables.merging(more) { $1 }
    }

    /// The sequence numbers and whether they are whole: nothing is missing, nothing comes twice.
    private func expectWhole(_ reports: [WrittenReport], from first: Int = 1) {
      let numbers = reports.compactMap { $0["stall", "sequence"] as? Int }
      #expect(numbers == Array(first..<(first + numbers.count)))
    }

    /// As an agent does, who knows what it has: a line that comes again is the same.
    private func withoutRepetitions(_ reports: [WrittenReport]) -> [WrittenReport] {
      var known: Set<String> = []
      return reports.filter { known.insert("\($0.id) \($0["stall", "sequence"] ?? 0)").inserted }
    }

    private func spools(in state: State) -> [String] { state.files.filter { $0.hasPrefix("stallspool-") } }

    private func hello(_ connection: TestAgent.Connection) throws -> [String: Any] {
      let first = try #require(connection.lines.first)
      let object = try #require(try JSONSerialization.jsonObject(with: first) as? [String: Any])
      return try #require(object["hello"] as? [String: Any])
    }

    @Test func linesArriveInOrderAfterTheGreeting() throws {
      let agent = try TestAgent()
      let state = try State()
      let victim = try Victim.run(
        "repeated", milliseconds: 250, environment: environment(agent, state, ["STALLMONITOR_SERVICE_NAME": "web"]))
      #expect(victim.status == 0)
      #expect(victim.reports.isEmpty, "nothing on standard output")
      try agent.wait("the end") { !($0.connections.first?.isOpen ?? true) }
      #expect(agent.connections.count == 1)
      let hello = try hello(agent.connections[0])
      #expect(hello["protocol"] as? Int == 1)
      #expect((hello["service"] as? [String: Any])?["name"] as? String == "web")
      let reports = try agent.reports()
      try ReportSchema.expectValid(
        Data(
          (reports.isEmpty ? [] : agent.lines.filter { $0.starts(with: Data("{\"@".utf8)) }).joined(separator: [10]) + [
            10
          ]))
      #expect(reports.count >= 10)
      expectWhole(reports)
      #expect(agent.connections[0].lines.last == Data("{\"goodbye\":{}}".utf8))
      // The samples of each stall, after its end.
      for id in Set(reports.map(\.id)) {
        let end = try #require(
          agent.lines.firstIndex {
            $0.range(of: Data("\"stall.ended\"".utf8)) != nil && $0.range(of: Data(id.utf8)) != nil
          })
        let detail = try #require(
          agent.lines.firstIndex { $0.starts(with: Data("{\"detail\":{\"id\":\"\(id)\"".utf8)) })
        #expect(end < detail)
        let object = try JSONSerialization.jsonObject(with: agent.lines[detail]) as? [String: Any]
        #expect((object?["detail"] as? [String: Any])?["tree"] is [Any])
      }
      #expect(state.files.isEmpty)
      #expect(!FileManager.default.fileExists(atPath: state.path + "/stalls"), "the agent keeps them")
    }

    /// Also of a stall that is only counted, if an action has passed its samples on.
    @Test func detailHasTheEndOfARepetition() throws {
      let agent = try TestAgent()
      let state = try State()
      let victim = try Victim.run(
        "repeated", milliseconds: 500,
        environment: environment(
          agent, state, ["STALLMONITOR_WRITE_DETAIL_FILE_AFTER": "260ms", "STALLMONITOR_REPEAT_WINDOW": "30s"]))
      #expect(victim.status == 0)
      try agent.wait("the end") { !($0.connections.first?.isOpen ?? true) }
      var durations: [String: Double] = [:]
      for line in agent.lines where line.starts(with: Data("{\"detail\"".utf8)) {
        let object = try JSONSerialization.jsonObject(with: line) as? [String: Any]
        let detail = try #require(object?["detail"] as? [String: Any])
        durations[try #require(detail["id"] as? String)] =
          (detail["stall"] as? [String: Any])?["duration_ms"] as? Double
      }
      #expect(durations.count == 5 && durations.values.allSatisfy { $0 >= 450 }, "\(durations)")
    }

    @Test func whatIsNotAcknowledgedComesAgain() throws {
      var manners = TestAgent.Manners()
      manners.acknowledges = false
      let agent = try TestAgent(manners)
      _ = try Victim.run("stalls", milliseconds: 70, environment: environment(agent)) { process in
        defer { kill(process.processIdentifier, SIGKILL) }
        try agent.wait("lines") { try $0.reports().count >= 6 }
        // Of the first connection the first three reports are done with: the greeting counts.
        let lines = agent.connections[0].lines
        let third = try #require(lines.indices.filter { lines[$0].starts(with: Data("{\"@".utf8)) }.dropFirst(2).first)
        agent.say("{\"acknowledged\":\(third + 1)}")
        usleep(200_000)
        agent.change { $0.acknowledges = true }
        agent.hangUp()
        try agent.wait("more") { $0.connections.count == 2 && $0.connections[1].lines.count > 20 }
        agent.hangUp()
        try agent.wait("a third connection") { $0.connections.count == 3 && $0.connections[2].lines.count > 5 }
      }
      func numbers(_ index: Int) throws -> [Int] {
        try agent.connections[index].lines.filter { $0.starts(with: Data("{\"@".utf8)) }
          .map { try #require(try WrittenReport($0)["stall", "sequence"] as? Int) }
      }
      let (first, second, third) = (try numbers(0), try numbers(1), try numbers(2))
      #expect(first == Array(1...first.count))
      // A stall that ran at that moment may come again from before.
      #expect(second.drop { $0 < 4 }.first == 4 && second.prefix { $0 < 4 }.count <= 1)
      let rest = Array(second.drop { $0 < 4 })
      #expect(rest == Array(4..<(4 + rest.count)))
      let again = try #require(third.first)
      #expect(again > 4, "what was acknowledged does not come again")
      #expect(agent.connections.allSatisfy { (try? hello($0)) != nil })
    }

    @Test func agentMayComeLater() throws {
      let agent = try TestAgent()
      agent.close()
      _ = try Victim.run("stalls", milliseconds: 60, environment: environment(agent)) { process in
        defer { kill(process.processIdentifier, SIGKILL) }
        usleep(700_000)
        try agent.comeBack()
        try agent.wait("lines") { try $0.reports().count >= 12 }
      }
      expectWhole(try agent.reports())
      #expect(try agent.reports().allSatisfy { $0["event", "dropped"] == nil })
    }

    /// Also of a service that ends before an absent agent is reported.
    @Test func reportsThatAreKeptAtTheEndAreLogged() throws {
      let agent = try TestAgent()
      agent.close()
      let state = try State()
      func complaints(_ scenario: String, _ milliseconds: Int, _ more: [String: String] = [:]) throws -> [String] {
        let victim = try Victim.run(
          scenario, milliseconds: milliseconds, environment: environment(agent, state, more))
        #expect(victim.status == 0)
        return victim.talk.split(separator: "\n").filter { $0.hasPrefix("stallmonitor: ") }.map { String($0) }
      }
      let line = try #require(try complaints("repeated", 100).last)
      let file = "\(state.path)/\(try #require(spools(in: state).first))"
      #expect(line.hasPrefix("stallmonitor: the agent at \(agent.path) has not accepted "))
      #expect(line.hasSuffix(" are kept in \(file), and the next start of the service sends them"))
      // Without a place for them.
      let lost = try complaints("repeated", 100, ["STALLMONITOR_STATE_DIRECTORY": "/nowhere"])
      #expect(lost.last?.hasSuffix(" reports: \(Self.number(in: lost.last)) could not be kept and are lost") == true)
      // Without a report, and with an agent, there is nothing to say.
      #expect(try complaints("idle", 200).filter { $0.contains("has not accepted") } == [])
      try agent.comeBack()
      #expect(try complaints("repeated", 100, ["STALLMONITOR_SERVICE_NAME": "other"]) == [])
      let others = try agent.reports().count
      #expect(try complaints("idle", 500) == [])
      try agent.wait("the kept reports") { try $0.reports().count == others + Self.number(in: line) }
      #expect(spools(in: state).isEmpty)
    }

    /// How many reports a line of the end names.
    private static func number(in line: String?) -> Int {
      line?.components(separatedBy: " has not accepted ").last?.split(separator: " ").first.flatMap { Int($0) } ?? -1
    }

    /// The agent exits during a stall: a new one receives the stall at once.
    @Test func runningStallIsReportedToANewAgent() throws {
      let agent = try TestAgent()
      _ = try Victim.run("sleep", milliseconds: 30_000, environment: environment(agent)) { process in
        defer { kill(process.processIdentifier, SIGKILL) }
        try agent.wait("the stall") { try $0.reports().count >= 1 }
        usleep(300_000)
        agent.hangUp()
        try agent.wait("a second connection") { $0.connections.count >= 2 && $0.connections[1].lines.count >= 2 }
      }
      let (before, after) = (agent.connections[0].lines, agent.connections[1].lines)
      #expect(try hello(agent.connections[1])["protocol"] as? Int == 1)
      let last = try #require(before.last { $0.starts(with: Data("{\"@".utf8)) })
      #expect(after[1] == last)
    }

    /// The service is killed while the agent is away; lines beyond the memory are in its file, and the next start hands them over, once.
    @Test func nextStartHandsOverWhatWaited() throws {
      let agent = try TestAgent()
      agent.close()
      let state = try State()
      // Ends in good order: what waits goes into the file.
      let ended = try Victim.run("repeated", milliseconds: 250, environment: environment(agent, state))
      #expect(ended.status == 0)
      #expect(spools(in: state).count == 1)
      // Another service's next start does not touch it.
      _ = try Victim.run(
        "never-runs", milliseconds: 1,
        environment: environment(agent, state, ["STALLMONITOR_SERVICE_NAME": "another"]))
      #expect(spools(in: state).count == 1)
      try agent.comeBack()
      // Two starts at once.
      let next = try Victim.run("never-runs", milliseconds: 300, environment: environment(agent, state)) { _ in
        _ = try Victim.run("never-runs", milliseconds: 300, environment: self.environment(agent, state))
      }
      #expect(next.status == 0)
      try agent.wait("the end") { $0.connections.count == 2 && $0.connections.allSatisfy { !$0.isOpen } }
      expectWhole(withoutRepetitions(try agent.reports()))
      #expect(try agent.reports().count >= 10)
      try ReportSchema.expectValid(
        Data(agent.lines.filter { $0.starts(with: Data("{\"@".utf8)) }.joined(separator: [10]) + [10]))
      #expect(state.files.isEmpty)
    }

    /// What lies in the file is the next start's, however the process ended.
    @Test func killedHostLeavesItsFile() throws {
      let agent = try TestAgent()
      agent.close()
      let state = try State()
      let variables = environment(agent, state, ["STALLMONITOR_THRESHOLD": "1ms"])
      _ = try Victim.run("stalls", milliseconds: 3, environment: variables) { process in
        defer { kill(process.processIdentifier, SIGKILL) }
        let end = Date(timeIntervalSinceNow: 60)
        func size() -> Int {
          spools(in: state).compactMap {
            try? FileManager.default.attributesOfItem(atPath: "\(state.path)/\($0)")[.size] as? Int
          }.reduce(0, +)
        }
        while size() < 100_000 {
          try #require(Date.now < end, "\(state.files)")
          usleep(1000)
        }
      }
      try agent.comeBack()
      for _ in 0..<2 {
        let next = try Victim.run("never-runs", milliseconds: 1, environment: environment(agent, state))
        #expect(next.status == 0)
      }
      try agent.wait("the end") { $0.connections.count == 2 && $0.connections.allSatisfy { !$0.isOpen } }
      let reports = try agent.reports().filter { $0.event != "stall.fatal" }
      #expect(reports.count >= 10)
      expectWhole(withoutRepetitions(reports))
      #expect(state.files.isEmpty)
    }

    @Test(arguments: ["hand-out", "take-back"])
    func thresholdIsHandedOut(way: String) throws {
      var manners = TestAgent.Manners()
      if way == "take-back" { manners.greeting = [#"{"settings":{"threshold":"100ms","threads":"none"}}"#] }
      let agent = try TestAgent(manners)
      // Each stall takes 150 ms, and the host's own threshold is far longer.
      let variables = environment(agent, nil, ["STALLMONITOR_THRESHOLD": "1min"])
      let victim = try Victim.run("stalls", milliseconds: 150, environment: variables) { process in
        defer { kill(process.processIdentifier, SIGKILL) }
        if way == "hand-out" {
          try agent.wait("the greeting") { $0.connections.first?.lines.count == 1 }
          usleep(700_000)
          #expect(agent.lines.isEmpty)
          agent.say(#"{"settings":{"threshold":"soon","budget":-1,"future":[1]}}"#)
          usleep(500_000)
          #expect(agent.lines.isEmpty)
          agent.say(#"{"settings":{"threshold":"100ms"}}"#)
          try agent.wait("a stall") { try $0.reports().count >= 2 }
        } else {
          try agent.wait("a stall") { try $0.reports().count >= 2 }
          agent.say(#"{"settings":{}}"#)
          usleep(500_000)
          let before = agent.lines.count
          usleep(700_000)
          #expect(agent.lines.count == before)
        }
      }
      let report = try #require(try agent.reports().first)
      #expect(report["stall", "threshold_ms"] as? Double == 100)
      let complaints = victim.talk.split(separator: "\n").filter { $0.hasPrefix("stallmonitor: the agent's settings") }
      #expect(complaints.count == (way == "hand-out" ? 1 : 0))
      if way == "hand-out" {
        #expect(victim.talk.contains(#"threshold: "soon" is invalid; allowed: from "1ms" to "1h""#))
        #expect(victim.talk.contains("budget: -1 is invalid"))
      }
    }

    /// An agent of the next minor version: what this one does not know of it is ignored without a word, and the rest holds.
    @Test func laterAgentIsUnderstood() throws {
      var manners = TestAgent.Manners()
      manners.isLater = true
      manners.greeting = [
        #"{"welcome":{"version":"1.7","features":["a",{"b":1}]}}"#,
        #"{"settings":{"enabled":true,"captures":"all","threshold":"100ms","sampling_rate":7,"later":{"a":[1,{}]}},"more":1}"#,
        #"{"recovery":{"version":2,"size":8192}}"#,
      ]
      let agent = try TestAgent(manners)
      let state = try State()
      let variables = environment(agent, state, ["STALLMONITOR_THRESHOLD": "1min"])
      let victim = try Victim.run("stalls", milliseconds: 150, environment: variables) { process in
        defer { kill(process.processIdentifier, SIGKILL) }
        try agent.wait("stalls") { try $0.reports().count >= 6 }
      }
      #expect(agent.connections.count == 1, "it stays connected")
      expectWhole(try agent.reports())
      #expect(try agent.reports().first?["stall", "threshold_ms"] as? Double == 100)
      #expect(!victim.talk.contains("stallmonitor: "), "\(victim.talk)")
    }

    /// A loop that was given a threshold of its own keeps it.
    @Test func ownThresholdStays() throws {
      var manners = TestAgent.Manners()
      manners.greeting = [#"{"settings":{"threshold":"20ms"}}"#]
      let agent = try TestAgent(manners)
      // Two loops with 100 ms, and one with 30 s.
      let victim = try Victim.run("loops", milliseconds: TestMachine.stall(300), environment: environment(agent))
      #expect(victim.facts["main_threshold"] == "0.02")
      #expect(victim.facts["alpha_threshold"] == "0.1")
      try agent.wait("the end") { !($0.connections.first?.isOpen ?? true) }
      let reports = try agent.reports()
      for name in ["alpha", "beta"] {
        let report = try #require(reports.first { $0["loop", "name"] as? String == name })
        #expect(report["stall", "threshold_ms"] as? Double == 100)
      }
      #expect(!reports.contains { $0["loop", "name"] as? String == "patient" })
    }

    /// Connected, and nothing to say: the thread does not wake, and neither does the watchdog.
    @Test(.repeatedAfterStandstills(because: "the wake-ups of an idle host are counted over a time"))
    func idleServiceWakesNoThread() throws {
      let agent = try TestAgent()
      let victim = try Victim.run("idle", milliseconds: 2000, environment: environment(agent)) { process in
        try agent.wait("the greeting") { $0.connections.first?.lines.count == 1 }
        usleep(500_000)
        let before = try switches(of: "stall-agent", in: process)
        usleep(1_500_000)
        #expect(try switches(of: "stall-agent", in: process) == before)
      }
      #expect(victim.facts["wakeups"] == "0")
    }

    /// A host that stops the monitor and starts it again keeps no thread and no descriptor of it.
    @Test(arguments: [true, false])
    func restartsLeaveNothing(agentIsThere: Bool) throws {
      let agent = try TestAgent()
      let state = try State()
      if !agentIsThere { agent.close() }
      let victim = try Victim.run("restarts", milliseconds: 1, environment: environment(agent, state))
      #expect(victim.status == 0)
      #expect(victim.facts["before"]?.hasPrefix("threads:") == true)
      #expect(victim.facts["before"] == victim.facts["after"])
      if agentIsThere {
        try agent.wait("the end") { $0.connections.count >= 23 && $0.connections.allSatisfy { !$0.isOpen } }
        #expect(state.files.isEmpty)
      }
    }

    private func switches(of name: String, in process: Process) throws -> String {
      let tasks = "/proc/\(process.processIdentifier)/task"
      for task in try FileManager.default.contentsOfDirectory(atPath: tasks)
      where try String(contentsOfFile: "\(tasks)/\(task)/comm", encoding: .utf8) == name + "\n" {
        let status = try String(contentsOfFile: "\(tasks)/\(task)/status", encoding: .utf8)
        return status.split(separator: "\n").filter { $0.contains("ctxt_switches") }.joined(separator: " ")
      }
      throw CancellationError()
    }

    /// Lines without names, completed later, say what a host says that names its frames itself.
    @Test(
      .repeatedAfterStandstills(because: "names of libraries, which the kind of a lock needs, have a time limit"),
      arguments: [
        ("deep", ""), ("lock", "read-write lock, writing"), ("lock", "mutex"),
      ])
    func namesMayComeLater(scenario: String, lock: String) throws {
      let milliseconds = TestMachine.stall(400)
      let agent = try TestAgent()
      let variables = ["STALLMONITOR_THRESHOLD": "100ms", "VICTIM_LOCK": lock]
      _ = try Victim.run(scenario, milliseconds: milliseconds, environment: environment(agent, nil, variables))
      try agent.wait("the end") { !($0.connections.first?.isOpen ?? true) }
      let raw = agent.lines.filter { $0.starts(with: Data("{\"@".utf8)) }
      for line in raw {
        #expect(line.range(of: Data("\"symbol\"".utf8)) == nil)
        #expect(line.count < 64 << 10)
        let report = try WrittenReport(line)
        #expect((report["message"] as? String)?.contains(" in StallVictim+0x") == true)
        #expect(report["stall", "path"] == nil)
      }
      let completed = try symbolicate(raw)
      try ReportSchema.expectValid(completed)
      let later = try #require(
        try completed.split(separator: 10).map { try WrittenReport(Data($0)) }.first { $0.event == "stall.ended" })
      func runWithNames() throws -> WrittenReport {
        try #require(
          Victim.run(scenario, milliseconds: milliseconds, environment: variables).reports("stall.ended").first)
      }
      var told = try runWithNames()
      // The holder is known only if there was time for the names of the first sample.
      for _ in 0..<3 where lock != "" && told["threads"] == nil { told = try runWithNames() }
      #expect(later.culprit == told.culprit)
      #expect(later["stall", "fingerprint"] as? String == told["stall", "fingerprint"] as? String)
      #expect(later["stall", "evidence", "lock_kind"] as? String == told["stall", "evidence", "lock_kind"] as? String)
      func place(_ report: WrittenReport) -> Substring? {
        // Without the line: which one a running thread is met at, and whether that instruction has one, is a matter of chance.
        (report["message"] as? String)?.split(separator: " in ").dropFirst().first?
          .prefix { $0 != ":" }.split(separator: ".swift").first
      }
      #expect(place(later) == place(told))
      func names(_ report: WrittenReport) -> [[String?]] {
        ((report["threads"] as? [[String: Any]]) ?? []).map {
          (($0["stack"] as? [[String: Any]]) ?? []).map { $0["symbol"] as? String }.filter {
            $0?.contains("StallVictim") == true
          }
        }
      }
      #expect(names(later) == names(told))
      #expect((lock == "") == names(told).isEmpty)
    }

    private func symbolicate(_ lines: [Data]) throws -> Data {
      let file = FileManager.default.temporaryDirectory.appending(path: "stalld-lines-\(UUID().uuidString).jsonl")
      try Data(lines.joined(separator: [10]) + [10]).write(to: file)
      defer { try? FileManager.default.removeItem(at: file) }
      return try Program.run(Victim.Build.debug.executable("stalld").path, ["symbolicate", file.path]).data
    }

    /// Without names, functions that were inlined into one look the same but for their addresses: none is counted as another.
    @Test func repetitionsWithoutNamesAreOfOneFunction() throws {
      let agent = try TestAgent()
      // Long ones: a stall that ends while the watchdog is busy with the one before has no stack.
      let variables = [
        "STALLMONITOR_REPEAT_WINDOW": "30s", "STALLMONITOR_BUDGET": "60", "STALLMONITOR_THRESHOLD": "200ms",
      ]
      _ = try Victim.run("inlined-work", milliseconds: 700, environment: environment(agent, nil, variables))
      try agent.wait("the end") { !($0.connections.first?.isOpen ?? true) }
      let lines = agent.lines.filter { $0.starts(with: Data("{\"@".utf8)) }
      let named = try symbolicate(lines).split(separator: 10).map { try WrittenReport(Data($0)) }.named
      var counts: [String: Int] = [:]
      for report in named where report.event == "stall.ended" || report.event == "stall.suppressed" {
        counts[report.culprit, default: 0] += report["stall", "suppressed", "count"] as? Int ?? 1
        let message = try #require(report["message"] as? String)
        #expect(message.contains(" in \(report.culprit) (inlined.c:"), "\(message)")
      }
      #expect(counts == ["refresh_cache": 2, "call_partner": 2, "parse_upload": 2])
      // Where they slept, their addresses are the same.
      #expect(named.count { $0.event == "stall.suppressed" } >= 2)
    }

    /// If an agent leaves the names to the service, it gets them with the next stall.
    @Test func hostNamesIfItIsAskedTo() throws {
      var manners = TestAgent.Manners()
      manners.greeting = [#"{"settings":{"symbolication":"host"}}"#]
      let agent = try TestAgent(manners)
      _ = try Victim.run("stalls", milliseconds: 80, environment: environment(agent)) { process in
        defer { kill(process.processIdentifier, SIGKILL) }
        try agent.wait("a name") { try $0.reports().contains { $0.culprit.contains("blockByComputing()") } }
      }
    }

    /// A nested run that no observer sees is no stall, also where nothing is named.
    @Test func unseenRunIsNoStallWithoutNames() throws {
      let agent = try TestAgent()
      let program = try Victim.Build.debug.executable("FoundationVictim")
      let victim = try Victim.run(
        "nested-private", milliseconds: 500, environment: environment(agent, nil, ["STALLMONITOR_THRESHOLD": "100ms"]),
        program: program)
      #expect(victim.talk.contains("runs in a private mode, which is not watched"))
      try agent.wait("the end") { !($0.connections.first?.isOpen ?? true) }
      #expect(try agent.reports().isEmpty)
    }

    /// A service that closes all sockets, and has sockets of its own by the same numbers, is not written to.
    ///
    /// The connection lies in a table of the monitor's own, and lives on; where there is no such table, another one is made.
    @Test(arguments: ["closes-sockets", "replaces-sockets"], [false, true])
    func anothersSocketsAreNotWrittenTo(scenario: String, sharesItsTable: Bool) throws {
      let agent = try TestAgent()
      let variables = ["VICTIM_SHARES_ITS_TABLE": sharesItsTable ? "1" : "0"]
      let victim = try Victim.run(
        scenario, milliseconds: TestMachine.stall(150), environment: environment(agent, nil, variables))
      #expect(victim.facts["strange"] == "0")
      #expect(victim.facts["open"] == "16")
      let connections = sharesItsTable ? 2 : 1
      try agent.wait("the end") {
        $0.connections.count == connections && $0.connections.allSatisfy { !$0.isOpen }
      }
      #expect(agent.connections[0].lines.count > 1)
      let reports = try agent.reports()
      #expect(Set(reports.map(\.id)).count == 2)
      #expect(Set(reports.compactMap { $0["stall", "sequence"] as? Int }) == Set(1...reports.count))
    }

    /// The child of a fork says nothing on its parent's connection, and is unharmed.
    @Test func forkedChildIsSilent() throws {
      let agent = try TestAgent()
      let victim = try Victim.run("child-goes-on", milliseconds: 150, environment: environment(agent))
      #expect(victim.talk.contains("child-ended=9"))
      #expect(victim.facts["child-watching"] == "false")
      try agent.wait("the end") { !($0.connections.first?.isOpen ?? true) }
      #expect(agent.connections.count == 1)
      let reports = try agent.reports()
      expectWhole(reports)
      #expect(Set(reports.map(\.id)).count == 1)
    }

    @Test func childThatWatchesItselfHasAConnectionOfItsOwn() throws {
      let agent = try TestAgent()
      let victim = try Victim.run("child-watches-itself", milliseconds: 200, environment: environment(agent))
      #expect(victim.talk.contains("child-ended=9"))
      try agent.wait("the end") { $0.connections.count == 2 && $0.connections.allSatisfy { !$0.isOpen } }
      let child = try #require(victim.facts["child"].flatMap { Int($0) })
      for connection in agent.connections {
        let reports = try connection.lines.filter { $0.starts(with: Data("{\"@".utf8)) }.map(WrittenReport.init)
        #expect(Set(reports.compactMap { $0["process", "pid"] as? Int }).count == 1)
        expectWhole(reports)
      }
      #expect(try agent.reports().contains { $0["process", "pid"] as? Int == child })
    }

    @Test(arguments: ["agent:relative/path", "agent:", "agent:/\(String(repeating: "a", count: 107))"])
    func badPathIsNamed(sink: String) throws {
      let victim = try Victim.run("compute", milliseconds: 1, environment: ["STALLMONITOR_SINK": sink])
      #expect(victim.status == 0)
      #expect(victim.talk.contains("STALLMONITOR_SINK=\(sink) is invalid; allowed: stdout; file: and a path"))
      #expect(victim.talk.contains("watching=false"))
    }
  }
}
