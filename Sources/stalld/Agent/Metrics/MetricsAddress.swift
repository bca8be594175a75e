/// Where metrics are served: a path, or an address of the machine itself.
enum MetricsAddress: Equatable, Sendable, CustomStringConvertible {
  case path(String)
  case loopback(LoopbackAddress)

  /// What ``init(_:)`` takes.
  static let allowed =
    "unix:/PATH (without //, . and .. parts), or a loopback address with its port, such as 127.0.0.1:9464 or [::1]:9464"

  /// Nil if the text is not ``allowed``.
  init?(_ text: String) {
    if text.hasPrefix("unix:/") {
      self = .path(String(text.dropFirst("unix:".count)))
    } else if let address = LoopbackAddress(text) {
      self = .loopback(address)
    } else {
      return nil
    }
  }

  var description: String {
    switch self {
    case .path(let path): "unix:\(path)"
    case .loopback(let address): "\(address)"
    }
  }

  func listen() throws(StreamListener.Failure) -> StreamListener {
    switch self {
    case .path(let path): try StreamListener(path: path, mode: 0o660)
    case .loopback(let address): try StreamListener(address)
    }
  }
}
