import CLinux
import Glibc

/// The listening socket that systemd passes (sd_listen_fds(3)) and keeps open while the agent is restarted.
enum InheritedSocket {
  /// Whether there is one that was not taken yet.
  static var isThere: Bool {
    func number(_ name: String) -> Int32? { getenv(name).flatMap { Int32(String(cString: $0)) } }
    return number("LISTEN_PID") == getpid() && (number("LISTEN_FDS") ?? 0) > 0
  }

  /// The descriptor, or nil if there is none.
  ///
  /// The variables are removed, so that no child process uses them.
  static func take() -> Int32? {
    guard isThere else { return nil }
    for name in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"] { unsetenv(name) }
    // SD_LISTEN_FDS_START
    return clinux_set_descriptor_flags(3) ? 3 : nil
  }
}
