#if canImport(Glibc)
import Glibc
#else
import Musl
#endif

/// A pair of sockets: a byte written to one is an event on the other.
final class WakeSocket: Sendable {
  struct Failure: Error { var code: Int32 }

  private let near: Int32
  /// The end to watch; its receiver owns it.
  let far: Int32

  init() throws(Failure) {
    var ends: (Int32, Int32) = (-1, -1)
    #if canImport(Glibc)
    let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
    #else
    let kind = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK
    #endif
    let code = withUnsafeMutablePointer(to: &ends) {
      // A tuple of two is laid out as C's array of two.
      $0.withMemoryRebound(to: Int32.self, capacity: 2) { socketpair(AF_UNIX, kind, 0, $0) }
    }
    guard code == 0 else { throw Failure(code: errno) }
    (near, far) = ends
  }

  deinit { close(near) }

  /// Sends a byte.
  ///
  /// Never waits, and raises no SIGPIPE when the other end has been closed.
  func wake() {
    var byte: UInt8 = 1
    _ = send(near, &byte, 1, Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL))
  }
}
