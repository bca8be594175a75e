import Foundation
import StallMonitor
import StallReport
import TestSupport
import Testing

@testable import stalld

/// `stalld run` as a process of its own, with its files in a directory of its own.
final class RunningAgent {
  let scratch: ScratchDirectory
  private let configuration: URL
  private(set) var process = Process()
  private let words: URL
  /// Files that have been found to end in half a line.
  private var cut: Set<String> = []

  var socketPath: String { scratch.url.appending(path: "s").path }
  var controlPath: String { scratch.url.appending(path: "c").path }
  var output: URL { scratch.url.appending(path: "logs/stalls.jsonl") }

  /// Starts one; `more` is YAML.
  ///
  /// `wrapper` is a command line before the agent's own.
  init(_ more: String = "", wrapper: [String] = [], configurationName: String = "debug") throws {
    scratch = try ScratchDirectory()
    configuration = scratch.url.appending(path: "stalld.yaml")
    words = scratch.url.appending(path: "words")
    try FileManager.default.createDirectory(
      at: scratch.url.appending(path: "logs"), withIntermediateDirectories: true)
    try configure(more)
    try start(wrapper: wrapper, configurationName: configurationName)
  }

  /// Writes the configuration.
  func configure(_ more: String) throws {
    let base = """
      socket: { path: \(socketPath)\(more.contains("allow:") ? ", " + more.split(separator: "\n")[0] : "") }
      control: { path: \(controlPath) }
      details: { directory: \(scratch.url.path)/details }

      """
    let rest = more.contains("allow:") ? more.split(separator: "\n").dropFirst().joined(separator: "\n") : more
    let outputs = rest.contains("outputs:") ? "" : "outputs: [{ type: file, path: \(output.path) }]\n"
    // On a busy machine names take their time.
    let names = rest.contains("symbolication:") ? "" : "symbolication: { time_limit: 30s }\n"
    try (base + outputs + names + rest + "\n").replacing("PLACE", with: scratch.url.path).write(
      to: configuration, atomically: true, encoding: .utf8)
  }

  /// Starts it again, after its end; returns when its loop runs.
  func start(wrapper: [String] = [], configurationName name: String = "debug") throws {
    process = Process()
    let command = wrapper + [try Program.built("stalld", name).path, "run", "--config", configuration.path]
    process.executableURL = URL(fileURLWithPath: command[0])
    process.arguments = Array(command.dropFirst())
    process.environment = ProcessInfo.processInfo.environment.merging(["STALLMONITOR_THRESHOLD": "10s"]) { $1 }
    if !FileManager.default.fileExists(atPath: words.path) { try Data().write(to: words) }
    let log = try FileHandle(forWritingTo: words)
    log.seekToEndOfFile()
    process.standardError = log
    process.standardOutput = log
    try process.run()
    let deadline = Date(timeIntervalSinceNow: 60)
    // Not by its sockets: it has them before its loop runs, which alone answers.
    while process.isRunning, Date() < deadline {
      if (try? status()) != nil { return }
      usleep(10_000)
    }
    throw DidNotStart(said: said)
  }

  /// The answer to `stalld status`; its loop answers.
  func status() throws -> AgentStatus {
    let client = try ControlClient(path: controlPath, request: #"{"status":{}}"#, within: .seconds(20))
    return try JSONDecoder().decode(AgentStatus.self, from: Data(client.line()))
  }

  /// Returns when its loop has seen what had come before: what was sent to it, and who had left.
  ///
  /// An answer takes two turns; what a client has sent is read in one, and its leaving in the next.
  func catchUp() throws { for _ in 0..<2 { _ = try status() } }

  struct DidNotStart: Error, CustomStringConvertible {
    var said: String
    var description: String { "the agent did not start: \(said)" }
  }

  /// What it has said on standard error.
  var said: String { (try? String(contentsOf: words, encoding: .utf8)) ?? "" }

  /// The lines of its file and of those that were rotated, without newlines, oldest first.
  ///
  /// Without those that ``WrittenReport/lines(in:)`` leaves out. A last line that stays without a newline is an issue.
  func lines() throws -> [String] { try texts().flatMap(WrittenReport.lines(in:)) }

  /// The same, read.
  func reports() throws -> [WrittenReport] { try lines().map { try WrittenReport($0) } }

  private func fileNames() throws -> Set<String> {
    Set(try FileManager.default.contentsOfDirectory(atPath: output.deletingLastPathComponent().path))
  }

  /// What is in its file and in those that were rotated, oldest first.
  func texts() throws -> [String] {
    // A file that was packed meanwhile may have been seen under no name, or have gone before it was read.
    while true {
      let names = try fileNames()
      let texts = try texts(of: names)
      if try fileNames() == names { return texts }
    }
  }

  private func texts(of names: Set<String>) throws -> [String] {
    let rotated = names.filter { $0.hasPrefix("stalls.jsonl.") }.sorted()
    // What is being compressed is there twice.
    let files = rotated.filter { !$0.hasSuffix(".gz") || !rotated.contains(String($0.dropLast(3))) } + ["stalls.jsonl"]
    return try files.map(text(of:))
  }

  /// What is in a file, empty if it is not there.
  ///
  /// Half of a line may be seen of one write(2): that is given some time.
  private func text(of name: String) throws -> String {
    let path = output.deletingLastPathComponent().appending(path: name).path
    let deadline = Date(timeIntervalSinceNow: 10)
    while true {
      let text =
        name.hasSuffix(".gz")
        ? try Program.run("/usr/bin/gzip", ["-dc", path]).output
        : String(decoding: FileManager.default.contents(atPath: path) ?? Data(), as: UTF8.self)
      if text.isEmpty || text.hasSuffix("\n") || cut.contains(name) { return text }
      if Date() >= deadline {
        // Once: a caller that polls calls again.
        cut.insert(name)
        Issue.record("half a line in \(name): \(text.suffix(100))")
        return text
      }
      usleep(10_000)
    }
  }

  /// Each line is valid under the schema.
  func expectValidLines() throws {
    try ReportSchema.expectValid(Data(texts().joined().utf8))
  }

  func signal(_ number: Int32) { kill(process.processIdentifier, number) }

  func killAndWait() {
    signal(SIGKILL)
    process.waitUntilExit()
  }

  /// SIGTERM; the exit code.
  func stop() -> Int32 {
    signal(SIGTERM)
    process.waitUntilExit()
    return process.terminationStatus
  }

  /// Waits until something holds; records an issue if it does not within a generous time.
  func expect(_ what: String, within seconds: Double = 20, _ condition: () throws -> Bool) rethrows {
    guard try eventually(within: seconds, condition) else {
      Issue.record("not seen: \(what). The agent said: \(said.suffix(2000))")
      return
    }
  }

  deinit {
    if process.isRunning { killAndWait() }
  }
}

/// A client of the test's own: it sends any lines on a socket, as an untrusted client can.
final class AgentClient: @unchecked Sendable {
  // @unchecked: a test sends on one thread and reads on another one.
  let descriptor: Int32
  private var received: [UInt8] = []

