import CLinux
import DescriptorIO
import Glibc
import StallCapture

/// The process at the other end of a connection, as identified by the kernel.
struct Peer: Sendable, Equatable {
  let pid: Int32
  let uid: UInt32
  let gid: UInt32
  /// Supplementary groups.
  let groups: [UInt32]
  /// The control group's path, as `/proc/PID/cgroup` has it; nil if the process had gone before it was read.
  let cgroup: String?
  /// systemd's unit: the first part of the control group's path that is no slice, as the journal's `_SYSTEMD_UNIT`.
  ///
  /// What is below has been made by the unit itself: a user's own `sshd.service` is not the system's.
  let unit: String?
  /// Whose limits hold for it: its user, or in the session of a logged-in user that one, who may have many numbers (subuid(5)).
  let owner: UInt32
  /// Where it runs: the unit, or else the container, or nothing; all processes there are limited together.
  ///
  /// Who may make control groups makes them below, and so remains in its place.
  let place: String

  init(pid: Int32, uid: UInt32, gid: UInt32, groups: [UInt32] = [], cgroup: String? = nil) {
    (self.pid, self.uid, self.gid, self.groups, self.cgroup) = (pid, uid, gid, groups, cgroup)
    let parts = cgroup?.split(separator: "/") ?? []
    let first = parts.first { !$0.hasSuffix(".slice") }
    unit = first.flatMap { $0.hasSuffix(".service") || $0.hasSuffix(".scope") ? String($0) : nil }
    owner = Self.sessionOwner(parts) ?? uid
    place = unit ?? Self.container(parts) ?? ""
  }

  /// Whether both have the same user and group, and are limited together.
  func hasSameIdentity(as other: Peer) -> Bool {
    (uid, gid, owner, place) == (other.uid, other.gid, other.owner, other.place)
  }

  /// N of `user.slice/user-N.slice`.
  private static func sessionOwner(_ parts: [Substring]) -> UInt32? {
    guard parts.count >= 2, parts[0] == "user.slice", parts[1].hasPrefix("user-"), parts[1].hasSuffix(".slice") else {
      return nil
    }
    return UInt32(parts[1].dropFirst(5).dropLast(6))
  }

  /// The control group of a container that no unit represents: down to its identifier or its pod, or else two steps.
  private static func container(_ parts: [Substring]) -> String? {
    guard !parts.isEmpty else { return nil }
    let end = parts.firstIndex { part in
      part.hasPrefix("pod") || part.utf8.count == 64 && part.allSatisfy(\.isHexDigit)
    }
    return "/" + parts.prefix(end.map { $0 + 1 } ?? 2).joined(separator: "/")
  }

  /// What a message to the operator is about: at most one a minute for each.
  var complaintKey: String { "\(owner) \(place.isEmpty ? String(pid) : place)" }

  /// Whose lines wait for names together: those of a user's unit or container.
  var namingLane: String { "\(owner) \(place)" }

  /// The ``owner`` in a ``namingLane``.
  static func owner(ofLane lane: String) -> UInt32? { UInt32(lane.prefix { $0 != " " }) }

  /// For a log line.
  var description: String {
    "process \(pid) of user \(uid)" + (unit.map { " (\($0.forLog))" } ?? "")
  }

  /// Asks the kernel about a connected socket, beyond its credentials.
  ///
  /// The caller closes the pidfd, which always means this process; it is -1 if the process has ended already or is not visible.
  ///
  /// - Throws: If no descriptor or memory is left.
  static func of(socket: Int32, _ credentials: PeerCredentials) throws(SystemError) -> (peer: Peer, pidfd: Int32) {
    let groups = groups(of: socket)
    func peer(_ cgroup: String?) -> Peer {
      Peer(
        pid: credentials.pid, uid: credentials.uid, gid: credentials.gid, groups: groups, cgroup: cgroup)
    }
    guard credentials.pid > 0 else { return (peer(nil), -1) }
    var pidfd = clinux_peer_pidfd(socket)
    // Only of a kernel that does not have the former: of a process that is gone, the number may be another one's.
    if pidfd < 0, errno != ESRCH { pidfd = clinux_pidfd_open(credentials.pid) }
    // Without a descriptor for it nothing is known of its end: that is not the same as its having ended.
    if pidfd < 0, case let code = errno, [EMFILE, ENFILE, ENOMEM].contains(code) { throw SystemError(code: code) }
    let cgroup = controlGroup(of: credentials.pid)
    // Only now it is known that the number was still the process's when the file was read.
    return (peer(pidfd >= 0 && isRunning(pidfd) ? cgroup : nil), pidfd)
  }

  /// The supplementary groups of a connected socket's other end; none if the kernel does not say.
  private static func groups(of socket: Int32) -> [UInt32] {
    var capacity: Int32 = 256
    while true {
      var groups = [UInt32](repeating: 0, count: Int(capacity))
      let asked = capacity
      let count = clinux_peer_groups(socket, &groups, &capacity)
      if count >= 0 { return Array(groups[..<Int(count)]) }
      guard errno == ERANGE, capacity > asked else { return [] }
    }
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
    return controlGroup(from: descriptor)
  }

  /// The same from an open `/proc/PID/cgroup`.
  static func controlGroup(from descriptor: Int32) -> String? {
    var buffer = [UInt8](repeating: 0, count: 16 << 10)
    let count = read(descriptor, &buffer, buffer.count)
    guard count > 0 else { return nil }
    var systemd: String?
    var unified: String?
    for membership in ControlGroups.memberships(in: String(decoding: buffer[..<count], as: UTF8.self)) {
      if membership.controllerList == "name=systemd" { systemd = String(membership.path) }
      if membership.isVersion2 { unified = String(membership.path) }
    }
    // Where both are mounted, the unified one may be unused.
    if let unified, unified != "/" { return unified }
    return systemd ?? unified
  }
}
