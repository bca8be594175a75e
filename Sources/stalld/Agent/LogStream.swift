import Glibc
import Synchronization

/// A stream of log lines, written without waiting for its reader: what it does not accept is omitted, and counted.
final class LogStream: Sendable {
  /// What has become of a line.
  enum Outcome { case written, omitted, failed }

  private struct State {
    /// The end of a line that was accepted in part.
    var rest: [UInt8] = []
    /// Lines that were omitted since the last one that was written.
    var omitted = 0
  }

  private let descriptor: Int32
  private let state = Mutex(State())
  /// Pipes that can be written at all accept this many bytes (pipe(7), PIPE_BUF).
  private static let pieceSize = 4096

  /// The descriptor stays the caller's.
  init(_ descriptor: Int32) { self.descriptor = descriptor }

  /// Writes a line, on any thread.
  ///
  /// `note` makes the line that comes before it if lines were omitted, of their number.
  @discardableResult
  func write(_ line: String, noting note: (Int) -> String) -> Outcome {
    state.withLock { state in
      var bytes = Array(line.utf8)
      if state.omitted > 0 { bytes = Array(note(state.omitted).utf8) + bytes }
      let rest = state.rest.count
      let count = put(state.rest + bytes)
      guard count >= 0 else {
        state.rest = []
        return .failed
      }
      guard count > rest else {
        state.rest.removeFirst(count)
        state.omitted += 1
        return .omitted
      }
      state.rest = Array(bytes[(count - rest)...])
      state.omitted = 0
      return .written
    }
  }

  /// How many bytes the reader accepts now; -1 if there is none.
  private func put(_ bytes: [UInt8]) -> Int {
    var position = 0
    while position < bytes.count {
      let piece = min(bytes.count - position, Self.pieceSize)
      let count = bytes.withUnsafeBytes { putNow(UnsafeRawBufferPointer(rebasing: $0[position..<(position + piece)])) }
      if count > 0 {
        position += count
      } else if count < 0, errno == EINTR {
        continue
      } else {
        return count < 0 && errno != EAGAIN ? -1 : position
      }
    }
    return position
  }

  private func putNow(_ piece: UnsafeRawBufferPointer) -> Int {
    let count = send(descriptor, piece.baseAddress, piece.count, Int32(MSG_DONTWAIT | MSG_NOSIGNAL))
    guard count < 0, errno == ENOTSOCK else { return count }
    var entry = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
    guard poll(&entry, 1, 0) > 0 else { return 0 }
    return Glibc.write(descriptor, piece.baseAddress, piece.count)
  }
}
