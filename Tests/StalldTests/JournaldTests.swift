import Foundation
import Glibc
import TestSupport
import Testing

@testable import stalld

/// The longest lines through the journal of a real systemd, with the configuration that operators install.
@Suite(
  .serialized, .takingTurns, .timeLimit(.minutes(3)),
  .enabled(if: Machine.obstacle == nil, Comment(rawValue: "skipped: \(Machine.obstacle ?? "")")))
struct JournaldTests {
  @Test("each line is complete in the journal, and there once")
  func linesAreWhole() throws {
    let lines = try Judge.reports("longest", "300")
    let scratch = try ScratchDirectory()
    func install(_ text: String, at path: String) throws {
      let file = scratch.url.appending(path: path)
      try FileManager.default.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
      try text.write(to: file, atomically: true, encoding: .utf8)
    }
    try install(lines.joined(separator: "\n") + "\n", at: "usr/lib/talker/lines")
    try install(
      String(contentsOf: Repository.file("Config/journald/stalld.conf"), encoding: .utf8),
      at: "etc/systemd/journald.conf.d/stalld.conf")
    try install(
      "[Service]\nType=oneshot\nExecStart=/bin/cat /usr/lib/talker/lines\nLogRateLimitIntervalSec=0\n",
      at: "etc/systemd/system/talker.service")
    let machine = try Machine(files: scratch.url)
    defer { #expect(machine.halt() == 0, "nothing is left behind") }
    #expect(try machine.run("/usr/bin/systemctl", "start", "talker").status == 0)
    try machine.syncJournal()

    let journal = ["--no-pager", "--quiet", "--unit", "talker", "--grep", #""schema":"1\."#, "--output"]
    let arrived = try machine.run(["/usr/bin/journalctl"] + journal + ["cat"]).output
    #expect(arrived.split(separator: "\n").map(String.init) == lines, "byte by byte, in order")

    // What the configuration's head says of JSON.
    let all = try machine.run(["/usr/bin/journalctl"] + journal + ["json", "--all", "--lines", "1"]).output
    #expect(try lines.contains(#require(message(all) as? String, "\(all.prefix(300))")))
    let short = try machine.run(["/usr/bin/journalctl"] + journal + ["json", "--lines", "1"]).output
    #expect(try message(short) is NSNull)
  }

  /// Lines over `/dev/log`, while journald and its sockets go and come back.
  @Test("messages to /dev/log are received, also after a restart of journald")
  func devLog() throws {
    let scratch = try ScratchDirectory()
    let machine = try Machine(files: scratch.url)
    defer { #expect(machine.halt() == 0, "nothing is left behind") }
    let log = AgentSettings.Output.syslog(.init(address: .local(path: machine.outside("/run/systemd/journal/dev-log"))))
    let bench = try OutputBench([log])
    bench.submit(0..<50, size: 7999)
    try bench.waitUntilDone(50)
    try machine.syncJournal()
    #expect(try machine.stopJournal().status == 0)
    bench.submit([50])
    try waitUntil("its end is noticed") { bench.writer.counters().outputs[0].isFailing }
    #expect(try machine.startJournal().status == 0)
    try bench.waitUntilDone(51)
    bench.stop()
    let command = ["/usr/bin/journalctl", "--no-pager", "--quiet", "--identifier", "stalld", "--output"]
    var numbers: [Int] = []
    try waitUntil("all are in the journal") {
      try machine.syncJournal()
      let texts = try machine.run(command + ["cat"]).output.split(separator: "\n")
      numbers = try OutputBench.numbers(Data(texts.map { $0 + "\n" }.joined().utf8))
      return numbers.count >= 51
    }
    #expect(numbers == Array(0...50), "each is a message of its own, and nothing but the report")
    let entry = try machine.run(command + ["json", "--grep", #""number":50,"#]).output
    let fields = try #require(try JSONSerialization.jsonObject(with: Data(entry.utf8)) as? [String: Any], "\(entry)")
    #expect(fields["PRIORITY"] as? String == "4")
    #expect(fields["SYSLOG_PID"] as? String == "\(getpid())")
    // In the time zone of the machine.
    #expect((fields["SYSLOG_TIMESTAMP"] as? String)?.hasPrefix("Nov 2") == true, "\(entry)")
  }

  private func message(_ entry: String) throws -> Any? {
    let object = try JSONSerialization.jsonObject(with: Data(entry.utf8)) as? [String: Any]
    return object?["MESSAGE"]
  }
}
