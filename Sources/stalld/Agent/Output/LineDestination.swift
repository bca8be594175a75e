import Glibc

/// Where the lines of one output go; used on the output's thread alone.
protocol LineDestination: AnyObject {
  /// How messages and counters call it: ``AgentSettings/Output/name``, such as
  /// `file /var/log/stalld/stalls.jsonl`.
  ///
  /// `stalld status` splits it at the first space.
  var name: String { get }
  /// How often the agent itself rotated a file.
  var rotations: UInt64 { get }
  /// Something was written that ``sync()`` is to bring to the disk.
  var needsSync: Bool { get }

  /// Checks that lines can go there at all; what will mend itself, such as a full disk, is no error.
  func open() throws(OutputError)
  /// Sends lines in order; how many are out, and what became of the next one (`sent` if there is none).
  ///
  /// After anything but `sent` and `refused`, the same line comes again.
  func send(_ lines: ArraySlice<ReportLine>) -> (count: Int, result: SendResult)
  /// Returns what is wrong, nil if nothing is.
  func sync() -> String?
  /// An operator may have renamed something.
  func reopen()
  func close()
}

extension LineDestination {
  var rotations: UInt64 { 0 }
  var needsSync: Bool { false }
  func open() throws(OutputError) {}
  func sync() -> String? { nil }
  func reopen() {}
}

/// A destination that takes a line at a time.
protocol SingleLineDestination: LineDestination {
  /// Sends a line; after anything but `sent` and `refused`, the same line comes again.
  func send(_ line: ReportLine) -> SendResult
}

extension SingleLineDestination {
  func send(_ lines: ArraySlice<ReportLine>) -> (count: Int, result: SendResult) {
    for (count, line) in lines.enumerated() {
      let result = send(line)
      guard case .sent = result else { return (count, result) }
    }
    return (lines.count, .sent)
  }
}

/// What became of a line.
enum SendResult {
  case sent
  /// Not now: again when the descriptor takes something.
  case waits(Int32)
  /// Not now: again in a while.
  ///
  /// `needsRestart` if only a new process of the agent can write there.
  case failed(String, needsRestart: Bool = false)
  /// Never: why, and the line's bytes.
  case refused(String, bytes: Int)

  static func failed(_ code: Int32) -> SendResult { .failed(String(cString: strerror(code))) }
}

/// An output that cannot be used as it is configured.
struct OutputError: Error, Equatable, CustomStringConvertible {
  var output: String
  var reason: String

  var description: String { "\(output): \(reason)" }

  init(_ output: String, _ reason: String) {
    self.output = output
    self.reason = reason
  }

  init(_ output: String, code: Int32) { self.init(output, String(cString: strerror(code))) }
}
