import DescriptorIO
import Foundation
import Glibc
import TestSupport
import Testing

@testable import stalld

/// Reports that a real rsyslogd takes.
@Suite(
  .serialized, .takingTurns, .timeLimit(.minutes(3)),
  .enabled(if: Program.installed("rsyslogd") != nil, "rsyslogd is missing (Debian: rsyslog)"))
struct OutputSyslogTests {
  @Test(arguments: ["local", "tcp"])
  func linesArriveWholeAlsoAfterARestart(transport: String) throws {
    let daemon = try SyslogDaemon()
    try daemon.start()
    defer { daemon.stop() }
    let address = SyslogAddress(transport == "tcp" ? "tcp:127.0.0.1:\(daemon.port)" : daemon.socket)!
    let bench = try OutputBench([.syslog(.init(address: address, facility: .local3))])
    bench.submit(0..<200, size: 300)
    bench.submit(200..<240, size: 7999)
    bench.writer.submit([OutputBench.line(240, size: 8000, isError: true)])
    try bench.waitUntilDone(241)
    try waitUntil { daemon.received.count >= 241 }
    let received = daemon.received
    let parsed = try received.map { try #require(SyslogDaemon.Received($0)) }
    #expect(try OutputBench.numbers(Data(parsed.map { $0.message + "\n" }.joined().utf8)) == Array(0...240))
    // syslog(3) has no event.
    let event = transport == "tcp" ? "stall.ended" : "-"
    #expect(parsed[0].fields == ["local3", "warning", "stalld", "\(getpid())", event, "-"])
    #expect(parsed[240].fields[1] == "err")
    #expect(parsed[240].message.utf8.count == 7999)

    daemon.stop()
    bench.submit(241..<250)
    try waitUntil { bench.writer.counters().outputs[0].isFailing }
    try daemon.start()
    try bench.waitUntilDone(250)
    try waitUntil { daemon.received.count >= 250 }
    // Once for each time that nobody listened; a slow start of the daemon's may be one.
    #expect(!bench.errors.isEmpty && bench.errors.allSatisfy { $0.contains("Connection refused") }, "\(bench.said)")
    bench.stop()
    daemon.stop()
    let all = try daemon.received.map { try #require(SyslogDaemon.Received($0)).message + "\n" }
    #expect(try OutputBench.numbers(Data(all.joined().utf8)) == Array(0..<250))
  }

  /// A `/dev/log` of streams, as syslog-ng may have it.
  @Test func streamSocketGetsALineAMessage() throws {
    let scratch = try ScratchDirectory()
    let path = scratch.url.appending(path: "log").path
    let address = try #require(SocketAddress(path: path))
    let listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    defer { close(listener) }
    try #require(address.bind(listener) == 0 && listen(listener, 1) == 0)
    let bench = try OutputBench([.syslog(.init(address: .local(path: path)))])
    bench.submit(0..<500, size: 2000)
    let client = accept(listener, nil, nil)
    defer { close(client) }
    var received = Data()
    var buffer = [UInt8](repeating: 0, count: 65536)
    while received.count(where: { $0 == UInt8(ascii: "\n") }) < 500 {
      let count = read(client, &buffer, buffer.count)
      try #require(count > 0)
      received += buffer[..<count]
    }
    let messages = received.split(separator: UInt8(ascii: "\n"))
    // In the time zone of the machine.
    let head = #/<28>Nov (20|21) \d\d:\d\d:01 stalld\[\d+\]: {/#
    #expect(messages.allSatisfy { String(decoding: $0, as: UTF8.self).prefixMatch(of: head) != nil })
    let reports = messages.flatMap { $0[$0.firstIndex(of: UInt8(ascii: "{"))!...] + [UInt8(ascii: "\n")] }
    #expect(try OutputBench.numbers(Data(reports)) == Array(0..<500))
    bench.stop()
  }

  @Test(arguments: [
    ("/dev/log", "/dev/log"), ("tcp:127.0.0.1:514", "tcp:127.0.0.1:514"), ("tcp:[::1]:601", "tcp:[::1]:601"),
    ("tcp:localhost:1", "tcp:localhost:1"), ("tcp:logs.example.com:514", nil), ("tcp:127.0.0.1:0", nil),
    ("tcp:127.0.0.1", nil), ("tcp:", nil), ("tcp::514", nil), ("log", nil), ("", nil),
    ("/" + String(repeating: "x", count: 200), nil),
  ])
  func addresses(text: String, meant: String?) { #expect(SyslogAddress(text)?.description == meant) }
}

/// An rsyslogd of the test's own, with a datagram socket and a TCP port.
private final class SyslogDaemon {
  let socket: String
  private let reserved: ReservedPort
  private let scratch: ScratchDirectory
  private var process: Process?

  struct Received {
    var fields: [String]
    var message: String

    init?(_ line: String) {
      let parts = line.split(separator: " ", maxSplits: 6, omittingEmptySubsequences: false).map(String.init)
      guard parts.count == 7 else { return nil }
      fields = Array(parts[..<6])
      // Of the format of syslog(3), the blank before the text belongs to it.
      message = parts[6].trimmingCharacters(in: .whitespaces)
    }
  }

  init() throws {
    scratch = try ScratchDirectory()
    socket = scratch.url.appending(path: "log").path
    reserved = try ReservedPort()
    try """
    global(workDirectory="\(scratch.url.path)")
    module(load="imuxsock" SysSock.Use="off")
    module(load="imtcp")
    input(type="imuxsock" Socket="\(socket)" RateLimit.Interval="0")
    input(type="imtcp" address="127.0.0.1" port="\(reserved.number)")
    template(name="parsed" type="string" string="%syslogfacility-text% %syslogseverity-text% %app-name% %procid% %msgid% \
    %structured-data% %msg%\\n")
    action(type="omfile" file="\(scratch.url.path)/received" template="parsed")
    """.write(to: scratch.url.appending(path: "conf"), atomically: true, encoding: .utf8)
  }

  deinit { stop() }

  var port: UInt16 { reserved.number }

  /// The lines that it has written in full.
  var received: [String] {
    let data = (try? Data(contentsOf: scratch.url.appending(path: "received"))) ?? Data()
    return data.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).dropLast()
      .map { String(decoding: $0, as: UTF8.self) }
  }

  func start() throws {
    let path = scratch.url.path
    // A worker thread of libdispatch, as a test runs on, has SIGTERM blocked, and rsyslogd would inherit that.
    var (none, before) = (sigset_t(), sigset_t())
    pthread_sigmask(SIG_SETMASK, &none, &before)
    defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
    process = try Program.start(
      Program.installed("rsyslogd")!, ["-n", "-f", "\(path)/conf", "-i", "\(path)/pid"], errors: FileHandle.nullDevice)
    try waitUntil { access(socket, F_OK) == 0 }
  }

  /// Ends it, after it has passed on what it has read.
  func stop() {
    guard let process, process.isRunning else { return }
    process.terminate()
    process.waitUntilExit()
  }
}
