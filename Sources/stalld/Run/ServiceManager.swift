import Glibc

/// Tells systemd how the service is doing, if systemd asked to be told (sd_notify(3)).
///
/// The protocol is a datagram of `KEY=value` lines to the Unix socket that `NOTIFY_SOCKET` names.
struct ServiceManager {
  private let address: String

  /// Nil if nobody wants to know.
  init?() {
    guard let value = getenv("NOTIFY_SOCKET") else { return nil }
    address = String(cString: value)
    // A path, or a name in the abstract namespace.
    guard address.hasPrefix("/") || address.hasPrefix("@") else { return nil }
  }

  /// Sends the state.
  ///
  /// False if it could not be sent.
  @discardableResult
  func notify(_ state: String) -> Bool {
    let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
    guard descriptor >= 0 else { return false }
    defer { close(descriptor) }
    var name = sockaddr_un()
    name.sun_family = sa_family_t(AF_UNIX)
    var path = Array(address.utf8)
    if path[0] == UInt8(ascii: "@") { path[0] = 0 }
    guard path.count < MemoryLayout.size(ofValue: name.sun_path) else { return false }
    withUnsafeMutableBytes(of: &name.sun_path) { $0.copyBytes(from: path) }
    let length = socklen_t(MemoryLayout<sa_family_t>.size + path.count)
    let message = Array(state.utf8)
    return withUnsafePointer(to: &name) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        sendto(descriptor, message, message.count, Int32(MSG_NOSIGNAL), $0, length) == message.count
      }
    }
  }
}
