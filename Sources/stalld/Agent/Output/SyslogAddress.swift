import Glibc

/// Where a syslog daemon listens: `/dev/log`, `tcp:127.0.0.1:514`, `tcp:[::1]:514`.
///
/// Hosts are numbers or `localhost`: looking up a name could take seconds, each time that the connection is made.
enum SyslogAddress: Sendable, Hashable, CustomStringConvertible {
  case local(path: String)
  case tcp(host: String, port: UInt16)

  /// Nil if the text is none of these.
  init?(_ text: String) {
    if text.hasPrefix("/") {
      guard text.utf8.count < MemoryLayout.size(ofValue: sockaddr_un().sun_path) else { return nil }
      self = .local(path: text)
      return
    }
    guard text.hasPrefix("tcp:"), let colon = text.lastIndex(of: ":"),
      let port = UInt16(text[text.index(after: colon)...]), port > 0, text.count > 4,
      text.index(text.startIndex, offsetBy: 3) < colon
    else { return nil }
    var host = String(text[text.index(text.startIndex, offsetBy: 4)..<colon])
    if host.hasPrefix("[") && host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) }
    self = .tcp(host: host, port: port)
    if socketAddress == nil { return nil }
  }

  var description: String {
    switch self {
    case .local(let path): path
    case .tcp(let host, let port): host.contains(":") ? "tcp:[\(host)]:\(port)" : "tcp:\(host):\(port)"
    }
  }

  /// The address as the kernel wants it, with its length; nil if the host is no number.
  var socketAddress: (storage: sockaddr_storage, length: socklen_t)? {
    var storage = sockaddr_storage()
    func put<Address>(_ address: Address) -> (sockaddr_storage, socklen_t) {
      withUnsafeMutableBytes(of: &storage) { $0.storeBytes(of: address, as: Address.self) }
      return (storage, socklen_t(MemoryLayout<Address>.size))
    }
    switch self {
    case .local(let path):
      var address = sockaddr_un()
      address.sun_family = sa_family_t(AF_UNIX)
      withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8.prefix($0.count - 1)) }
      return put(address)
    case .tcp(let host, let port):
      var four = sockaddr_in()
      four.sin_family = sa_family_t(AF_INET)
      four.sin_port = port.bigEndian
      if inet_pton(AF_INET, host == "localhost" ? "127.0.0.1" : host, &four.sin_addr) == 1 { return put(four) }
      var six = sockaddr_in6()
      six.sin6_family = sa_family_t(AF_INET6)
      six.sin6_port = port.bigEndian
      return inet_pton(AF_INET6, host, &six.sin6_addr) == 1 ? put(six) : nil
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
