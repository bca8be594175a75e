import Foundation
import Glibc
import TakingTurns
import Testing

@testable import stalld

/// The longest lines through the journal of a real systemd, with the configuration that operators install.
@Suite(
  .serialized, .takingTurns, .timeLimit(.minutes(3)),
  .enabled(if: Machine.obstacle == nil, Comment(rawValue: "skipped: \(Machine.obstacle ?? "")")))
struct JournaldTests {
  @Test("lines are whole in the journal, and each is there once")
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
      String(contentsOf: Program.root.appending(path: "Config/journald/stalld.conf"), encoding: .utf8),
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

  /// Lines over `/dev/log` and over a stream of standard output, while journald and its sockets go and come back.
  @Test("outputs to the journal recover, and what they send is read")
  func outputsRecover() throws {
    let scratch = try ScratchDirectory()
    // Sixteen thousand lines are allowed at a time.
    try FileManager.default.createDirectory(
      at: scratch.url.appending(path: "etc/systemd/journald.conf.d"), withIntermediateDirectories: true)
    try "[Journal]\nRateLimitIntervalSec=0\n".write(
      to: scratch.url.appending(path: "etc/systemd/journald.conf.d/rate.conf"), atomically: true, encoding: .utf8)
    let machine = try Machine(files: scratch.url)
    defer { #expect(machine.halt() == 0, "nothing is left behind") }
    let units = "systemd-journald.socket systemd-journald-dev-log.socket systemd-journald-audit.socket"

    let log = AgentSettings.Output.syslog(.init(address: .local(path: machine.outside("/run/systemd/journal/dev-log"))))
    let bench = try OutputBench([log])
    bench.submit(0..<50, size: 7999)
    try bench.waitUntilDone(50)

    let stream = JournalStream.connect(at: machine.outside(JournalStream.path))
    try #require(stream >= 0)
    defer { close(stream) }
    var status = stat()
    fstat(stream, &status)
    let journal = DescriptorDestination(
      stream, name: "stdout", journalStream: "\(status.st_dev):\(status.st_ino)",
      journalSocket: machine.outside(JournalStream.path))
    try journal.open()
    /// False if it failed.
    func send(_ number: Int) throws -> Bool {
      while true {
        switch journal.send(OutputBench.line(number, isError: true)) {
        case .sent: return true
        case .waits: usleep(1000)
        default: return false
        }
      }
    }
    #expect(try send(100))
    try machine.syncJournal()

    #expect(try machine.shell("systemctl stop \(units) systemd-journald.service").status == 0)
    try waitUntil("its end is noticed") { try !send(101) }
    bench.submit([50])
    try waitUntil { bench.writer.counters().outputs[0].isFailing }
    #expect(try machine.shell("systemctl start \(units) systemd-journald.service").status == 0)
    try waitUntil("it is connected again") { try send(102) }
    try bench.waitUntilDone(51)
    journal.close()
    try machine.syncJournal()
    let command = ["/usr/bin/journalctl", "--no-pager", "--quiet", "--identifier", "stalld", "--output"]
    var texts: [String] = []
    try waitUntil {
      texts = try machine.run(command + ["cat"]).output.split(separator: "\n").map(String.init)
      return texts.contains { $0.contains(#""number":50,"#) } && texts.contains { $0.contains(#""number":102,"#) }
    }
    let numbers = try OutputBench.numbers(Data(texts.map { $0 + "\n" }.joined().utf8))
    #expect(Set(numbers).isSuperset(of: Array(0...50) + [100, 102]))
    let entry = try machine.run(command + ["json", "--grep", #""number":102,"#]).output
    let fields = try #require(try JSONSerialization.jsonObject(with: Data(entry.utf8)) as? [String: Any], "\(entry)")
    #expect(fields["PRIORITY"] as? String == "3")
    #expect(fields["_TRANSPORT"] as? String == "stdout")
    bench.stop()
  }

  private func message(_ entry: String) throws -> Any? {
    let object = try JSONSerialization.jsonObject(with: Data(entry.utf8)) as? [String: Any]
    return object?["MESSAGE"]
  }
}
