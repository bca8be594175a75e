import CLinux
import Glibc
import StallCapture

/// One connection to the agent: whole lines out, whole lines in, and nothing waits.
///
/// Belongs to the agent's thread.
final class AgentConnection {
  /// What a line was, by which its acknowledgement is understood.
  enum Cargo {
    /// It goes with the connection: the greeting, a stall that still runs, the farewell.
    case courtesy
    /// A line of a dead process's.
    case earlier
    /// A line of the spool's, and how many others it tells to be lost.
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

  let descriptor: Int32
  private let identity: FileIdentity
  private var line: [UInt8] = []
  private var sent = 0
  private var input: [UInt8] = []
  /// What came with the last bytes that had one.
  private var given: Int32 = -1
  /// Lines that were handed over in full, and those of them that are acknowledged.
  private var count: UInt64 = 0
  private var acknowledged: UInt64 = 0
  /// What is not acknowledged, the line under way included.
  private(set) var unacknowledged: [Cargo] = []

  /// Connects; an errno value is thrown.
  init(path: String) throws(StateDirectory.Failure) {
    var name = sockaddr_un()
    name.sun_family = sa_family_t(AF_UNIX)
    let bytes = Array(path.utf8)
    guard bytes.count < MemoryLayout.size(ofValue: name.sun_path) else {
      throw StateDirectory.Failure(code: ENAMETOOLONG)
    }
    withUnsafeMutableBytes(of: &name.sun_path) { $0.copyBytes(from: bytes) }
    let descriptor = socket(
      AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
    guard descriptor >= 0, let identity = FileIdentity(descriptor) else { throw StateDirectory.Failure(code: errno) }
    let result = withUnsafePointer(to: name) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    guard result == 0 else {
      let code = errno
      close(descriptor)
      throw StateDirectory.Failure(code: code)
    }
    self.descriptor = descriptor
    self.identity = identity
  }

  deinit {
    identity.close(descriptor)
    if given >= 0 { close(given) }
  }

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

  /// Whether a line is under way.
  var isSending: Bool { sent < line.count }

  /// Takes the next line, when none is under way.
  func load(_ bytes: [UInt8], _ cargo: Cargo) {
    line = bytes
    sent = 0
    unacknowledged.append(cargo)
  }

  /// Sends what is under way; false if the agent takes no more for now.
  func flush() throws(Failure) -> Bool {
    // A host that closes all descriptors may have another socket by this number.
    guard FileIdentity(descriptor) == identity else { throw .ended }
    guard unacknowledged.count <= Self.unacknowledgedLimit else {
      throw .confused("no acknowledgement of \(Self.unacknowledgedLimit) lines")
    }
    while isSending {
      let result = line.withUnsafeBytes {
        send(descriptor, $0.baseAddress! + sent, $0.count - sent, Int32(MSG_DONTWAIT | MSG_NOSIGNAL))
      }
      if result < 0 {
        if errno == EINTR { continue }
        if errno == EAGAIN || errno == ENOBUFS { return false }
        throw .ended
      }
      sent += result
      if !isSending { count += 1 }
    }
    return true
  }

  /// Reads what has come, a part at a time.
  ///
  /// Returns whole lines without their newlines.
  func receive() throws(Failure) -> [[UInt8]] {
    guard FileIdentity(descriptor) == identity else { throw .ended }
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
  func acknowledge(_ total: UInt64) throws(Failure) -> [Cargo] {
    guard total <= count else { throw .confused("an acknowledgement of \(total) lines, of which \(count) were sent") }
    guard total > acknowledged else { return [] }
    let new = Int(total - acknowledged)
    acknowledged = total
    defer { unacknowledged.removeFirst(new) }
    return Array(unacknowledged.prefix(new))
  }
}
