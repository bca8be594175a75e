public import Glibc

/// Calls a function with the address of a Unix socket: `body(address, length)`, as bind(2) and connect(2) want it.
///
/// A path whose first byte is 0 is an abstract name, which ends where its length says.
public func withUnixAddress<Result>(
  _ path: some Sequence<UInt8>, _ body: (UnsafePointer<sockaddr>, socklen_t) throws -> Result
) rethrows -> Result {
  var name = sockaddr_un()
  name.sun_family = sa_family_t(AF_UNIX)
  let bytes = Array(path.prefix(107))
  withUnsafeMutableBytes(of: &name.sun_path) { $0.copyBytes(from: bytes) }
  let length =
    bytes.first == 0 ? MemoryLayout<sa_family_t>.size + bytes.count : MemoryLayout<sockaddr_un>.size
  return try withUnsafePointer(to: &name) {
    try $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { try body($0, socklen_t(length)) }
  }
}
