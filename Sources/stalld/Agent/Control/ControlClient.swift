import DescriptorIO
import Glibc
import LoopEngine

/// A connection to the running agent's control socket.
final class ControlClient: Sendable {
  static let defaultPath = AgentSettings.Control().path

  /// Why no agent answers.
  struct Failure: Error, CustomStringConvertible {
    var description: String
  }

  /// Not blocking.
  let descriptor: Int32
  private let path: String
  private let deadline: Loop.Instant

  /// Connects and sends a request.
  ///
  /// - Parameters:
  ///   - path: Where the agent's socket is.
  ///   - request: One JSON object.
  ///   - time: For connecting, sending and ``line()``.
  /// - Throws: ``Failure``, which says why no agent answers.
  init(path: String, request: String, within time: Duration = .seconds(2)) throws(Failure) {
    deadline = .now.advanced(by: time)
    guard let address = SocketAddress(path: path) else {
      throw Failure(description: "\(path) is not a socket path; allowed: 1 to \(SocketAddress.longestPath) bytes")
    }
    let socket = address.makeSocket()
    guard socket >= 0 else { throw Failure(description: "cannot create a socket: \(SystemError(code: errno))") }
    var code: Int32
    // With a full queue of connections the kernel says EAGAIN, and nothing reports when there is space.
    repeat {
      code = address.connect(socket)
      if code == EAGAIN { usleep(10_000) }
    } while (code == EAGAIN || code == EINTR) && .now < deadline
    let bytes = Array((request + "\n").utf8)
    if code == 0, send(socket, bytes, bytes.count, Int32(MSG_NOSIGNAL)) != bytes.count { code = errno }
    guard code == 0 else {
      close(socket)
      throw Failure(description: "no agent responds at \(path): \(Self.words(code, path))")
    }
    descriptor = socket
    self.path = path
  }

  deinit { close(descriptor) }

  /// The one line of the answer, without its newline.
  func line() throws(Failure) -> [UInt8] {
    var line: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 64 << 10)
    while true {
      let left = Loop.Instant.now.duration(to: deadline)
      guard left > .zero else {
        throw Failure(description: "no agent responds at \(path): timed out; see its log: journalctl --unit stalld")
      }
      var poll = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
      let milliseconds = left.components.seconds * 1000 + left.components.attoseconds / 1_000_000_000_000_000
      _ = Glibc.poll(&poll, 1, Int32(clamping: milliseconds + 1))
      let count = recv(descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT))
      if count < 0, errno == EAGAIN || errno == EINTR { continue }
      guard count > 0 else {
        throw Failure(description: "the agent at \(path) closed the connection without an answer")
      }
      // What follows the first line, such as an acknowledgement of a socket for services, is no answer.
      if let end = buffer[..<count].firstIndex(of: 0x0a) { return line + buffer[..<end] }
      line += buffer[..<count]
    }
  }

  private static func words(_ code: Int32, _ path: String) -> String {
    let start =
      "start it (systemctl start stalld.socket stalld.service, or stalld run), or name its socket with --control"
    var status = stat()
    let isOther = stat(path, &status) == 0 && status.st_mode & S_IFMT != S_IFSOCK
    return switch code {
    case ENOENT: "no such socket; \(start)"
    case ECONNREFUSED where isOther: "not a socket; name the agent's control socket with --control"
    case ECONNREFUSED: "connection refused; \(start)"
    case EACCES: "permission denied; run as root or as a member of the socket's group"
    case EAGAIN: "timed out while connecting"
    default: "\(SystemError(code: code))"
    }
  }
}
