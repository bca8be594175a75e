import CLinux
import Glibc

/// The process at the other end of a connection, as the kernel tells it.
struct Peer: Sendable, Equatable {
  var pid: Int32
  var uid: UInt32
  var gid: UInt32
  /// Supplementary groups.
  var groups: [UInt32] = []
  /// The control group's path, as `/proc/PID/cgroup` has it; nil if the process had gone before it was read.
  var cgroup: String?

  /// systemd's unit: the first part of the control group's path that is no slice, as the journal's `_SYSTEMD_UNIT`.
  ///
  /// What is below has been made by the unit itself: a user's own `sshd.service` is not the system's.
  var unit: String? {
    let first = cgroup?.split(separator: "/").first { !$0.hasSuffix(".slice") }
    return first.flatMap { $0.hasSuffix(".service") || $0.hasSuffix(".scope") ? String($0) : nil }
  }

  /// Where it runs, for what is said of all its processes together: a service starts many, and anybody may.
  var place: String { "\(uid) \(unit ?? String(pid))" }

  /// Where it runs, for what its processes may send: where there are no units, all of a user's are one place.
  var allowancePlace: String { "\(uid) \(unit ?? "")" }

  /// Where it runs, for whose lines wait for names together.
  ///
  /// In containers every process may be root's, and there may be no unit: the control group tells them apart.
  var namingLane: String { uid == 0 && unit == nil ? "0 \(cgroup ?? "")" : allowancePlace }

  /// For a log line.
  var description: String {
    "process \(pid) of user \(uid)" + (unit.map { " (\($0.forLog))" } ?? "")
  }

  /// Asks the kernel about a connected socket.
  ///
  /// Nil if it does not say, or no descriptor is left. The pidfd, which is the caller's to close, names the process for good; -1 if it has ended already.
  static func of(socket: Int32) -> (peer: Peer, pidfd: Int32)? {
    var credentials = clinux_peer()
    guard clinux_peer_credentials(socket, &credentials) else { return nil }
    var peer = Peer(pid: credentials.pid, uid: credentials.uid, gid: credentials.gid)
    var groups = [UInt32](repeating: 0, count: 256)
    let count = clinux_peer_groups(socket, &groups, Int32(groups.count))
    if count > 0 { peer.groups = Array(groups[..<Int(count)]) }
    guard peer.pid > 0 else { return (peer, -1) }
    var pidfd = clinux_peer_pidfd(socket)
    if pidfd < 0 { pidfd = clinux_pidfd_open(peer.pid) }
    // Without a descriptor for it nothing is known of its end: that is not the same as its having ended.
    if pidfd < 0, [EMFILE, ENFILE, ENOMEM].contains(errno) { return nil }
    let cgroup = controlGroup(of: peer.pid)
    // Only now it is known that the number was still the process's when the file was read.
    if pidfd >= 0, isRunning(pidfd) { peer.cgroup = cgroup }
    return (peer, pidfd)
  }

  private static func isRunning(_ pidfd: Int32) -> Bool {
    var poller = pollfd(fd: pidfd, events: Int16(POLLIN), revents: 0)
    return poll(&poller, 1, 0) == 0
  }

  /// The path in the unified hierarchy, or else in systemd's own (cgroups(7)).
  private static func controlGroup(of pid: Int32) -> String? {
    let descriptor = clinux_open("/proc/\(pid)/cgroup", O_RDONLY | O_CLOEXEC, 0)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var buffer = [UInt8](repeating: 0, count: 16 << 10)
    let count = read(descriptor, &buffer, buffer.count)
    guard count > 0 else { return nil }
    var systemd: String?
    var unified: String?
    for line in String(decoding: buffer[..<count], as: UTF8.self).split(separator: "\n") {
      let fields = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
      guard fields.count == 3 else { continue }
      if fields[1] == "name=systemd" { systemd = String(fields[2]) }
      if fields[0] == "0", fields[1].isEmpty { unified = String(fields[2]) }
    }
    // Where both are mounted, the unified one may be unused.
    if let unified, unified != "/" { return unified }
    return systemd ?? unified
  }
}
