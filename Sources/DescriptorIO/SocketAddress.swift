import PlatformLibc

/// The address of a socket, as the kernel takes it.
package struct SocketAddress: Sendable {
  /// The longest path, in bytes, without its zero.
  package static let longestPath = MemoryLayout.size(ofValue: sockaddr_un().sun_path) - 1

  private var storage = sockaddr_storage()
  private var length: socklen_t = 0

  package var family: Int32 { Int32(storage.ss_family) }

  /// A Unix socket at a path; nil if the path is empty, longer than ``longestPath``, or contains a zero.
  package init?(path: String) {
    guard !path.isEmpty, path.utf8.count <= Self.longestPath, !path.utf8.contains(0) else { return nil }
    let whole = MemoryLayout<sockaddr_un>.size
    put(Self.unix(Array(path.utf8)), length: whole)
  }

  /// A Unix socket in the abstract namespace; nil if the name is longer than ``longestPath``.
  package init?(abstractName name: String) {
    guard name.utf8.count <= Self.longestPath else { return nil }
    // The name ends where the length says.
    put(Self.unix([0] + Array(name.utf8)), length: MemoryLayout<sa_family_t>.size + 1 + name.utf8.count)
  }

  /// A numeric IPv4 or IPv6 address and a port; nil if the host is a name.
  package init?(host: String, port: UInt16) {
    var four = sockaddr_in()
    var six = sockaddr_in6()
    if inet_pton(AF_INET, host, &four.sin_addr) == 1 {
      four.sin_family = sa_family_t(AF_INET)
      four.sin_port = port.bigEndian
      put(four, length: MemoryLayout<sockaddr_in>.size)
    } else if inet_pton(AF_INET6, host, &six.sin6_addr) == 1 {
      six.sin6_family = sa_family_t(AF_INET6)
      six.sin6_port = port.bigEndian
      put(six, length: MemoryLayout<sockaddr_in6>.size)
    } else {
      return nil
    }
  }

  private static func unix(_ path: [UInt8]) -> sockaddr_un {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path) }
    return address
  }

  private mutating func put<Address>(_ address: Address, length: Int) {
    withUnsafeMutableBytes(of: &storage) { $0.storeBytes(of: address, as: Address.self) }
    self.length = socklen_t(length)
  }

  /// Calls `body` with the address; allocates nothing.
  package func withPointer<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
    withUnsafePointer(to: storage) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, length) }
    }
  }

  /// Makes a socket of the address's family that waits for nothing and is closed on exec; -1 with errno.
  package func makeSocket(_ type: __socket_type = SOCK_STREAM) -> Int32 {
    socket(family, Int32(type.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
  }

  /// Connects a socket; returns 0 when it is connected, and an errno value otherwise.
  ///
  /// After `EINPROGRESS` the socket is writable when the attempt has ended.
  package func connect(_ socket: Int32) -> Int32 {
    withPointer { PlatformLibc.connect(socket, $0, $1) == 0 ? 0 : errno }
  }

  /// Binds a socket; an errno value, or 0.
  package func bind(_ socket: Int32) -> Int32 {
    withPointer { PlatformLibc.bind(socket, $0, $1) == 0 ? 0 : errno }
  }

  /// The port that a bound IPv4 or IPv6 socket has.
  package static func port(of socket: Int32) -> UInt16 {
    var name = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    return withUnsafeMutablePointer(to: &name) { pointer in
      _ = pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(socket, $0, &length) }
      // The port is at the same place in both families.
      return pointer.withMemoryRebound(to: sockaddr_in.self, capacity: 1) { UInt16(bigEndian: $0.pointee.sin_port) }
    }
  }

  /// Makes a stream socket and connects it, without waiting; -1 with errno if that fails.
  package func connectedStream() -> Int32 {
    let socket = makeSocket()
    guard socket >= 0 else { return -1 }
    let code = connect(socket)
    guard code != 0 else { return socket }
    close(socket)
    errno = code
    return -1
  }
}
