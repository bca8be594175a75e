import DescriptorIO
import Glibc
import StallMonitor

/// A syslog daemon: by datagrams or a stream on a Unix socket, or by TCP.
///
/// A Unix socket gets the format of syslog(3), which is all that journald, and rsyslog with its defaults, read there; TCP gets RFC 5424.
/// A message of a TCP stream has its length in front (octet counting, RFC 6587), one of a Unix stream a newline behind. What the
/// kernel has taken when a connection breaks is lost: the protocol has no acknowledgement.
final class SyslogDestination: SingleLineDestination {
  private enum Framing { case datagram, newline, count }

  private var settings: AgentSettings.Output.Syslog
  private var output: LineDescriptor?
  private var framing = Framing.datagram
  private var isConnecting = false
  private let host: String
  // The current message.
  private var message: [UInt8] = []

  init(_ settings: AgentSettings.Output.Syslog) {
    self.settings = settings
    host = ProcessFacts.hostName()
  }

  var name: String { AgentSettings.Output.syslog(settings).name }

  func update(_ settings: AgentSettings.Output.Syslog) { self.settings = settings }

  func reopen() { if output?.isMidLine != true { close() } }

  func close() {
    output = nil
    isConnecting = false
  }

  func send(_ line: ReportLine) -> SendResult {
    if let output, !isConnecting, framing != .datagram, hasLeft(output) { close() }
    if output == nil, case let code = connect(), code != 0 { return .failed(code) }
    guard let output else { return .failed(EBADF) }
    if isConnecting {
      guard isWritable(output) else { return .waits(output.number) }
      let code = pendingError(of: output)
      if code != 0 {
        close()
        return .failed(code)
      }
      isConnecting = false
    }
    if !output.isMidLine { message = frame(line) }
    switch output.write(message) {
    case .written: return .sent
    case .full: return .waits(output.number)
    case .failed(EMSGSIZE) where framing == .datagram:
      return .refused("too long for \(settings.address)", bytes: line.bytes.count)
    case .failed(let code):
      // On a new connection the whole message comes again.
      close()
      return .failed(code)
    }
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
      let code = connect(SOCK_DGRAM, .datagram)
      return code == EPROTOTYPE ? connect(SOCK_STREAM, .newline) : code
    case .tcp: return connect(SOCK_STREAM, .count)
    }
  }

  private func connect(_ type: __socket_type, _ framing: Framing) -> Int32 {
    guard let address = settings.address.socketAddress else { return EINVAL }
    guard let output = LineDescriptor(owning: address.makeSocket(type)) else { return errno }
    self.framing = framing
    if framing == .count {
      // The connection to a peer that no longer responds is closed within half a minute.
      var patience: UInt32 = 30_000
      setsockopt(output.number, Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, &patience, 4)
    }
    let code = address.connect(output.number)
    isConnecting = code == EINPROGRESS
    guard code == 0 || isConnecting else { return code }
    self.output = output
    return 0
  }

  /// Without this the first message after the daemon's restart would go nowhere.
  private func hasLeft(_ peer: LineDescriptor) -> Bool {
    var byte: UInt8 = 0
    let count = recv(peer.number, &byte, 1, Int32(MSG_DONTWAIT))
    return count == 0 || count < 0 && errno != EAGAIN && errno != EINTR
  }

  private func isWritable(_ output: LineDescriptor) -> Bool {
    var entry = pollfd(fd: output.number, events: Int16(POLLOUT), revents: 0)
    return poll(&entry, 1, 0) == 1
  }

  private func pendingError(of output: LineDescriptor) -> Int32 {
    var code: Int32 = 0
    var length = socklen_t(MemoryLayout<Int32>.size)
    return getsockopt(output.number, SOL_SOCKET, SO_ERROR, &code, &length) == 0 ? code : errno
  }
}
