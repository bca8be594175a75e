import DescriptorIO
import Glibc
import LoopEngine
import StallMonitor
import StallReport

/// One run of `stalld tail`: inputs, filter, output, and what is to be said at the end.
final class TailSession: @unchecked Sendable {
  // @unchecked: everything is touched by the loop's thread alone.

  let loop: Loop
  private let filter: TailFilter
  /// Nil: the lines as they came.
  private let printer: TailPrinter?
  private lazy var files = FileFollower(
    on: loop, takeLine: { [weak self] in self?.take($0, from: $1) },
    didReachEnd: { [weak self] in self?.noteNoMatch(in: $0) })
  /// What is read to its end.
  private var streams: [StreamFollower] = []
  private var streamIdentities: Set<FileIdentity> = []
  private var openInputs = 0
  /// Whether there is anything to read.
  var hasInputs: Bool { openInputs > 0 }
  private(set) var hasFailed = false
  private var isOutputGone = false
  private var outputSource: Loop.DescriptorSource?

  init(loop: Loop, filter: TailFilter, printer: TailPrinter?) {
    self.loop = loop
    self.filter = filter
    self.printer = printer
  }

  private var lines = 0
  private var reports = 0
  private var inputsWithLines: Set<String> = []
  private var hasWritten = false
  private var hasNotedNoMatch = false
  /// Whether all inputs ended without a line.
  var isEmpty: Bool { openInputs == 0 && lines == 0 && !hasFailed }

  /// Lines that were no reports.
  private(set) var brokenLines = 0

  // MARK: Inputs

  /// Follows a file, or reads a pipe that has a name.
  func follow(_ path: String, lines: Int) throws {
    var facts = stat()
    if stat(path, &facts) == 0, ![S_IFREG, S_IFDIR].contains(facts.st_mode & S_IFMT) {
      // A pipe without a writer must not hold this up.
      let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
      guard descriptor >= 0 else { throw SystemError(code: errno) }
      read(descriptor, path)
    } else {
      try files.follow(path, lines: lines)
      openInputs += 1
    }
  }

  /// Informs the user that the command waits, although files have reports.
  private func noteNoMatch(in path: String) {
    guard reports > 0, !hasWritten, !hasNotedNoMatch else { return }
    hasNotedNoMatch = true
    say("no report in \(path) matches; new ones appear here as they are written. Ctrl-C ends the command")
  }

  /// Reads standard input to its end.
  func readStandardInput() { read(0, "standard input") }

  /// Follows the running agent.
  func follow(_ agent: ControlClient, path: String) {
    openInputs += 1
    let stream = StreamFollower(
      agent.descriptor, name: "the agent", handle: { [weak self] in self?.takeFromAgent($0) },
      didEnd: { [weak self] _ in
        withExtendedLifetime(agent) {}
        self?.fail("the agent at \(path) closed the connection")
      })
    streams.append(stream)
    stream.start(on: loop)
    noteSilence(of: path)
  }

  /// Informs a person that the connection is there while no report comes.
  private func noteSilence(of path: String) {
    guard isatty(STDERR_FILENO) == 1 else { return }
    loop.perform(after: .milliseconds(300), name: "no report yet") { [weak self] _ in
      guard let self, lines == 0, !hasFailed else { return }
      say("connected to the agent at \(path); waiting for reports. Ctrl-C ends the command")
    }
  }

  private func read(_ descriptor: Int32, _ name: String) {
    // Two readers of one pipe would share its lines.
    if let identity = FileIdentity(descriptor), !streamIdentities.insert(identity).inserted { return }
    openInputs += 1
    let stream = StreamFollower(
      descriptor, name: name, handle: { [weak self] in self?.take($0, from: name) },
      didEnd: { [weak self] error in
        guard let self else { return }
        if let error {
          say("\(name): \(InputAdvice.reason(error))")
          hasFailed = true
        }
        openInputs -= 1
        if openInputs == 0 { loop.stop() }
      })
    streams.append(stream)
    stream.start(on: loop)
  }

  /// Ends when nobody reads standard output any more, also while there is nothing to write.
  func endWithOutput() {
    var facts = stat()
    guard fstat(1, &facts) == 0, [S_IFIFO, S_IFSOCK].contains(facts.st_mode & S_IFMT) else { return }
    // No interest: errors are reported nevertheless. It fails if standard input is the same file;
    // then a write reports the error.
    outputSource = try? loop.watch(1, for: [], name: "standard output") { [loop] source, _ in
      source.invalidate()
      loop.stop()
    }
  }

  // MARK: Lines

  private func takeFromAgent(_ line: [UInt8]?) {
    // Of the agent's own words only the short ones are no reports.
    if let line, line.count < 512, let text = try? JSONText(line), text.root["event"] == nil {
      if let count = text.integer(text.root["dropped"]) {
        say("\(count) lines lost: output is slower than the agent's reports")
        return
      }
      if let error = text.string(text.root["error"]) {
        fail("the agent reports an error: \(error)")
        return
      }
    }
    take(line, from: "the agent")
  }

  /// Nil is a line that is too long to be a report.
  private func take(_ line: [UInt8]?, from input: String) {
    lines += 1
    let isFirst = inputsWithLines.insert(input).inserted
    guard let line, let text = try? JSONText(line), let report = TailEntry(text) else {
      if let line, line.allSatisfy({ $0 == 0x20 || $0 == 0x0d || $0 == 0x09 }) { return }
      brokenLines += 1
      // A file of something else would be followed without a word.
      if isFirst { say("\(input): a line that is not a report; give files of report lines") }
      return
    }
    reports += 1
    guard filter.accepts(report) else { return }
    hasWritten = true
    write(printer.map { Array($0.text(of: report).utf8) } ?? TerminalText.json(line) + [0x0a])
  }

  private func write(_ bytes: [UInt8]) {
    guard !isOutputGone else { return }
    do {
      try StandardOutput.write(bytes)
    } catch {
      isOutputGone = true
      if error.code == EPIPE { loop.stop() } else { fail("standard output: \(error)") }
    }
  }

  private func fail(_ reason: String) {
    say(reason)
    hasFailed = true
    loop.stop()
  }

  private func say(_ text: String) { StandardError.say("tail", text) }
}
