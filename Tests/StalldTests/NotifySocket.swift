import Foundation
import TestSupport
import Testing

/// The service manager's end of sd_notify(3): a datagram socket that keeps what it receives.
final class NotifySocket {
  /// Where the socket has its name.
  enum Name: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case path, abstract

    var testDescription: String { rawValue }
  }

  /// What NOTIFY_SOCKET has to say.
  let address: String
  private let descriptor: Int32
  private let scratch: ScratchDirectory

  init(_ name: Name) throws {
    scratch = try ScratchDirectory()
    let path = scratch.url.appending(path: "notify").path
    address = name == .path ? path : "@\(path)"
    descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    try #require(descriptor >= 0)
    let descriptor = descriptor
    let bound = withUnixAddress((name == .abstract ? [0] : []) + Array(path.utf8)) { bind(descriptor, $0, $1) }
    try #require(bound == 0, "\(address): \(String(cString: strerror(errno)))")
  }

  deinit { close(descriptor) }

  /// The next message, or nil if there is none within the time, in milliseconds.
  ///
  /// With 0 it takes only what is there already.
  func next(within milliseconds: Int32) -> String? {
    var poller = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    guard poll(&poller, 1, milliseconds) == 1 else { return nil }
    var buffer = [UInt8](repeating: 0, count: 4096)
    let count = recv(descriptor, &buffer, buffer.count, 0)
    return count < 0 ? nil : String(decoding: buffer[..<count], as: UTF8.self)
  }
}
