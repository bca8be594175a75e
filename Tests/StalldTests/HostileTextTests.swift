import Foundation
import StallReport
import TestSupport
import Testing

@testable import stalld

/// Text of other users in all that the command prints for people.
@Suite(.serialized, .takingTurns, .timeLimit(.minutes(3))) struct HostileTextTests {
  static let hostile = "a\u{1b}]0;b\u{7}\u{9b}31m\u{202e}\u{7f}\u{2028}"

  /// Checks what was printed, a line or more.
  static func expectHarmless(_ text: String, _ comment: Comment) {
    #expect(text.contains(#"a\u{1b}]0;b\u{7}\u{9b}31m\u{202e}\u{7f}\u{2028}"#), comment)
    expectPrintable(text, comment)
  }

  static func expectPrintable(_ text: String, _ comment: Comment) {
    #expect(text.unicodeScalars.allSatisfy { $0 == "\n" || $0 == "\r" || $0.isPrintable }, comment)
  }

  @Test func textsOfTheAgentAndItsClients() throws {
    let hostile = Self.hostile
    for location in [SettingsError.Location.file(hostile, line: 1), .variable(hostile), .flag("--output")] {
      let error = SettingsError(location: location, key: hostile, value: hostile, reason: "allowed: a path")
      Self.expectHarmless(error.description, "\(location)")
    }
    let peer = Peer(pid: 1, uid: 2, gid: 2, cgroup: "/system.slice/\(hostile).service")
    Self.expectHarmless(peer.description, "the unit of a client")

    var status = AgentStatus(version: hostile, pid: 1, uptimeSeconds: 1)
    status.problems = [hostile]
    status.configuration = .init(file: hostile, error: hostile)
    status.outputs = [.init(type: "file", target: hostile, state: hostile)]
    status.clients = [.init(service: hostile, unit: hostile, pid: 1, uid: 1, connected: hostile)]
    status.stalls = [
      .init(
        time: hostile, id: "1", service: hostile, event: hostile, durationMilliseconds: 1, cause: hostile,
        culprit: hostile, message: "")
    ]
    Self.expectHarmless(StatusTable(status: status).text, "stalld status")

    let report = SampleReport(service: hostile, culprit: hostile).text
    let entry = try #require(TailEntry(try JSONText(Array(report.utf8))))
    let printer = TailPrinter(usesColor: false, showsStack: true, showsAll: true)
    Self.expectHarmless(printer.text(of: entry), "stalld tail")
  }

  /// Also of a line that has each member.
  @Test func eachTextOfALine() throws {
    func hostile(_ value: Any, at key: String) -> Any {
      switch value {
      case let object as [String: Any]:
        Dictionary(uniqueKeysWithValues: object.map { ($0, hostile($1, at: key.isEmpty ? $0 : "\(key).\($0)")) })
      case let array as [Any]: array.map { hostile($0, at: key) }
      case is String where key != "@timestamp" && key != "event.name": Self.hostile
      default: value
      }
    }
    for line in try Judge.reports("every-key") {
      let object = try JSONSerialization.jsonObject(with: Data(line.utf8))
      let text = try JSONSerialization.data(withJSONObject: hostile(object, at: ""))
      let entry = try #require(TailEntry(try JSONText(Array(text))))
      for showsAll in [false, true] {
        let printer = TailPrinter(usesColor: false, showsStack: true, showsAll: showsAll)
        Self.expectHarmless(printer.text(of: entry), "stalld tail")
      }
    }
  }

  /// Each subcommand's messages, about a file and about what a line says.
  @Test func messagesOfTheCommands() throws {
    let stalld = try Program.built("stalld", "debug").path
    let missing = "/nonexistent/\(Self.hostile)"
    for arguments in [
      ["report", missing], ["report", "--format", "otlp", missing], ["tail", missing], ["symbolicate", missing],
      ["check", "--config", missing], ["reload", "--config", missing], ["status", "--control", missing],
      ["tail", "--control", missing], [Self.hostile],
    ] {
      let run = try Program.run(stalld, arguments, limit: 30)
      #expect(run.status != 0)
      Self.expectHarmless(run.errors, "\(arguments)")
    }
    let scratch = try ScratchDirectory()
    let file = scratch.url.appending(path: "lines").path
    let build = String(repeating: "ab", count: 20)
    let line = SampleReport().text.replacing(
      #"{"module":"/usr/bin/web","build_id":"93ac","offset":"0x8c481"}"#,
      with: #"{"module":"/usr/bin/\#(Self.hostile)","build_id":"\#(build)","offset":"0x8c481"}"#
        .replacing("\u{1b}", with: #"\u001b"#).replacing("\u{7}", with: #"\u0007"#))
    try Data((line + "\n").utf8).write(to: URL(filePath: file))
    let run = try Program.run(stalld, ["symbolicate", file])
    #expect(run.errors.contains("no file for build \(build)"))
    Self.expectHarmless(run.errors, "a module's path")
  }

  /// JSON is printed as it is, but to a terminal.
  @Test func jsonOnATerminal() throws {
    var status = ControlServerTests.status
    status.problems = [Self.hostile]
    let agent = try ControlServerTests.Agent(status)
    let hostile = SampleReport(service: Self.hostile)
    let scratch = try ScratchDirectory()
    let file = scratch.url.appending(path: "lines").path
    try Data((hostile.text + "\n").utf8).write(to: URL(filePath: file))
    let stalld = try Program.built("stalld", "debug").path
    for command in ["status --json --control '\(agent.path)'", "tail --json - <'\(file)'"] {
      // A terminal of script(1)'s.
      let shown = try Program.run("/usr/bin/script", ["-qec", "'\(stalld)' \(command)", "/dev/null"], limit: 60)
      #expect(shown.output.contains(#"\u001b"#), "\(shown.output)")
      Self.expectPrintable(shown.output, "\(command)")
    }
    let plain = try Program.run("/bin/sh", ["-c", "'\(stalld)' tail --json - <'\(file)'"])
    #expect(plain.output == hostile.text + "\n")
  }
}
