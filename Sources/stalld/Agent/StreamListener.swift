import CLinux
import DescriptorIO
import Glibc
import StallCapture

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

  /// Listens at a path, with that mode.
  ///
  /// A socket without a listener is replaced. The socket of a living process, and anything that is
  /// no socket, is left alone.
  init(path: String, mode: mode_t, backlog: Int32 = 128) throws(Failure) {
    guard let address = SocketAddress(path: path) else {
      throw Failure(
        place: path,
        reason: "the path is longer than a socket's may be (\(SocketAddress.longestPath) bytes), or empty")
    }
    descriptor = try Self.open(address, place: path)
    // The mode that bind(2) gives the file, less the umask: never wider than asked for, not even for a moment.
    fchmod(descriptor, mode)
    var code = address.bind(descriptor)
    if code == EADDRINUSE, Self.isAbandoned(path, address) {
      unlink(path)
      code = address.bind(descriptor)
    }
    var identity: FileIdentity?
    if code == 0 {
      let hasMode = chmod(path, mode) == 0
      if hasMode { identity = FileIdentity(path: path) }
      if !hasMode || identity == nil || listen(descriptor, backlog) != 0 { code = errno }
    }
    guard code == 0 else {
      close(descriptor)
      throw Failure(place: path, reason: code == EADDRINUSE ? "another process listens there" : Self.words(code))
    }
    self.path = path
    self.identity = identity
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
  }

  private static func open(_ address: SocketAddress, place: String) throws(Failure) -> Int32 {
    let descriptor = address.makeSocket()
    guard descriptor >= 0 else { throw Failure(place: place, reason: words(errno)) }
    return descriptor
  }

  private static func isAbandoned(_ path: String, _ address: SocketAddress) -> Bool {
    var facts = stat()
    guard lstat(path, &facts) == 0, facts.st_mode & S_IFMT == S_IFSOCK else { return false }
    let probe = address.makeSocket()
    guard probe >= 0 else { return false }
    defer { close(probe) }
    return address.connect(probe) == ECONNREFUSED
  }

  private static func words(_ code: Int32) -> String { SystemError(code: code).description }
}
