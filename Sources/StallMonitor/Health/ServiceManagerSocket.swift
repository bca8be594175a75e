import Glibc

/// Where systemd is told how a service is doing (sd_notify(3)): a datagram of `KEY=value` lines to the Unix socket that
/// `NOTIFY_SOCKET` names.
package struct ServiceManagerSocket: Sendable {
  /// As `NOTIFY_SOCKET` spells it.
  package let address: String
  private let name: sockaddr_un
  private let length: socklen_t

  /// Nil if it is neither a path nor a name in the abstract namespace (`@…`), or longer than such a name may be.
  package init?(address: String) {
    guard address.hasPrefix("/") || address.hasPrefix("@") else { return nil }
    var name = sockaddr_un()
    name.sun_family = sa_family_t(AF_UNIX)
    var path = Array(address.utf8)
    if path[0] == UInt8(ascii: "@") { path[0] = 0 }
    guard path.count < MemoryLayout.size(ofValue: name.sun_path) else { return nil }
    withUnsafeMutableBytes(of: &name.sun_path) { $0.copyBytes(from: path) }
    self.address = address
    self.name = name
    // An abstract name ends where the length says.
    length = socklen_t(MemoryLayout<sa_family_t>.size + path.count)
  }

  /// Sends a state, without ever waiting for its reader.
  ///
  /// Returns the errno value if that fails. No descriptor is kept: a host may close all that it does not know.
  @discardableResult
  package func send(_ state: String) -> Int32? {
    var state = state
    return state.withUTF8 { send(UnsafeRawBufferPointer($0)) }
  }

  /// The same; allocates nothing.
  @discardableResult
  func send(_ state: StaticString) -> Int32? { state.withUTF8Buffer { send(UnsafeRawBufferPointer($0)) } }

  private func send(_ message: UnsafeRawBufferPointer) -> Int32? {
    let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { return errno }
    defer { close(descriptor) }
    let sent = withUnsafePointer(to: name) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        sendto(descriptor, message.baseAddress, message.count, Int32(MSG_NOSIGNAL | MSG_DONTWAIT), $0, length)
      }
    }
    return sent == message.count ? nil : errno
  }
}
