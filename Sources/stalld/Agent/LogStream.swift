import DescriptorIO
import Synchronization

/// A stream of log lines, written without waiting for its reader: what it does not accept is omitted, and counted.
final class LogStream: Sendable {
  /// What has become of a line.
  enum Outcome { case written, omitted, failed }

  private struct State {
    let stream: LineDescriptor?
    /// The line that was accepted in part.
    var begun: [UInt8] = []
    /// Lines that were omitted since the last one that was written.
    var omitted = 0
  }

  private let state: Mutex<State>

  /// The descriptor stays the caller's.
  init(_ descriptor: Int32) {
    state = Mutex(State(stream: LineDescriptor(sharing: descriptor, isExclusive: false)))
  }

  /// Writes a line, on any thread.
  ///
  /// `note` makes the line that comes before it if lines were omitted, of their number.
  @discardableResult
  func write(_ line: String, noting note: (Int) -> String) -> Outcome {
    state.withLock { state in
      guard let stream = state.stream else { return .failed }
      if stream.isMidLine {
        let outcome = Self.write(state.begun, to: stream)
        if outcome == .omitted { state.omitted += 1 }
        guard outcome == .written else { return outcome }
      }
      let notes = state.omitted > 0 ? note(state.omitted) : ""
      state.begun = Array((notes + line).utf8)
      let outcome = Self.write(state.begun, to: stream)
      // What was begun is finished by a later call.
      guard outcome == .written || stream.isMidLine else {
        if outcome == .omitted { state.omitted += 1 }
        return outcome
      }
      state.omitted = 0
      return .written
    }
  }

  private static func write(_ bytes: [UInt8], to stream: LineDescriptor) -> Outcome {
    switch stream.write(bytes) {
    case .written: return .written
    case .full: return .omitted
    case .failed:
      stream.abandonLine()
      return .failed
    }
  }
}
