import Foundation
import TestSupport
import Testing

@testable import stalld

/// The worker for the lines of users whose files take long: what goes to it, who waits for it, and when it ends.
@Suite(
  .serialized, .takingTurns, .timeLimit(.minutes(3)), .enabled(if: geteuid() == 0, "needs root to be several users"))
struct PatientWorkerTests {
  private typealias Frame = NameFixtures.Frame

  /// A file of the attacker's that takes longer than everybody's worker has for it, and not very long.
  private func slowFile(_ fixtures: NameFixtures) throws -> Frame {
    try fixtures.manyFunctions(
      fixtures.directory("own", of: NameFixtures.attacker) + "/slow.so", count: 400_000,
      buildID: String(repeating: "cd", count: 20), owner: NameFixtures.attacker)
  }

  private func isPatient(_ worker: Int32) -> Bool {
    let command = FileManager.default.contents(atPath: "/proc/\(worker)/cmdline") ?? Data()
    return !command.isEmpty && !String(decoding: command, as: UTF8.self).contains("--strangers")
  }

  @Test("it gets all lines of a user with a slow file, a few at a time and in order, and delays no other user")
  func handOver() throws {
    let fixtures = try NameFixtures()
    let agent = try RunningAgent("symbolication: { time_limit: 60s }\n")
    let slow = try slowFile(fixtures)
    let quick = try fixtures.library(
      fixtures.directory("own") + "/quick.so", function: "quick_name", buildID: String(repeating: "ab", count: 20),
      owner: NameFixtures.attacker)
    let service = try fixtures.library(
      fixtures.directory("service") + "/libtrue.so", function: "true_name",
      buildID: String(repeating: "ef", count: 20))
    try NameFixtures.send([NameFixtures.line(1, [slow])], as: NameFixtures.attacker, to: agent)
    let patient = try #require(agent.workers.first(where: isPatient), "the slow file is read by everybody's worker")

    kill(patient, SIGSTOP)
    // More than it is given at a time.
    let waiting = try NameFixtures.sender(
      (101...130).map { NameFixtures.line($0, [quick]) }, as: NameFixtures.attacker, to: agent)
    try agent.expect("they have come") { try agent.status().linesIngested >= 31 }
    for number in 2...11 {
      try NameFixtures.send([NameFixtures.line(number, [service])], as: NameFixtures.victim, to: agent)
      #expect(try agent.line(number)?.contains(#""symbol":"true_name""#) == true)
    }
    #expect(waiting.isRunning, "the user's other lines did not wait for the patient worker")
    #expect(try agent.line(101) == nil)

    kill(patient, SIGCONT)
    waiting.waitUntilExit()
    #expect(waiting.terminationStatus == 0)
    let named = try agent.lines().filter { $0.contains(#""symbol":"quick_name""#) }
    #expect(named.count == 30)
    let order = try named.map { try WrittenReport($0)["stall", "id"] as? String ?? "" }
    #expect(order == order.sorted())
    #expect(agent.workers.count(where: isPatient) == 1)
  }

  private final class Received: @unchecked Sendable {  // `lines` belongs to the loop's thread.
    var lines: [PendingLine] = []
  }

  @Test("the patient worker exits when it is idle, and is started again when it is needed")
  func idle() throws {
    let fixtures = try NameFixtures()
    let driver = try AgentDriver()
    let received = Received()
    let slow = try slowFile(fixtures)
    let executable = try Program.built("stalld", "debug").path
    var settings = AgentSettings.Symbolication()
    settings.timeLimit = .seconds(60)
    let symbolication = settings
    let stage = try driver.perform { driver in
      Unchecked(
        NamingStage(
          loop: driver.loop, settings: symbolication, executable: executable,
          patientIdleTime: .milliseconds(200)
        ) { received.lines += $0 })
    }
    func patientWorker() throws -> Int32? { try driver.perform { _ in stage.value.patientWorkerProcess } }
    func send(_ number: Int) throws {
      let bytes = Array(NameFixtures.line(number, [slow]).utf8) + [0x0a]
      try driver.perform { _ in
        let report = ReportLine(
          bytes: bytes, event: "stall.ended", isError: false, service: "web", cause: "lock",
          durationMilliseconds: 312, stallID: "a", processID: getpid(), userID: NameFixtures.attacker,
          lane: "\(NameFixtures.attacker) ", lacksNames: true)
        stage.value.submit([
          PendingLine(connection: 1, number: UInt64(number), process: getpid(), line: report, bytes: bytes.count)
        ])
      }
      try waitUntil { try driver.perform { _ in received.lines.count == number } }
    }
    for number in 1...2 {
      try send(number)
      #expect(try driver.perform { _ in stage.value.patientCounters.hits } == UInt64(number), "another one named it")
      // It may have ended already, where this thread had to wait.
      try waitUntil { try patientWorker() == nil }
      let text = try driver.perform { _ in String(decoding: received.lines[number - 1].line?.bytes ?? [], as: UTF8.self)
      }
      #expect(text.contains(#""symbol":"f1""#), "it was not named: \(text)")
    }
    // Everybody's worker may have been ended for the slow file. Where it is, it stays.
    let everybodys = try #require(
      try driver.perform { _ in
        stage.value.prepare()
        return stage.value.workerProcess
      })
    usleep(400_000)
    #expect(try driver.perform { _ in stage.value.workerProcess } == everybodys, "it ends as well")
    // No child is left but everybody's worker.
    try waitUntil {
      let children = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task"))?.flatMap { thread in
        ((try? String(contentsOfFile: "/proc/self/task/\(thread)/children", encoding: .utf8)) ?? "").split(
          separator: " ")
      }
      return (children ?? []).compactMap { Int32($0) }.allSatisfy { child in
        let command = FileManager.default.contents(atPath: "/proc/\(child)/cmdline") ?? Data()
        return child == everybodys || !String(decoding: command, as: UTF8.self).contains("name-worker")
      }
    }
    try driver.perform { _ in stage.value.stop() }
    // The loop waits for its child; one that nobody waits for keeps a thread of the test library busy.
    try waitUntil { kill(everybodys, 0) != 0 }
  }
}
