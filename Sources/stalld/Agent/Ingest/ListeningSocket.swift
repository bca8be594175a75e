import CLinux
import Glibc

/// The Unix socket that hosts connect to: handed over by systemd, or made here.
struct ListeningSocket {
  let descriptor: Int32
  let path: String
  /// systemd made it, and keeps it while the agent is restarted.
  let isInherited: Bool

  /// Why there is none.
  struct Failure: Error, CustomStringConvertible {
    var path: String
    var reason: String
    var description: String { "the socket \(path): \(reason)" }
  }

  /// The first socket that systemd hands over (sd_listen_fds(3)), or nil.
  static func inherited() -> ListeningSocket? {
    func number(_ name: String) -> Int32? { getenv(name).flatMap { Int32(String(cString: $0)) } }
    guard number("LISTEN_PID") == getpid(), let count = number("LISTEN_FDS"), count > 0 else { return nil }
    let descriptor: Int32 = 3
    unsetenv("LISTEN_PID")
    unsetenv("LISTEN_FDS")
    unsetenv("LISTEN_FDNAMES")
    _ = clinux_set_descriptor_flags(descriptor)
    return ListeningSocket(descriptor: descriptor, path: "from systemd", isInherited: true)
  }

  /// Makes one.
  ///
  /// A socket file that nobody listens at is a dead agent's, and replaced; at one that answers an agent runs already.
  static func make(path: String, mode: UInt32, group: UInt32?) throws(Failure) -> ListeningSocket {
    func failed(_ reason: String) -> Failure { Failure(path: path, reason: reason) }
    func system(_ what: String) -> Failure { failed("\(what): \(String(cString: strerror(errno)))") }
    guard let name = UnixSocketName(path: path) else { throw failed("the path is longer than 107 bytes") }
    let descriptor = socket(
      AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
    guard descriptor >= 0 else { throw system("it cannot be made") }
    var isBound = name.bind(descriptor)
    if !isBound, errno == EADDRINUSE {
      guard !name.isAnswered else {
        close(descriptor)
        throw failed("another agent listens there")
      }
      var status = stat()
      if lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFSOCK { unlink(path) }
      isBound = name.bind(descriptor)
    }
    guard isBound else {
      defer { close(descriptor) }
      throw system("it cannot be bound")
    }
    // Before it listens: nobody connects with the mode that umask left.
    if chmod(path, mode) != 0 || (group != nil && chown(path, uid_t.max, group!) != 0)
      || listen(descriptor, 1024) != 0
    {
      defer { close(descriptor) }
      throw system("its mode or group cannot be set")
    }
    return ListeningSocket(descriptor: descriptor, path: path, isInherited: false)
  }
}

/// A path as the address of a Unix socket.
struct UnixSocketName {
  private let address: sockaddr_un
  private let length: socklen_t

  /// Nil if it is too long.
  init?(path: String) {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let bytes = Array(path.utf8)
    guard !bytes.isEmpty, bytes.count < MemoryLayout.size(ofValue: address.sun_path) else { return nil }
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
    self.address = address
    length = socklen_t(MemoryLayout<sockaddr_un>.size)
  }

  private func with<Result>(_ body: (UnsafePointer<sockaddr>) -> Result) -> Result {
    withUnsafePointer(to: address) { $0.withMemoryRebound(to: sockaddr.self, capacity: 1, body) }
  }

  func bind(_ descriptor: Int32) -> Bool { with { Glibc.bind(descriptor, $0, length) == 0 } }

  func connect(_ descriptor: Int32) -> Bool { with { Glibc.connect(descriptor, $0, length) == 0 } }

  /// Whether somebody listens there.
  var isAnswered: Bool {
    let probe = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
    guard probe >= 0 else { return false }
    defer { close(probe) }
    return connect(probe) || errno == EAGAIN
  }
}
