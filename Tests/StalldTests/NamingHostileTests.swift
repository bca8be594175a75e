import Foundation
import TestSupport
import Testing

@testable import stalld

/// Files and paths that a user lays out so that others' reports get wrong names, or none.
@Suite(
  .serialized, .takingTurns, .timeLimit(.minutes(5)), .enabled(if: getuid() == 0, "needs root for clients of two users")
)
struct NamingHostileTests {
  private static let buildID = "aabbccddeeff00112233445566778899aabbccdd"
  private typealias Frame = NameFixtures.Frame

  /// The root-owned library whose names are at stake.
  private func service(_ fixtures: NameFixtures, strip: Bool = false, link: String? = nil) throws -> Frame {
    let directory = try fixtures.directory("service")
    return try fixtures.library(
      "\(directory)/libservice.so", function: "true_name", buildID: Self.buildID, link: link, strip: strip)
  }

  /// A second one, which shows that names can be found.
  private func control(_ fixtures: NameFixtures) throws -> Frame {
    let directory = try fixtures.directory("service")
    return try fixtures.library(
      "\(directory)/libcontrol.so", function: "control_name", buildID: String(Self.buildID.reversed()))
  }

  private func expectNoForgery(_ agent: RunningAgent, _ id: Int, _ name: String) throws {
    let line = try #require(try agent.line(id))
    #expect(line.contains("\"symbol\":\"\(name)\""), "\(line)")
    #expect(!line.contains("forged"), "\(line)")
  }

  @Test("a symbolic link to a root-owned library does not lead the search for debug files to a client's directory")
  func debugFileBesideALink() throws {
    let fixtures = try NameFixtures()
    let agent = try RunningAgent()
    let service = try service(fixtures, strip: true, link: "/dev/null")
    let own = try fixtures.directory("own", of: NameFixtures.attacker)
    // What .gnu_debuglink names: the file of that name beside the module.
    let forged = try fixtures.library(
      "\(own)/null", function: "forged", buildID: Self.buildID, owner: NameFixtures.attacker)
    try FileManager.default.createSymbolicLink(atPath: "\(own)/libservice.so", withDestinationPath: service.path)
    lchown("\(own)/libservice.so", NameFixtures.attacker, NameFixtures.attacker)
    var frame = forged
    frame.path = "\(own)/libservice.so"
    try NameFixtures.send([NameFixtures.line(1, [frame])], as: NameFixtures.attacker, to: agent)
    var honest = service
    honest.offset = forged.offset
    try NameFixtures.send([NameFixtures.line(2, [honest, control(fixtures)])], as: NameFixtures.victim, to: agent)
    try expectNoForgery(agent, 2, "control_name")
  }

  @Test("a symbolic link that changes its target later is checked before it is followed")
  func linkThatIsTurned() throws {
    let fixtures = try NameFixtures()
    let agent = try RunningAgent()
    let service = try service(fixtures)
    let own = try fixtures.directory("own", of: NameFixtures.attacker)
    _ = try fixtures.library("\(own)/mine.so", function: "forged", buildID: Self.buildID, owner: NameFixtures.attacker)
    var frame = service
    frame.path = "\(own)/link.so"
    for target in [service.path, "\(own)/mine.so"] {
      try? FileManager.default.removeItem(atPath: frame.path)
      try FileManager.default.createSymbolicLink(atPath: frame.path, withDestinationPath: target)
      let line = NameFixtures.line(target == service.path ? 1 : 2, [frame])
      try NameFixtures.send([line], as: NameFixtures.attacker, to: agent)
    }
    // Another function's place: what is known of the first one does not help.
    var other = service
    other.offset += 1
    try NameFixtures.send([NameFixtures.line(3, [other])], as: NameFixtures.victim, to: agent)
    try expectNoForgery(agent, 3, "true_name")
  }

