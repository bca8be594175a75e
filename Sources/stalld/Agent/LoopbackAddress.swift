import Glibc

/// An address of the machine itself, with a port: `127.0.0.1:9464`, `[::1]:9464`, `localhost:9464`.
struct LoopbackAddress: Equatable, Sendable, CustomStringConvertible {
  /// In digits.
  var host: String
  var port: UInt16

  /// Nil if the text is no such address.
  init?(_ text: String) {
    guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else { return nil }
    let name = String(text[..<colon])
    self.port = port
    switch name {
    case "localhost": host = "127.0.0.1"
    case "[::1]": host = "::1"
    default:
      var address = in_addr()
      guard inet_pton(AF_INET, name, &address) == 1, UInt32(bigEndian: address.s_addr) >> 24 == 127 else { return nil }
      host = name
    }
  }

  var isVersion6: Bool { host == "::1" }
  var description: String { isVersion6 ? "[\(host)]:\(port)" : "\(host):\(port)" }
}
