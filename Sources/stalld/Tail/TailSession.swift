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
  private var files: [FileFollower] = []
  private var streams: [StreamFollower] = []
  private var openInputs = 0
  /// Whether there is anything to read.
  var hasInputs: Bool { openInputs > 0 }
  private var unreadable = 0
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
  private var failedInputs: Set<String> = []
  private var hasWritten = false
  private var hasNotedNoMatch = false
  /// Whether all inputs ended without a line.
  var isEmpty: Bool { openInputs == 0 && lines == 0 && !hasFailed }

  /// Lines that were no reports.
  var brokenLines: Int {
    unreadable + files.reduce(0) { $0 + $1.brokenLines } + streams.reduce(0) { $0 + $1.brokenLines }
  }

  // MARK: Inputs

  /// Follows a file, or reads a pipe that has a name.
  func follow(_ path: String, lines: Int) throws {
    // A pipe without a writer must not hold this up.
    var descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    // The agent may have compressed it since.
    if descriptor < 0, errno == ENOENT { descriptor = open(path + ".gz", O_RDONLY | O_CLOEXEC | O_NONBLOCK) }
    var facts = stat()
    guard descriptor >= 0, fstat(descriptor, &facts) == 0 else { throw SystemError(code: errno) }
    guard facts.st_mode & S_IFMT != S_IFDIR else { throw SystemError(code: EISDIR) }
    var beginning: [UInt8] = [0, 0]
    if pread(descriptor, &beginning, 2, 0) == 2, let error = InputAdvice.GzipInput(path, beginning, for: "tail") {
      close(descriptor)
      throw error
    }
    if facts.st_mode & S_IFMT == S_IFREG, facts.st_size == 0 {
      say("\(path) is empty; reports appear here as they are written. Ctrl-C ends the command")
    }
    guard facts.st_mode & S_IFMT == S_IFREG else {
      openInputs += 1
      read(descriptor, path)
      return
    }
    let follower = try FileFollower(
      path: path, descriptor: descriptor, lines: lines, loop: loop,
      didFail: { [weak self] in self?.noteFailure(of: path, $0) }
    ) { [weak self] in self?.take($0, from: path) }
    openInputs += 1
    files.append(follower)
    loop.perform(name: "followed file") { [weak self] in
      follower.look()
      self?.noteNoMatch(in: path)
    }
  }

  /// Informs the user that the command waits, although files have reports.
  private func noteNoMatch(in path: String) {
    guard reports > 0, !hasWritten, !hasNotedNoMatch else { return }
    hasNotedNoMatch = true
    say("no report in \(path) matches; new ones appear here as they are written. Ctrl-C ends the command")
  }

  /// Reads standard input to its end.
  func readStandardInput() {
    openInputs += 1
    read(0, "standard input")
  }

  /// Follows the running agent.
  func follow(_ agent: ControlClient, path: String) {
    openInputs += 1
    let stream = StreamFollower(
      agent.descriptor, handle: { [weak self] in self?.takeFromAgent($0) },
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
    let stream = StreamFollower(
      descriptor, handle: { [weak self] in self?.take($0, from: name) },
      didEnd: { [weak self] error in
        guard let self else { return }
        if let error { noteFailure(of: name, error) }
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

  private func takeFromAgent(_ line: [UInt8]) {
    // Of the agent's own words only the short ones are no reports.
    if line.count < 512, let text = try? JSONText(line), text.root["event"] == nil {
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

  private func take(_ line: [UInt8], from input: String) {
    lines += 1
    let isFirst = inputsWithLines.insert(input).inserted
    guard let text = try? JSONText(line), let report = TailEntry(text) else {
      if line.allSatisfy({ $0 == 0x20 || $0 == 0x0d || $0 == 0x09 }) { return }
      unreadable += 1
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

  /// Says why an input could not be read to its end; others are read on.
  private func noteFailure(of input: String, _ error: SystemError) {
    guard failedInputs.insert(input).inserted else { return }
    say("\(input): \(InputAdvice.reason(error.code))")
    hasFailed = true
  }

  private func fail(_ reason: String) {
    say(reason)
    hasFailed = true
    loop.stop()
  }

  private func say(_ text: String) { StandardError.say("tail", text) }
}
