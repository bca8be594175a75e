import Glibc

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
  private let identity: (dev_t, ino_t)?

  /// Listens at a path, with that mode.
  ///
  /// A socket that nobody listens at is replaced; one of a living process is left alone, and so is anything that is no socket.
  init(path: String, mode: mode_t, backlog: Int32 = 128) throws(Failure) {
    guard var address = sockaddr_un(path) else {
      throw Failure(place: path, reason: "the path is longer than a socket's may be (107 bytes), or empty")
    }
    descriptor = try Self.open(AF_UNIX, place: path)
    // The mode that bind(2) gives the file, less the umask: never wider than asked for, not even for a moment.
    fchmod(descriptor, mode)
    var code = Self.bind(descriptor, &address)
    if code == EADDRINUSE, Self.isAbandoned(path, &address) {
      unlink(path)
      code = Self.bind(descriptor, &address)
    }
    var facts = stat()
    if code == 0, chmod(path, mode) != 0 || lstat(path, &facts) != 0 || listen(descriptor, backlog) != 0 {
      code = errno
    }
    guard code == 0 else {
      close(descriptor)
      throw Failure(place: path, reason: code == EADDRINUSE ? "another process listens there" : Self.words(code))
    }
    self.path = path
    identity = (facts.st_dev, facts.st_ino)
  }

  /// Listens at an address of the machine itself.
  init(_ address: LoopbackAddress, backlog: Int32 = 128) throws(Failure) {
    descriptor = try Self.open(address.isVersion6 ? AF_INET6 : AF_INET, place: "\(address)")
    var on: Int32 = 1
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<Int32>.size))
    var code: Int32
    if address.isVersion6 {
      var name = sockaddr_in6()
      name.sin6_family = sa_family_t(AF_INET6)
      name.sin6_port = address.port.bigEndian
      inet_pton(AF_INET6, address.host, &name.sin6_addr)
      code = Self.bind(descriptor, &name)
    } else {
      var name = sockaddr_in()
      name.sin_family = sa_family_t(AF_INET)
      name.sin_port = address.port.bigEndian
      inet_pton(AF_INET, address.host, &name.sin_addr)
      code = Self.bind(descriptor, &name)
    }
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
    let connection = Glibc.accept(descriptor, nil, nil)
    guard connection >= 0 else {
      isExhausted = [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(errno)
      return nil
    }
    _ = fcntl(connection, F_SETFD, FD_CLOEXEC)
    _ = fcntl(connection, F_SETFL, O_NONBLOCK)
    return connection
  }

  /// The port, 0 for a path.
  var port: UInt16 {
    var name = sockaddr_in()
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    return withUnsafeMutablePointer(to: &name) { pointer in
      _ = pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) }
      // The port is at the same place in both families.
      return path == nil ? UInt16(bigEndian: pointer.pointee.sin_port) : 0
    }
  }

  /// Ends it, and takes the socket's file away if it still is this one.
  func end() {
    var facts = stat()
    if let path, let identity, lstat(path, &facts) == 0, (facts.st_dev, facts.st_ino) == identity { unlink(path) }
    close(descriptor)
  }

  private static func open(_ family: Int32, place: String) throws(Failure) -> Int32 {
    let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
    let descriptor = socket(family, kind, 0)
    guard descriptor >= 0 else { throw Failure(place: place, reason: words(errno)) }
    return descriptor
  }

  private static func bind<Name>(_ descriptor: Int32, _ name: inout Name) -> Int32 {
    withUnsafePointer(to: &name) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        Glibc.bind(descriptor, $0, socklen_t(MemoryLayout<Name>.size)) == 0 ? 0 : errno
      }
    }
  }

  private static func isAbandoned(_ path: String, _ name: inout sockaddr_un) -> Bool {
    var facts = stat()
    guard lstat(path, &facts) == 0, facts.st_mode & S_IFMT == S_IFSOCK else { return false }
    let probe = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
    guard probe >= 0 else { return false }
    defer { close(probe) }
    return withUnsafePointer(to: &name) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(probe, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) != 0 && errno == ECONNREFUSED
      }
    }
  }

  private static func words(_ code: Int32) -> String { SystemError(code: code).description }
}

extension sockaddr_un {
  /// The name of a path; nil if it is empty or too long.
  init?(_ path: String) {
    self.init()
    sun_family = sa_family_t(AF_UNIX)
    let bytes = Array(path.utf8)
    guard !bytes.isEmpty, bytes.count < MemoryLayout.size(ofValue: sun_path), !bytes.contains(0) else { return nil }
    withUnsafeMutableBytes(of: &sun_path) { $0.copyBytes(from: bytes) }
  }
}
