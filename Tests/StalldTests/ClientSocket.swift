import Foundation
import TestSupport

/// A client's end of a stream socket, read and written as bytes.
final class ClientSocket {
  let descriptor: Int32

  /// To a port of 127.0.0.1.
  init(port: UInt16) throws {
    descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    var name = sockaddr_in()
    name.sin_family = sa_family_t(AF_INET)
    name.sin_port = port.bigEndian
    name.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    try withUnsafePointer(to: name) {
      try $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        try connect($0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
  }

  /// To a path.
  init(path: String) throws {
    descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    try withUnixAddress(path.utf8) { try connect($0, $1) }
  }

  private func connect(_ name: UnsafePointer<sockaddr>, _ length: socklen_t) throws {
    var time = timeval(tv_sec: 60, tv_usec: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &time, socklen_t(MemoryLayout<timeval>.size))
    if Glibc.connect(descriptor, name, length) != 0 { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
  }

  deinit { close(descriptor) }

  /// False if the other side has closed.
  @discardableResult
  func send(_ text: String) -> Bool {
    let bytes = Array(text.utf8)
    return Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count
  }

  /// All that comes until the other side closes.
  func readToEnd() -> String {
    var all: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 65536)
    while case let count = recv(descriptor, &buffer, buffer.count, 0), count > 0 { all += buffer[..<count] }
    return String(decoding: all, as: UTF8.self)
  }

  /// The next line, with its newline; what there is if the other side closes.
  func line() -> String {
    var all: [UInt8] = []
    var byte: UInt8 = 0
    while recv(descriptor, &byte, 1, 0) == 1 {
      all.append(byte)
      if byte == 0x0a { break }
    }
    return String(decoding: all, as: UTF8.self)
  }

  /// Whether the other side has closed, without waiting.
  var isClosed: Bool {
    var byte: UInt8 = 0
    let count = recv(descriptor, &byte, 1, Int32(MSG_DONTWAIT) | Int32(MSG_PEEK))
    return count == 0 || (count < 0 && errno != EAGAIN)
  }

  /// The answer to one request, as it is on the wire.
  static func http(_ port: UInt16, _ request: String) throws -> String {
    let socket = try ClientSocket(port: port)
    socket.send(request + "\r\nHost: localhost\r\n\r\n")
    return socket.readToEnd()
  }
}
