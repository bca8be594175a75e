extension SettingType where Value == MetricsAddress {
  /// The metrics are served only on this machine: a proxy can make them public.
  static let metricsAddress = SettingType(
    allowed: MetricsAddress.allowed,
    parse: { text in
      guard let address = MetricsAddress(text) else { return nil }
      switch address {
      case .path(let path): return SettingType<String>.isSocketPath(path) ? address : nil
      case .loopback(let loopback): return loopback.port > 0 ? address : nil
      }
    }, text: \.description)
}

extension SettingType where Value == SyslogAddress {
  static let syslogAddress = SettingType(
    allowed:
      "the absolute path of a socket without //, . and .. parts, such as /dev/log; or tcp:ADDRESS:PORT, such as tcp:127.0.0.1:514",
    parse: { text in
      guard let address = SyslogAddress(text) else { return nil }
      if case .local(let path) = address, !SettingType<String>.isSocketPath(path) { return nil }
      return address
    }, text: \.description)
}
