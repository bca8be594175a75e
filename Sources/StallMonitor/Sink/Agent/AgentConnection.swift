import CLinux
import DescriptorIO
import PlatformLibc
import StallCapture

/// One connection to the agent: whole lines out, whole lines in, and nothing waits.
///
/// Belongs to the agent's thread.
final class AgentConnection {
  /// A line that was handed to the agent, by which its acknowledgement is understood.
  enum SentLine {
    /// It goes with the connection: the greeting, a stall that still runs, the farewell.
    case courtesy
    /// A line of a dead process's.
    case earlier
    /// A line of the spool's, and how many lost lines it reports.
    case own(serial: UInt64, droppedBefore: UInt64)
  }

  /// Why a connection is no more.
  enum Failure: Error {
    case ended
    /// What came is not the protocol.
    case confused(String)
  }

  /// How many lines may wait for their acknowledgement.
  private static let unacknowledgedLimit = 65_536

  private let output: LineDescriptor
  private var line: [UInt8] = []
  private var input: [UInt8] = []
  /// The descriptor that came last; -1 if there is none, or if it was taken.
  private var given: Int32 = -1
  /// Lines that were handed over in full, and those of them that are acknowledged.
  private var count: UInt64 = 0
  private var acknowledged: UInt64 = 0
  /// The lines that are not acknowledged, including the current one.
  private(set) var unacknowledged: [SentLine] = []

  /// Connects; an errno value is thrown.
  init(path: String) throws(StateDirectory.Failure) {
    guard let address = SocketAddress(path: path) else { throw StateDirectory.Failure(code: ENAMETOOLONG) }
    let descriptor = address.connectedStream()
    guard descriptor >= 0, let output = LineDescriptor(owning: descriptor) else {
      throw StateDirectory.Failure(code: errno)
    }
    self.output = output
  }

  deinit { if given >= 0 { close(given) } }

  /// The socket's number.
  var descriptor: Int32 { output.number }

  /// Takes the descriptor that came last, which is the caller's to close; nil if none did.
  func takeGiven() -> Int32? {
    defer { given = -1 }
    return given >= 0 ? given : nil
  }

  /// Closes a descriptor that came without the line that it is for, unless that may still be on its way.
  func closeGiven() {
    guard given >= 0, input.isEmpty else { return }
    close(given)
    given = -1
  }

  /// Whether a line is being sent.
  var isSending: Bool { !line.isEmpty }

  /// Takes the next line, when none is being sent.
  func load(_ bytes: [UInt8], _ sent: SentLine) {
    line = bytes
    unacknowledged.append(sent)
  }

  /// Sends the current line; false if the agent accepts no more for now.
  func flush() throws(Failure) -> Bool {
    // A service that closes all descriptors may have another socket by this number.
    guard output.isIntact else { throw .ended }
    guard unacknowledged.count <= Self.unacknowledgedLimit else {
      throw .confused("\(Self.unacknowledgedLimit) lines were not acknowledged")
    }
    guard isSending else { return true }
    switch output.write(line) {
    case .written:
      line = []
      count += 1
      return true
    case .full: return false
    case .failed: throw .ended
    }
  }

  /// Reads what has come, a part at a time.
  ///
  /// Returns whole lines without their newlines.
  func receive() throws(Failure) -> [[UInt8]] {
    guard output.isIntact else { throw .ended }
    let room = 16 << 10
    var result = 0
    var new: Int32 = -1
    withUnsafeTemporaryAllocation(byteCount: room, alignment: 1) { buffer in
      repeat {
        result = clinux_receive_with_descriptor(descriptor, buffer.baseAddress, room, &new)
      } while result < 0 && errno == EINTR
      if result > 0 { input += buffer[..<result] }
    }
    let code = errno
    if new >= 0 {
      if given >= 0 { close(given) }
      given = new
    }
    if result == 0 { throw .ended }
    if result < 0 {
      guard code == EAGAIN else { throw .ended }
      return []
    }
    var lines: [[UInt8]] = []
    var start = 0
    while let end = input[start...].firstIndex(of: UInt8(ascii: "\n")) {
      lines.append(Array(input[start..<end]))
      start = end + 1
    }
    input.removeFirst(start)
    guard input.count <= AgentMessage.longestLine else {
      throw .confused("a line of more than \(AgentMessage.longestLine) bytes")
    }
    return lines
  }

  /// The first `total` lines are done with.
  ///
  /// Returns what they were, of those that were not before.
  func acknowledge(_ total: UInt64) throws(Failure) -> [SentLine] {
    guard total <= count else { throw .confused("an acknowledgement of \(total) lines when \(count) were sent") }
    guard total > acknowledged else { return [] }
    let new = Int(total - acknowledged)
    acknowledged = total
    defer { unacknowledged.removeFirst(new) }
    return Array(unacknowledged.prefix(new))
  }
}
