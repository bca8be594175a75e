import DescriptorIO
import Glibc

/// Where a syslog daemon listens: `/dev/log`, `tcp:127.0.0.1:514`, `tcp:[::1]:514`.
///
/// Hosts are numbers or `localhost`: looking up a name could take seconds, each time that the connection is made.
enum SyslogAddress: Sendable, Hashable, CustomStringConvertible {
  case local(path: String)
  case tcp(host: String, port: UInt16)

  /// Nil if the text is no such address.
  init?(_ text: String) {
    if text.hasPrefix("/") {
      guard text.utf8.count <= SocketAddress.longestPath else { return nil }
      self = .local(path: text)
      return
    }
    guard text.hasPrefix("tcp:"), let (name, port) = LoopbackAddress.hostAndPort(in: text.dropFirst(4)), port > 0
    else { return nil }
    let host = name.hasPrefix("[") && name.hasSuffix("]") ? String(name.dropFirst().dropLast()) : name
    self = .tcp(host: host, port: port)
    if socketAddress == nil { return nil }
  }

  var description: String {
    switch self {
    case .local(let path): path
    case .tcp(let host, let port): host.contains(":") ? "tcp:[\(host)]:\(port)" : "tcp:\(host):\(port)"
    }
  }

  /// The address as the kernel takes it; nil if the host is no number.
  var socketAddress: SocketAddress? {
    switch self {
    case .local(let path): SocketAddress(path: path)
    case .tcp(let host, let port): SocketAddress(host: host == "localhost" ? "127.0.0.1" : host, port: port)
    }
  }
}

/// The facilities of RFC 5424 that a daemon may use.
enum SyslogFacility: String, Sendable, CaseIterable {
  case kern, user, mail, daemon, auth, syslog, lpr, news, uucp, cron, authpriv, ftp
  case local0, local1, local2, local3, local4, local5, local6, local7

  /// The number on the wire.
  var code: Int {
    let position = Self.allCases.firstIndex(of: self)!
    // 12 to 15 are not for programs.
    return position < 12 ? position : position + 4
  }
}
