import Foundation
import TestSupport
import Testing

@testable import stalld

/// No input of an untrusted client ends the agent or breaks its promises about the file.
@Suite(.serialized, .takingTurns, .timeLimit(.minutes(2)))
struct AgentContainmentTests {
  /// A process of its own that sends lines, waits until they are acknowledged, and ends.
  private func host(_ agent: RunningAgent, _ lines: [String], times: Int = 1) throws {
    let program = """
      import os, socket, sys
      for number in range(int(sys.argv[3])):
        child = os.fork()
        if not child:
          s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
          s.sendall(sys.argv[2].replace("NUMBER", "%08x" % (number + 1)).encode())
          s.recv(4096)
          os._exit(1)
        os.waitpid(child, 0)
      """
    let text = lines.map { $0 + "\n" }.joined()
    let result = try Program.run("/usr/bin/python3", ["-c", program, agent.socketPath, text, String(times)])
    #expect(result.status == 0, "\(result.errors)")
  }

  @Test("impossible numbers are refused")
  func numbers() throws {
    let agent = try RunningAgent()
    let started = AgentClient.report(id: 1, event: "stall.started")
    for number in ["18446744073709551615", "9223372036854775807", "0"] {
      try host(agent, [started.replacing(#""sequence":1"#, with: #""sequence":\#(number)"#)])
    }
    #expect(try agent.lines().isEmpty)
    let client = try AgentClient(agent.socketPath)
    client.send(AgentClient.report(id: 2).replacing("312.482", with: "1e999"))
    #expect(client.next()?.contains("duration_ms") == true)
    for (id, number) in [(3, "9223372036854775807"), (4, "-9223372036854775808"), (5, "1e99")] {
      client.send(#"{"frames_omitted":\#(number),"# + AgentClient.report(id: id, filler: 200).dropFirst())
    }
    client.send(
      AgentClient.report(id: 6).replacing(#"1.0"},"stall"#, with: #"1.0","dropped":9223372036854775807},"stall"#))
    client.send(AgentClient.report(id: 7, filler: 200))
    #expect(client.isAcknowledged(6))
    #expect(try agent.lines().count == 1)
    try agent.expectValidLines()
    let status = try Program.agentStatus("--json", control: agent.controlPath)
    #expect(status.status == 0, "\(status.errors)")
  }

  @Test(
    "an invalid time, or an impossible year, is refused",
    arguments: [
      "yesterday", "1999-12-31T23:59:59Z", "2100-01-01T00:00:00Z", "9999-01-01T00:00:00Z", "0000-01-01T00:00:00Z",
    ])
  func times(text: String) throws {
    let agent = try RunningAgent()
    let client = try AgentClient(agent.socketPath)
    let line = AgentClient.report(id: 1)
    let time = try #require(line.firstMatch(of: /"@timestamp":"([^"]*)"/)).1
    client.send(line.replacing(time, with: text))
    #expect(client.next()?.contains("@timestamp") == true)
    #expect(client.isAcknowledged(1))
    client.send(#"{"hello":{"protocol":1,"service":{"name":"web"},"spooled":-3}}"#)
    #expect(client.next()?.contains("hello.spooled is not a count") == true)
    client.send(line)
    #expect(client.isAcknowledged(3))
    #expect(try agent.lines().count == 1)
  }

  @Test("each line of the file has at most 8000 bytes and all required fields; other lines are refused with a reason")
  func whole() throws {
    let agent = try RunningAgent()
    let client = try AgentClient(agent.socketPath)
    let good = AgentClient.report(id: 1)
    let bad = [
      good.replacing("blocked in futex", with: String(repeating: "f", count: 8000)),
      good.replacing(#""host":{"name":"node"},"#, with: ""), good.replacing(#""samples":1"#, with: #""samples":"1""#),
      good.replacing(#""process":{"pid":1,"executable":{"path":"/usr/bin/web"}},"#, with: ""),
      good.replacing(#""stack":[]"#, with: #""stack":{}"#),
      good.replacing(#""stack":[]"#, with: #""stack":[1,"2",null]"#),
      good.replacing(#""stack":[]"#, with: #""threads":[7],"stack":[]"#),
      good.replacing(#""schema":"1.0""#, with: #""schema":"2.0""#),
    ]
    for line in bad {
      client.send(line)
      #expect(client.next()?.contains("\"error\"") == true, "\(line.prefix(300))")
      #expect(client.isAcknowledged(1))
    }
    #expect(try agent.lines().isEmpty)
    // Other threads: all, of a host with many, each with frames.
    let frame = #"{"module":"/usr/bin/web","build_id":"6a52383ed409c6a700","offset":"0x1000"}"#
    func threads(_ count: Int, frames: Int) -> String {
      let stack = Array(repeating: frame, count: frames).joined(separator: ",")
      return (1...count).map { #"{"id":\#($0),"role":"other","state":"futex(wait)","stack":[\#(stack)]}"# }
        .joined(separator: ",")
    }
    let many = [(1, 300), (40, 3), (300, 0), (300, 2), (3, 100)]
    for (index, (count, frames)) in many.enumerated() {
      let line = AgentClient.report(id: 10 + index, filler: 20)
      client.send(#"{"threads":[\#(threads(count, frames: frames))],"# + line.dropFirst())
    }
    #expect(client.isAcknowledged(bad.count + many.count))
    #expect(try agent.lines().count == many.count)
    try agent.expectValidLines()
    for line in try agent.lines() {
      let object = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
      #expect((object["stack"] as? [Any])?.isEmpty == false)
      #expect(object["threads_omitted"] is Int || object["frames_omitted"] is Int)
      let told = (object["threads"] as? [Any])?.count ?? 0
      #expect(told > 0)
      #expect([1, 3, 40, 300].contains(told + (object["threads_omitted"] as? Int ?? 0)))
    }
  }

  @Test("a client that is disconnected for bad lines knows which lines were acknowledged")
  func refusedForGood() throws {
    let agent = try RunningAgent()
    var rest = 150
    for _ in 0..<3 where rest > 0 {
      let client = try AgentClient(agent.socketPath)
      client.send(Array((0..<rest).map { #"{"x":\#($0)}"# + "\n" }.joined().utf8))
      var acknowledged = 0
      while acknowledged < rest, let line = client.next() {
        if line.hasPrefix("{\"acknowledged\":") { acknowledged = Int(line.dropFirst(16).dropLast()) ?? 0 }
      }
      rest -= acknowledged
    }
    #expect(rest == 0)
  }

  @Test("processes that end during a stall leak no descriptor, and clients with bad lines cause few messages")
  func leavesNothing() throws {
    let agent = try RunningAgent()
    func descriptors() throws -> Int {
      try FileManager.default.contentsOfDirectory(atPath: "/proc/\(agent.process.processIdentifier)/fd").count
    }
    let line = AgentClient.report(id: 1, event: "stall.started").replacing("00000001\"", with: "NUMBER\"")
    try host(agent, [line], times: 20)
    try agent.expect("twenty ends") { try agent.lines().count { $0.contains("stall.fatal") } == 20 }
    let before = try descriptors()
    try host(
      agent, [line.replacing(String(repeating: "0", count: 24), with: String(repeating: "1", count: 24))], times: 100)
    try agent.expect("a hundred more") { try agent.lines().count { $0.contains("stall.fatal") } == 120 }
    try agent.expect("descriptors are closed") { try descriptors() <= before + 10 }
    try host(agent, ["nonsense"], times: 300)
    #expect(agent.said.split(separator: "\n").count < 150)
    #expect(agent.said.contains("too many messages about clients"))
  }

  @Test("lines that are read back after a restart have the agent's stamp")
  func identityOfStampedLines() throws {
    let line = Array(AgentClient.report(id: 7, sequence: 3).utf8)
    let peer = Peer(pid: 42, uid: 7, gid: 8, cgroup: "/system.slice/web.service")
    let stamped = try line.withUnsafeBufferPointer { Stamp(peer).apply(to: $0, try LineScanner.scan($0)) }
    #expect(String(decoding: stamped, as: UTF8.self).contains("web.service"))
    let id = String(repeating: "0", count: 31) + "7"
    #expect(
      WrittenReports.identities(in: stamped)
        == [ReportIdentity(id: id.utf8, event: "stall.ended", sequence: 3, user: 7)])
  }

  @Test(
    "the unit comes from the system's manager, and not from the name of a group below it",
    arguments: [
      ("/system.slice/web.service", "web.service"),
      ("/system.slice/system-a.slice/a@1.service/sub/x.service", "a@1.service"),
      ("/user.slice/user-1000.slice/user@1000.service/app.slice/sshd.service", "user@1000.service"),
      ("/machine.slice/box.scope/payload/system.slice/sshd.service", "box.scope"), ("/init.scope", "init.scope"),
      ("/", nil), ("/docker/sshd.service", nil), ("/user.slice", nil),
    ])
  func unit(cgroup: String, unit: String?) {
    #expect(Peer(pid: 1, uid: 0, gid: 0, cgroup: cgroup).unit == unit)
  }
}
