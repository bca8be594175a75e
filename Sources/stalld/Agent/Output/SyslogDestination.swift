import CLinux
import Glibc

/// A syslog daemon: by datagrams or a stream on a Unix socket, or by TCP.
///
/// A Unix socket gets the format of syslog(3), which is all that journald, and rsyslog with its defaults, read there; TCP gets RFC 5424.
/// A message of a TCP stream has its length in front (octet counting, RFC 6587), one of a Unix stream a newline behind. What the
/// kernel has taken when a connection breaks is lost: the protocol has no acknowledgement.
final class SyslogDestination: SingleLineDestination {
  private enum Framing { case datagram, newline, count }

  private var settings: AgentSettings.Output.Syslog
  private var descriptor: Int32 = -1
  private var framing = Framing.datagram
  private var isConnecting = false
  private let host: String
  // The message that is under way, and how much of it is out.
  private var message: [UInt8] = []
  private var sent = 0

  init(_ settings: AgentSettings.Output.Syslog) {
    self.settings = settings
    var name = [CChar](repeating: 0, count: 256)
    gethostname(&name, name.count - 1)
    host = String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  deinit { close() }

  var name: String { "syslog \(settings.address)" }
  var isMidLine: Bool { sent > 0 }

  func update(_ settings: AgentSettings.Output.Syslog) { self.settings = settings }

  func reopen() { if sent == 0 { close() } }

  func close() {
    if descriptor >= 0 { Glibc.close(descriptor) }
    descriptor = -1
    isConnecting = false
    sent = 0
  }

  func send(_ line: ReportLine) -> SendResult {
    if descriptor >= 0, !isConnecting, framing != .datagram, hasPeerLeft { close() }
    if descriptor < 0, case let code = connect(), code != 0 { return .failed(code) }
    if isConnecting {
      guard isWritable else { return .waits(descriptor) }
      let code = pendingError
      if code != 0 {
        close()
        return .failed(code)
      }
      isConnecting = false
    }
    if sent == 0 { message = frame(line) }
    while sent < message.count {
      let count = message.withUnsafeBytes {
        Glibc.send(
          descriptor, $0.baseAddress! + sent, $0.count - sent, Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL))
      }
      if count >= 0 {
        sent += count
        continue
      }
      switch errno {
      case EINTR: continue
      case EAGAIN, ENOBUFS: return .waits(descriptor)
      case EMSGSIZE where framing == .datagram:
        return .refused("too long for \(settings.address)", bytes: line.bytes.count)
      case let code:
        // On a new connection the whole message comes again.
        close()
        return .failed(code)
      }
    }
    sent = 0
    return .sent
  }

  private func frame(_ line: ReportLine) -> [UInt8] {
    let message =
      switch settings.address {
      case .local: SyslogMessage.local(of: line, facility: settings.facility, process: getpid())
      case .tcp: SyslogMessage.bytes(of: line, facility: settings.facility, host: host, process: getpid())
      }
    return switch framing {
    case .datagram: message
    case .newline: message + [UInt8(ascii: "\n")]
    case .count: Array("\(message.count) ".utf8) + message
    }
  }

  // MARK: Connections

  /// Returns the errno value if it fails.
  private func connect() -> Int32 {
    switch settings.address {
    case .local:
      let code = connect(AF_UNIX, Int32(SOCK_DGRAM.rawValue), .datagram)
      return code == EPROTOTYPE ? connect(AF_UNIX, Int32(SOCK_STREAM.rawValue), .newline) : code
    case .tcp(let host, _):
      return connect(host.contains(":") ? AF_INET6 : AF_INET, Int32(SOCK_STREAM.rawValue), .count)
    }
  }

  private func connect(_ domain: Int32, _ type: Int32, _ framing: Framing) -> Int32 {
    guard let (storage, length) = settings.address.socketAddress else { return EINVAL }
    var address = storage
    descriptor = socket(domain, type | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
    guard descriptor >= 0 else { return errno }
    self.framing = framing
    if framing == .count {
      // A peer that no longer answers is given up within half a minute.
      var patience: UInt32 = 30_000
      setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, &patience, 4)
    }
    let descriptor = descriptor
    let result = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { Glibc.connect(descriptor, $0, length) }
    }
    isConnecting = result != 0 && errno == EINPROGRESS
    if result == 0 || isConnecting { return 0 }
    let code = errno
    close()
    return code
  }

  /// Without this the first message after the daemon's restart would go nowhere.
  private var hasPeerLeft: Bool {
    var byte: UInt8 = 0
    let count = recv(descriptor, &byte, 1, Int32(MSG_DONTWAIT))
    return count == 0 || count < 0 && errno != EAGAIN && errno != EINTR
  }

  private var isWritable: Bool {
    var entry = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
    return poll(&entry, 1, 0) == 1
  }

  private var pendingError: Int32 {
    var code: Int32 = 0
    var length = socklen_t(MemoryLayout<Int32>.size)
    return getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &length) == 0 ? code : errno
  }
}