  @Test("a user's file that claims another user's build ID is used only for that user's processes")
  func claimedBuild() throws {
    let fixtures = try NameFixtures()
    let agent = try RunningAgent()
    let service = try service(fixtures)
    let own = try fixtures.directory("own", of: NameFixtures.attacker)
    let forged = try fixtures.library(
      "\(own)/mine.so", function: "forged", buildID: Self.buildID, owner: NameFixtures.attacker)
    try NameFixtures.send([NameFixtures.line(1, [forged])], as: NameFixtures.attacker, to: agent)
    #expect(try agent.line(1)?.contains("\"symbol\":\"forged\"") == true, "its own file names its own functions")
    try NameFixtures.send([NameFixtures.line(2, [service])], as: NameFixtures.victim, to: agent)
    try expectNoForgery(agent, 2, "true_name")
    // Neither does one that others may write to, wherever it lies.
    var open = service
    open.path = try fixtures.directory("service") + "/open.so"
    _ = try fixtures.library(open.path, function: "forged", buildID: String(repeating: "ab", count: 20))
    chmod(open.path, 0o666)
    open.buildID = String(repeating: "ab", count: 20)
    try NameFixtures.send([NameFixtures.line(3, [open, service])], as: NameFixtures.victim, to: agent)
    try expectNoForgery(agent, 3, "true_name")
  }

  @Test("a FIFO or a directory instead of a library delays nobody")
  func notAFile() throws {
    let fixtures = try NameFixtures()
    let agent = try RunningAgent()
    let own = try fixtures.directory("own", of: NameFixtures.attacker)
    mkfifo("\(own)/fifo.so", 0o666)
    _ = try fixtures.directory("own/directory.so", of: NameFixtures.attacker)
    let frames = ["fifo.so", "directory.so", "none.so"].map {
      Frame(path: "\(own)/\($0)", buildID: Self.buildID, offset: 4096)
    }
    try NameFixtures.send([NameFixtures.line(1, frames)], as: NameFixtures.attacker, to: agent)
    try NameFixtures.send([NameFixtures.line(2, [service(fixtures)])], as: NameFixtures.victim, to: agent)
    try expectNoForgery(agent, 2, "true_name")
    #expect(!agent.said.contains("restarting the process"))
  }

  enum Heavy: CaseIterable { case bomb, symbols }

  @Test("expensive files delay only the names of their own user", arguments: Heavy.allCases)
  func heavyFile(kind: Heavy) throws {
    let fixtures = try NameFixtures()
    let agent = try RunningAgent("symbolication: { time_limit: 10s }\n")
    let service = try service(fixtures)
    let own = try fixtures.directory("own", of: NameFixtures.attacker)
    let id = String(repeating: "cd", count: 20)
    let heavy =
      switch kind {
      case .bomb: try fixtures.bomb("\(own)/heavy.so", buildID: id, owner: NameFixtures.attacker)
      case .symbols: try fixtures.manySymbols("\(own)/heavy.so", buildID: id, owner: NameFixtures.attacker)
      }
    let attack = try NameFixtures.sender(
      (0..<40).map { number in
        NameFixtures.line(
          1000 + number,
          (0..<4).map { Frame(path: heavy.path, buildID: id, offset: heavy.offset + UInt64(16 * (4 * number + $0))) })
      }, as: NameFixtures.attacker, to: agent)
    defer {
      attack.terminate()
      attack.waitUntilExit()
    }
    try agent.expect("the attack has begun") { try agent.status().linesIngested > 0 }
    for number in 1...10 {
      try NameFixtures.send([NameFixtures.line(number, [service])], as: NameFixtures.victim, to: agent)
      try expectNoForgery(agent, number, "true_name")
    }
    let worker = try #require(agent.worker)
    let status = try String(contentsOfFile: "/proc/\(worker)/status", encoding: .utf8)
    let memory = status.firstMatch(of: /VmHWM:\s+(\d+)/).flatMap { Int($0.1) } ?? .max
    #expect(memory < 600 << 10, "\(memory) KiB, of 64 MiB that the settings allow")
  }
}
