import Glibc

/// An address of the machine itself, with a port: `127.0.0.1:9464`, `[::1]:9464`, `localhost:9464`.
struct LoopbackAddress: Equatable, Sendable, CustomStringConvertible {
  /// In digits.
  var host: String
  var port: UInt16

  /// Nil if the text is no such address.
  init?(_ text: String) {
    guard let (name, port) = Self.hostAndPort(in: text), name != "::1" else { return nil }
    guard let host = Self.digits(of: name == "[::1]" ? "::1" : name) else { return nil }
    (self.host, self.port) = (host, port)
  }

  /// What is before and after the last colon of a text; nil if a number of a port is not behind it.
  static func hostAndPort(in text: some StringProtocol) -> (host: String, port: UInt16)? {
    guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else { return nil }
    return (String(text[..<colon]), port)
  }

  /// A host of the machine itself in digits, without brackets; nil for any other host.
  static func digits(of host: String) -> String? {
    switch host {
    case "localhost": return "127.0.0.1"
    case "::1": return host
    default:
      var address = in_addr()
      guard inet_pton(AF_INET, host, &address) == 1, UInt32(bigEndian: address.s_addr) >> 24 == 127 else { return nil }
      return host
    }
  }

  var isVersion6: Bool { host == "::1" }
  var description: String { isVersion6 ? "[\(host)]:\(port)" : "\(host):\(port)" }
}
