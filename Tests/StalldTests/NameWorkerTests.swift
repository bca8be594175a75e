import Foundation
import TestSupport
import Testing

@testable import stalld

/// The process that names functions: what it may do, and what becomes of lines when it ends or does not respond.
@Suite(.serialized, .takingTurns, .timeLimit(.minutes(3))) struct NameWorkerTests {
  private func library(_ fixtures: NameFixtures, _ name: String = "true_name") throws -> NameFixtures.Frame {
    try fixtures.library(
      fixtures.directory("service") + "/lib\(name).so", function: name,
      buildID: name.utf8.map { String($0, radix: 16) }.joined().padding(toLength: 40, withPad: "0", startingAt: 0))
  }

  private func send(_ lines: [String], _ agent: RunningAgent) throws -> AgentClient {
    let client = try AgentClient(agent.socketPath)
    for line in lines { client.send(line) }
    return client
  }

  @Test("the worker has one descriptor, no privileges and limits, and ends with the agent")
  func confinement() throws {
    let fixtures = try NameFixtures()
    let agent = try RunningAgent()
    #expect(try send([NameFixtures.line(1, [library(fixtures)])], agent).isAcknowledged(1))
    let worker = try #require(agent.worker)
    let status = try String(contentsOfFile: "/proc/\(worker)/status", encoding: .utf8)
    #expect(status.contains("NoNewPrivs:\t1"))
    #expect(status.contains("Seccomp:\t2"))
    let limits = try String(contentsOfFile: "/proc/\(worker)/limits", encoding: .utf8)
    #expect(limits.contains(/Max address space +\d/))
    #expect(limits.contains(/Max core file size +0 +0/))
    #expect(limits.contains(/Max file size +0 +0/))
    let descriptors = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(worker)/fd").compactMap { Int($0) }
    #expect(descriptors.filter { $0 < 3 }.count == 3)
    for descriptor in descriptors where descriptor > 0 {
      let path = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(worker)/fd/\(descriptor)")
      #expect(path == "/dev/null" || path.contains("/service/"), "\(path)")
    }
    agent.killAndWait()
    #expect(eventually { kill(worker, 0) != 0 })
  }

  @Test("a worker that is killed during a line is started again: no line is lost, and names come as before")
  func killed() throws {
    let fixtures = try NameFixtures()
    let agent = try RunningAgent()
    let frame = try library(fixtures)
    #expect(try send([NameFixtures.line(1, [frame])], agent).isAcknowledged(1))
    let worker = try #require(agent.worker)
    kill(worker, SIGSTOP)
    let client = try send((2...40).map { NameFixtures.line($0, [frame]) }, agent)
    try agent.catchUp()
    kill(worker, SIGKILL)
    #expect(client.isAcknowledged(39))
    #expect(try agent.lines().count == 40)
    #expect(
      try agent.lines().filter { $0.contains("\"symbol\":\"true_name\"") }.count >= 39,
      "at most the one that it had is without")
    let order = try agent.reports().compactMap { $0["stall", "id"] as? String }
    #expect(order == order.sorted())
    #expect(agent.worker != worker)
    #expect(agent.said.contains("was killed by signal 9"))
  }

  @Test("a SIGHUP to all processes of the unit does not end the worker")
  func hangUp() throws {
    let fixtures = try NameFixtures()
    let agent = try RunningAgent()
    #expect(try send([NameFixtures.line(1, [library(fixtures)])], agent).isAcknowledged(1))
    let worker = try #require(agent.worker)
    kill(worker, SIGHUP)
    #expect(try send([NameFixtures.line(2, [library(fixtures)])], agent).isAcknowledged(1))
    #expect(agent.worker == worker)
    #expect(!agent.said.contains("signal 1"))
  }

  @Test("a line that another process repeats is not acknowledged before it is written")
  func repeated() throws {
    let fixtures = try NameFixtures()
    let agent = try RunningAgent()
    let frame = try library(fixtures)
    #expect(try send([NameFixtures.line(1, [frame])], agent).isAcknowledged(1))
    let worker = try #require(agent.worker)
    kill(worker, SIGSTOP)
    let line = NameFixtures.line(2, [frame])
    let before = try agent.status().linesIngested
    let former = try NameFixtures.sender([line], as: 0, to: agent)
    try agent.expect("it has come") { try agent.status().linesIngested == before + 1 }
    let client = try send([line, AgentClient.report(id: 3)], agent)
    #expect(!client.isAcknowledged(1, within: 500))
    #expect(try agent.lines().count == 1)
    kill(worker, SIGCONT)
    #expect(client.isAcknowledged(2))
    former.waitUntilExit()
    #expect(former.terminationStatus == 0)
    #expect(try agent.lines().count == 3)
    #expect(try agent.status().linesDuplicate == 1)
  }

  @Test("a worker that does not respond is killed, and its lines are written without names")
  func hanging() throws {
    let fixtures = try NameFixtures()
    let agent = try RunningAgent("symbolication: { time_limit: 2s }\n")
    let frame = try library(fixtures)
    #expect(try send([NameFixtures.line(1, [frame])], agent).isAcknowledged(1))
    let worker = try #require(agent.worker)
    kill(worker, SIGSTOP)
    #expect(try send([NameFixtures.line(2, [frame]), NameFixtures.line(3, [frame])], agent).isAcknowledged(2))
    agent.expect("it is killed") { kill(worker, 0) != 0 }
    #expect(try agent.lines().count == 3)
    // Not of the build that it was at, for a minute.
    let other = try library(fixtures, "other_name")
    try agent.expect("names come again") {
      let id = Int.random(in: 1000...1_000_000_000)
      #expect(try send([NameFixtures.line(id, [other])], agent).isAcknowledged(1))
      return try agent.line(id)?.contains("\"symbol\":\"other_name\"") == true
    }
  }

  @Test("if no worker can be started, lines are written unchanged, and that is logged once")
  func notStarted() throws {
    let driver = try AgentDriver()
    let forwarded = Received()
    let stage = try driver.perform { driver in
      Unchecked(
        NamingStage(
          loop: driver.loop, settings: AgentSettings.Symbolication(),
          executable: "/nonexistent/stalld"
        ) { forwarded.lines += $0 })
    }
    for number in 1...20 {
      let line = NameFixtures.line(number, [.init(path: "/usr/lib/libx.so", buildID: "abcd", offset: 16)])
      try driver.perform { _ in
        let report = ReportLine(
          bytes: Array(line.utf8) + [0x0a], event: "stall.ended", isError: false, service: "web", cause: "lock",
          durationMilliseconds: 312, stallID: "a", processID: 7, lane: "0 ", lacksNames: true)
        stage.value.submit([PendingLine(connection: 1, number: UInt64(number), process: 7, line: report, bytes: 100)])
      }
    }
    #expect(try eventually { try driver.perform { _ in forwarded.lines.count == 20 } })
    try driver.perform { _ in
      #expect(forwarded.lines.map(\.number) == (1...20).map { UInt64($0) })
      #expect(stage.value.counters.unnamedLines == 20)
      #expect(stage.value.backlog == 0)
      stage.value.stop()
    }
  }

  private final class Received: @unchecked Sendable {  // `lines` belongs to the loop's thread.
    var lines: [PendingLine] = []
  }

  @Test("the agent accepts only names from the worker")
  func forgedAnswer() throws {
    let line = NameFixtures.line(7, [.init(path: "/usr/lib/libx.so", buildID: "abcd", offset: 16)])
    let stamped = try Array(line.utf8).withUnsafeBufferPointer {
      Stamp(Peer(pid: 42, uid: 7, gid: 8, cgroup: "/system.slice/web.service")).apply(to: $0, try LineScanner.scan($0))
    }
    var report = ReportLine.none
    report.bytes = stamped
    let text = String(decoding: stamped.dropLast(), as: UTF8.self)
    for (from, to) in [
      ("\"id\":\"7\"", "\"id\":\"0\""), ("\"pid\":42", "\"pid\":1"), ("web.service", "sshd.service"),
      ("312.482", "9.5"), ("\"stall.ended\"", "\"stall.fatal\""), ("000007\"", "000008\""), ("}]", "}],"),
      ("}]}", "}]}\n{}"),
    ] {
      var answered = report
      #expect(text.contains(from))
      answered.takeNames(Array(text.replacing(from, with: to).utf8))
      #expect(answered.bytes == stamped, "\(to)")
    }
    report.takeNames(Array(text.replacing("\"offset\"", with: "\"symbol\":\"f\",\"offset\"").utf8))
    #expect(String(decoding: report.bytes, as: UTF8.self).contains("\"symbol\":\"f\""))
  }

  @Test("the worker changes no part of a line that the agent reads but the message and the responsible function")
  func forgedParts() throws {
    let line = NameFixtures.line(7, [.init(path: "/usr/lib/libx.so", buildID: "abcd", offset: 16)])
      .replacing(#""stall":{"#, with: #""stall":{"culprit":"f","suppressed":{"count":3},"#)
      .replacing(#""event":{"#, with: #""event":{"dropped":4,"#)
    let stamped = try Array(line.utf8).withUnsafeBufferPointer {
      Stamp(Peer(pid: 42, uid: 7, gid: 8, cgroup: "/system.slice/web.service")).apply(to: $0, try LineScanner.scan($0))
    }
    var report = ReportLine.none
    report.bytes = stamped
    let parts = Mirror(reflecting: try #require(report.parts)).children.compactMap { part in
      (part.value as? Range<Int>?).flatMap { $0 }.map { (part.label ?? "", $0) }
    }
    var changed: [String] = []
    for (name, range) in parts {
      // Another letter or digit at the end of the value.
      let digits = UInt8(ascii: "0")...UInt8(ascii: "9")
      let index = try #require(
        stamped[range].lastIndex { digits.contains($0) || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) })
      var forged = stamped
      forged[index] =
        digits.contains(forged[index])
        ? digits.lowerBound + (forged[index] + 1) % 10 : UInt8(ascii: forged[index] == UInt8(ascii: "x") ? "y" : "x")
      var answered = report
      answered.takeNames(Array(forged.dropLast()))
      if answered.bytes != stamped { changed.append(name) }
    }
    // Of the object itself, its other members count.
    #expect(changed.sorted() == ["culprit", "message", "stall"])
    let all = Mirror(reflecting: LineScanner.Parts()).children.filter { $0.value is Range<Int>? }.compactMap(\.label)
    #expect(Set(all).subtracting(parts.map(\.0)) == ["payload"], "the line has each part of a report")
  }

  @Test("lines with all names skip the worker")
  func named() throws {
    let agent = try RunningAgent()
    let line = AgentClient.report(id: 1).replacing(
      #""stack":[]"#,
      with:
        #""stack":[{"symbol":"f","module":"/usr/bin/web","build_id":"abcd","offset":"0x10"},{"module":"/usr/bin/web"}]"#
    )
    let client = try send([line], agent)
    // It is there for the lines to come, and has nothing to say of this one.
    #expect(eventually { agent.worker != nil })
    let worker = try #require(agent.worker)
    kill(worker, SIGSTOP)
    defer { kill(worker, SIGCONT) }
    #expect(client.isAcknowledged(1))
    client.send(line.replacing("01\"", with: "02\""))
    #expect(client.isAcknowledged(2))
    #expect(try agent.status().symbols?.misses == 0)
    client.send(line.replacing(#""symbol":"f","#, with: "").replacing("01\"", with: "03\""))
    kill(worker, SIGCONT)
    #expect(client.isAcknowledged(3))
    #expect(try agent.status().symbols?.misses == 1)
  }

  @Test("the worker starts when a service connects, not for the agent's own watchdog, and only once")
  func prepared() throws {
    let agent = try RunningAgent()
    usleep(300_000)
    #expect(agent.workers.isEmpty)
    let clients = try (0..<3).map { _ in try AgentClient(agent.socketPath) }
    #expect(eventually { agent.workers.count == 1 })
    withExtendedLifetime(clients) {}
    let without = try RunningAgent("symbolication: { enabled: false }\n")
    #expect(try send([AgentClient.report(id: 1)], without).isAcknowledged(1))
    #expect(without.workers.isEmpty)
  }

  @Test("status shows a stall with the names that the file has")
  func status() throws {
    let fixtures = try NameFixtures()
    let agent = try RunningAgent()
    #expect(try send([NameFixtures.line(1, [library(fixtures)])], agent).isAcknowledged(1))
    let written = try WrittenReport(try #require(try agent.line(1)))
    let shown = try #require(try agent.status().stalls.last)
    #expect(written["stall", "culprit"] as? String == "true_name")
    #expect(shown.culprit == "true_name")
    #expect(shown.message == written["message"] as? String)
  }

  @Test("lines that are written without names are short enough, and count what was omitted", arguments: [false, true])
  func shortened(hasTree: Bool) throws {
    let agent = try RunningAgent("symbolication: { enabled: false }\n")
    let frame = #"{"module":"/usr/bin/web","build_id":"6a52383ed409c6a700","offset":"0x1000"}"#
    let thread =
      #"{"id":7,"role":"other","state":"futex(wait)","stack":[\#(Array(repeating: frame, count: 9).joined(separator: ","))]}"#
    let shapes = [(0, 300), (40, 20), (300, 0), (30, 300), (1, 0)]
    let client = try AgentClient(agent.socketPath)
    for (index, (threads, frames)) in shapes.enumerated() {
      let others = Array(repeating: thread, count: threads).joined(separator: ",")
      var line = AgentClient.report(id: 1 + index, filler: frames)
      if threads > 0 { line = #"{"threads":[\#(others)],"# + line.dropFirst() }
      if hasTree {
        let tree =
          #""call_tree":{"samples":1,"weight_ms":1,"modules":[\#(Array(repeating: frame, count: 120).joined(separator: ","))],"nodes":{}}"#
        line = index % 2 == 0 ? line.dropLast() + ",\(tree) }" : "{\(tree),\(line.dropFirst())"
      }
      client.send(line)
    }
    #expect(client.isAcknowledged(shapes.count))
    try agent.expectValidLines()
    let lines = try agent.lines()
    #expect(lines.count == shapes.count)
    for (text, (threads, frames)) in zip(lines, shapes) {
      #expect(text.utf8.count < 8000)
      let line = try WrittenReport(text)
      let told = (line.object["stack"] as? [Any])?.count ?? 0
      let others = line.object["threads"] as? [[String: Any]] ?? []
      let ofOthers = others.reduce(0) { $0 + (($1["stack"] as? [Any])?.count ?? 0) }
      #expect(told + ofOthers + (line.object["frames_omitted"] as? Int ?? 0) == frames + 9 * others.count)
      #expect(frames == 0 || told > 0)
      #expect(
        others.count + (line.object["threads_omitted"] as? Int ?? 0) == threads)
    }
  }
}
