import CLinux
import PlatformLibc

/// Who is at the other end of a Unix socket, as it was when that end connected.
package struct PeerCredentials: Sendable, Equatable {
  /// 0 if the process is in a PID namespace that cannot be seen.
  package let pid: Int32
  package let uid: UInt32
  package let gid: UInt32

  /// Nil, with errno, if the kernel does not say.
  package init?(socket: Int32) {
    var raw = clinux_peer()
    guard clinux_peer_credentials(socket, &raw) else { return nil }
    (pid, uid, gid) = (raw.pid, raw.uid, raw.gid)
  }
}
