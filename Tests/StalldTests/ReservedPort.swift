import DescriptorIO
import Glibc
import Testing

/// A TCP port of 127.0.0.1 for a daemon of the test's own, which the kernel gives to nobody else as long as this lives.
///
/// It is bound and not listened at. A daemon with SO_REUSEADDR can listen there. Until then,
/// nothing does.
final class ReservedPort: Sendable {
  let number: UInt16
  private let descriptor: Int32

  init() throws {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    self.descriptor = descriptor
    var isOn: Int32 = 1
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &isOn, socklen_t(MemoryLayout<Int32>.size))
    try #require(SocketAddress(host: "127.0.0.1", port: 0)?.bind(descriptor) == 0)
    number = SocketAddress.port(of: descriptor)
  }

  deinit { close(descriptor) }
}
