import CLinux
import DescriptorIO
import Glibc
import StallCapture
import StallReport

/// A stream socket that listens: at a path, or at a loopback address.
final class StreamListener: Sendable {
  /// Why nobody can connect there.
  struct Failure: Error, CustomStringConvertible {
    var place: String
    var reason: String
    var description: String { "cannot listen at \(place): \(reason)" }
  }

  let descriptor: Int32
  private let path: String?
  private let identity: FileIdentity?
  private let lock: SocketLock?

  /// Listens at a path, with that mode.
  ///
  /// A socket without a listener is replaced. The socket of a living process, and anything that is
  /// no socket, is left alone. Of several processes that start at once, one gets the path.
  init(path: String, mode: mode_t, backlog: Int32 = 128) throws(Failure) {
    guard let address = SocketAddress(path: path) else {
      throw Failure(
        place: path,
        reason: "the path is longer than a socket's may be (\(SocketAddress.longestPath) bytes), or empty")
    }
    let lock = try SocketLock(of: path)
    do throws(Failure) {
      (descriptor, identity) = try Self.serve(address, path, mode, backlog)
    } catch {
      lock.release()
      throw error
    }
    self.lock = lock
    self.path = path
  }

  /// Listens at an address of the machine itself.
  init(_ address: LoopbackAddress, backlog: Int32 = 128) throws(Failure) {
    guard let name = SocketAddress(host: address.host, port: address.port) else {
      throw Failure(place: "\(address)", reason: Self.words(EINVAL))
    }
    descriptor = try Self.open(name, place: "\(address)")
    var on: Int32 = 1
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<Int32>.size))
    var code = name.bind(descriptor)
    if code == 0, listen(descriptor, backlog) != 0 { code = errno }
    guard code == 0 else {
      close(descriptor)
      throw Failure(place: "\(address)", reason: Self.words(code))
    }
    path = nil
    identity = nil
    lock = nil
  }

  /// The next connection, not blocking and closed on exec; nil if there is none.
  ///
  /// `isExhausted` says that there is one and no descriptor is left for it.
  func accept(isExhausted: inout Bool) -> Int32? {
    let connection = clinux_accept(descriptor)
    if connection < 0 { isExhausted = [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(errno) }
    return connection >= 0 ? connection : nil
  }

  /// The port, 0 for a path.
  var port: UInt16 { path == nil ? SocketAddress.port(of: descriptor) : 0 }

  /// Ends it, and takes the socket's file away if it still is this one.
  func end() {
    if let path, let identity, FileIdentity(path: path) == identity { unlink(path) }
    close(descriptor)
    lock?.release()
  }

  private static func serve(
    _ address: SocketAddress, _ path: String, _ mode: mode_t, _ backlog: Int32
  ) throws(Failure) -> (Int32, FileIdentity) {
    let descriptor = try open(address, place: path)
    // The mode that bind(2) gives the file, less the umask: never wider than asked for, not even for a moment.
    fchmod(descriptor, mode)
    var code = address.bind(descriptor)
    let obstacle = code == EADDRINUSE ? Self.obstacle(at: path) : nil
    if code == EADDRINUSE, obstacle == nil {
      unlink(path)
      code = address.bind(descriptor)
    }
    if code == 0, chmod(path, mode) == 0, let identity = FileIdentity(path: path),
      Glibc.listen(descriptor, backlog) == 0
    {
      return (descriptor, identity)
    }
    if code == 0 { code = errno }
    close(descriptor)
    throw Failure(place: path, reason: obstacle.map { "\($0), or use another path" } ?? words(code))
  }

  private static func open(_ address: SocketAddress, place: String) throws(Failure) -> Int32 {
    let descriptor = address.makeSocket()
    guard descriptor >= 0 else { throw Failure(place: place, reason: words(errno)) }
    return descriptor
  }

  /// Why nobody else can listen at a path, and what to do; nil if there is nothing, or a socket without a listener.
  static func obstacle(at path: String) -> String? {
    var facts = stat()
    guard let address = SocketAddress(path: path), lstat(path, &facts) == 0 else { return nil }
    if facts.st_mode & S_IFMT != S_IFSOCK { return "the file is not a socket; remove it" }
    let probe = address.makeSocket()
    guard probe >= 0 else { return "cannot find out whether a process listens there: \(words(errno)); try again" }
    defer { close(probe) }
    let code = address.connect(probe)
    switch code {
    case ECONNREFUSED: return nil
    case 0:
      return "\(PeerCredentials(socket: probe).map { name(of: $0.pid) } ?? "another process") listens there; end it"
    // Too many connections wait there.
    case EAGAIN: return "another process listens there; end it"
    default: return "it cannot be connected to: \(words(code)); remove it if no process listens there"
    }
  }

  /// A process for messages: `process 812 (stalld)`.
  static func name(of process: Int32) -> String {
    // The kernel's number for what the caller's PID namespace does not contain.
    if process == 0 { return "a process of another PID namespace" }
    let name = ProcFile("/proc/\(process)/comm")?.parse { String(decoding: $0.prefix { $0 != 0x0a }, as: UTF8.self) }
    return "process \(process)" + (name.map { " (\($0.printable))" } ?? "")
  }

  private static func words(_ code: Int32) -> String { SystemError(code: code).description }
}
