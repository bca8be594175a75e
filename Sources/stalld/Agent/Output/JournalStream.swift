import DescriptorIO
import Glibc

/// A stream of lines to journald, as sd_journal_stream_fd(3) opens one.
enum JournalStream {
  static let path = "/run/systemd/journal/stdout"
  // The identifier; the unit, which journald finds out itself; the priority of lines without one; that lines have one; and that
  // they are forwarded neither to syslog nor to the kernel's log nor to the console.
  private static let header = Array("stalld\n\n6\n1\n0\n0\n0\n".utf8)

  /// Returns a socket that does not wait, or -1 with errno.
  static func connect(at path: String) -> Int32 {
    guard let address = SocketAddress(path: path) else {
      errno = ENAMETOOLONG
      return -1
    }
    let descriptor = address.connectedStream()
    guard descriptor >= 0 else { return -1 }
    if send(descriptor, header, header.count, Int32(MSG_NOSIGNAL)) == header.count { return descriptor }
    let code = errno
    close(descriptor)
    errno = code
    return -1
  }
}
