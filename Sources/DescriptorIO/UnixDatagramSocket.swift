import PlatformLibc

/// A Unix socket that gets datagrams, such as systemd's `NOTIFY_SOCKET` (sd_notify(3)) and the journal's.
package struct UnixDatagramSocket: Sendable {
  /// As `NOTIFY_SOCKET` spells it.
  package let address: String
  private let name: SocketAddress

  /// Nil if it is neither a path nor a name in the abstract namespace (`@…`), or longer than such a name may be.
  package init?(address: String) {
    let name =
      switch address.utf8.first {
      case UInt8(ascii: "/"): SocketAddress(path: address)
      case UInt8(ascii: "@"): SocketAddress(abstractName: String(address.dropFirst()))
      default: nil as SocketAddress?
      }
    guard let name else { return nil }
    self.address = address
    self.name = name
  }

  /// Sends a datagram, without ever waiting for its reader.
  ///
  /// Returns the errno value if that fails. No descriptor is kept: a service may close all that it does not know.
  @discardableResult
  package func send(_ text: String) -> Int32? {
    var text = text
    return text.withUTF8 { send(UnsafeRawBufferPointer($0)) }
  }

  /// The same; allocates nothing.
  @discardableResult
  package func send(_ text: StaticString) -> Int32? { text.withUTF8Buffer { send(UnsafeRawBufferPointer($0)) } }

  private func send(_ message: UnsafeRawBufferPointer) -> Int32? {
    let descriptor = name.makeSocket(SOCK_DGRAM)
    guard descriptor >= 0 else { return errno }
    defer { close(descriptor) }
    let sent = name.withPointer {
      sendto(descriptor, message.baseAddress, message.count, Int32(MSG_NOSIGNAL | MSG_DONTWAIT), $0, $1)
    }
    return sent == message.count ? nil : errno
  }
}
