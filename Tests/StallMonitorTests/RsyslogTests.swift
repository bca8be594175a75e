import Foundation
import TestSupport
import Testing

/// The reports of stalling hosts, read by a real rsyslogd with the configuration that operators install.
@Suite(
  .serialized, .takingTurns, .timeLimit(.minutes(3)),
  .enabled(if: Rsyslogd.path != nil, "rsyslogd is missing (Debian: rsyslog)"))
struct RsyslogTests {
  @Test func everyLineArrivesWholeAndOnceAcrossARotation() throws {
    let rsyslogd = try Rsyslogd()
    defer { rsyslogd.stop() }
    let file = rsyslogd.logs.appending(path: "stalld/stalls.jsonl")
    let sink = ["STALLMONITOR_SINK": "file:\(file.path)"]
    try FileManager.default.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
    var rotated: [URL] = []
    // Lines as long as they get; each host is still in its stall, or just out of it, when its file is renamed.
    for round in 1...2 {
      let before = rsyslogd.output.count
      let victim = try Victim.run("deep", milliseconds: 500, environment: sink) { _ in
        // A file that is renamed before rsyslogd has opened it is lost.
        try waitUntil { rsyslogd.output.count > before }
        let name = URL(fileURLWithPath: file.path + ".\(round)")
        try FileManager.default.moveItem(at: file, to: name)
        rotated.append(name)
      }
      #expect(victim.status == 0)
    }
    #expect(try Victim.run("deep", milliseconds: 500, build: .release, environment: sink).status == 0)

    let sent = try (rotated + [file]).flatMap { Self.lines(try Data(contentsOf: $0)) }
    #expect(sent.count >= 6)
    #expect(sent.contains { $0.count > 7000 }, "long lines were tried")
    try waitUntil { rsyslogd.output.count >= sent.count }
    rsyslogd.stop()
    let arrived = rsyslogd.output
    // The same bytes are the same JSON; that they are JSON at all is what the schema's validator finds.
    #expect(Self.texts(arrived) == Self.texts(sent))
    #expect(Set(arrived).count == arrived.count)
    try ReportSchema.expectValid(Data(arrived.joined(separator: [UInt8(ascii: "\n")])))
  }

  fileprivate static func lines(_ data: Data) -> [Data] {
    data.split(separator: UInt8(ascii: "\n")).map { Data($0) }
  }

  private static func texts(_ lines: [Data]) -> [String] { lines.map { String(decoding: $0, as: UTF8.self) }.sorted() }
}

/// A daemon of the test's own, with `Config/rsyslog/30-stalld.conf` and another place for `/var/log`.
private final class Rsyslogd {
  static let path = Program.installed("rsyslogd")

  /// The directory instead of `/var/log`.
  let logs: URL
  private let scratch: ScratchDirectory
  private let process: Process

  init() throws {
    scratch = try ScratchDirectory()
    let directory = scratch.url
    logs = directory.appending(path: "log")
    let state = directory.appending(path: "state")
    for made in [logs, state] { try FileManager.default.createDirectory(at: made, withIntermediateDirectories: true) }
    let installed = try String(
      contentsOf: Repository.root.appending(path: "Config/rsyslog/30-stalld.conf"), encoding: .utf8)
    let ours = directory.appending(path: "30-stalld.conf")
    try installed.replacing("/var/log/", with: "\(logs.path)/").write(to: ours, atomically: true, encoding: .utf8)
    let main = directory.appending(path: "rsyslog.conf")
    try "global(workDirectory=\"\(state.path)\")\ninclude(file=\"\(ours.path)\" mode=\"required\")\n"
      .write(to: main, atomically: true, encoding: .utf8)

    let path = try #require(Self.path)
    let check = try Program.run(path, ["-N1", "-f", main.path])
    #expect(check.status == 0, "\(check.errors)")
    // A worker thread of libdispatch, as a test runs on, has SIGTERM blocked, and rsyslogd would inherit that.
    var (none, before) = (sigset_t(), sigset_t())
    pthread_sigmask(SIG_SETMASK, &none, &before)
    defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
    process = try Program.start(
      path, ["-n", "-f", main.path, "-i", directory.appending(path: "pid").path], errors: FileHandle.nullDevice)
  }

  deinit { stop() }

  /// The lines that it has passed on.
  var output: [Data] {
    RsyslogTests.lines((try? Data(contentsOf: logs.appending(path: "stall-reports.jsonl"))) ?? Data())
  }

  /// Ends it, after it has passed on what it has read.
  func stop() {
    guard process.isRunning else { return }
    process.terminate()
    process.waitUntilExit()
  }
}