  init(_ path: String) throws {
    descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    let descriptor = descriptor
    let result = withUnixAddress(path.utf8) { connect(descriptor, $0, $1) }
    guard result == 0 else {
      close(descriptor)
      isOpen = false
      throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO)
    }
  }

  private var isOpen = true

  func end() {
    if isOpen { close(descriptor) }
    isOpen = false
  }

  deinit { end() }

  /// Sends all of it; false if the agent has closed.
  @discardableResult
  func send(_ bytes: some Collection<UInt8>) -> Bool {
    var rest = ArraySlice(Array(bytes))
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
      if count <= 0 { return false }
      rest = rest.dropFirst(count)
    }
    return true
  }

  @discardableResult
  func send(_ line: String) -> Bool { send((line + "\n").utf8) }

  /// The next line of the agent's; nil at the end, or if none comes within the time.
  func next(within milliseconds: Int32 = 20_000) -> String? {
    while true {
      if let newline = received.firstIndex(of: 0x0a) {
        defer { received.removeSubrange(...newline) }
        return String(decoding: received[..<newline], as: UTF8.self)
      }
      var poller = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
      guard poll(&poller, 1, milliseconds) == 1 else { return nil }
      var buffer = [UInt8](repeating: 0, count: 4096)
      let count = recv(descriptor, &buffer, buffer.count, 0)
      guard count > 0 else { return nil }
      received += buffer[..<count]
    }
  }

  /// Reads until that many lines are acknowledged; false if the agent ends first, or does not say so in time.
  func isAcknowledged(_ lines: Int, within milliseconds: Int32 = 20_000) -> Bool {
    while let line = next(within: milliseconds) {
      guard line.hasPrefix("{\"acknowledged\":") else { continue }
      if let number = Int(line.dropFirst(16).dropLast()), number >= lines { return true }
    }
    return false
  }

  /// A report, as a host sends it.
  static func report(
    id: Int, sequence: Int = 1, event: String = "stall.ended", service: String = "web", process: String? = nil,
    filler: Int = 0, after seconds: Double = 3600
  ) -> String {
    // Later than the start of any program that is given it: of a process are only the reports of its own time.
    let time = Timestamp(nanosecondsSince1970: UInt64((Date.now.timeIntervalSince1970 + seconds) * 1e9)).text
    let digits = String(id, radix: 16)
    let stallID = String(repeating: "0", count: 32 - digits.count) + digits
    let frames = (0..<filler).map {
      #"{"module":"/usr/bin/web","build_id":"6a52383ed409c6a700","offset":"0x\#(String(4096 + $0, radix: 16))"}"#
    }
    return
      #"{"@timestamp":"\#(time)","log.level":"warn","message":"main loop has been blocked for 312 ms: blocked in futex","#
      + #""event":{"name":"\#(event)","schema":"1.0"},"stall":{"id":"\#(stallID)","sequence":\#(sequence),"threshold_ms":250,"#
      + #""duration_ms":312.482,"cause":"lock","evidence":{},"samples":1},"loop":{"name":"main","kind":"loop","phase":"after-waiting"},"#
      + #""process":\#(process ?? #"{"pid":1,"executable":{"path":"/usr/bin/web"}}"#),"service":{"name":"\#(service)"},"host":{"name":"node"},"stack":[\#(frames.joined(separator: ","))]}"#
  }
}

extension Program {
  /// `stalld status` of an agent that runs.
  ///
  /// The command waits two seconds for an answer, which a busy machine may take: it is asked again after an exit code of 1.
  static func agentStatus(_ arguments: String..., control path: String) throws -> Program {
    let stalld = try built("stalld", "debug").path
    var answer: Program?
    _ = try eventually {
      let latest = try run(stalld, ["status"] + arguments + ["--control", path])
      answer = latest
      return latest.status != 1
    }
    return try #require(answer)
  }
}
