import PlatformLibc

/// How long a process has been kept from running because its control group, or one above it, had used up its processor quota.
///
/// `throttled_usec` in version 2's `cpu.stat` (Documentation/admin-guide/cgroup-v2.rst), `throttled_time` in
/// nanoseconds in version 1's (Documentation/scheduler/sched-bwc.rst). The counter follows the process into another
/// group. Belongs to the thread that made it: the watchdog's files lie in a descriptor table of its own.
package struct ThrottleCounter: ~Copyable {
  private let state: State

  /// How long the counter of one group is read before it is asked again which group the process is in.
  ///
  /// The kernel takes a lock of its own to answer that.
  private static let checkInterval: UInt64 = 100_000_000

  /// Opens the counter of the group that the process is in now.
  ///
  /// Nil without control groups.
  package init?(of process: ProcessHandle) {
    self.init(membership: process.controlGroups, mounts: "/sys/fs/cgroup", checkInterval: Self.checkInterval)
  }

  /// The same with files of one's own, for tests.
  package init?(membership: String, mounts: String, checkInterval: UInt64) {
    guard let file = ProcFile(membership) else { return nil }
    state = State(membership: file, mounts: mounts, checkInterval: checkInterval)
  }

  /// The total in nanoseconds since the counter was made; what a group had counted before the process was in it is left out.
  ///
  /// About 3 us for each group from the process's own up to the mount, and as much again ten times a second.
  package borrowing func total() -> UInt64 { state.total() }

  /// What of the last ``total()`` the process's own group has counted: it has used up a quota of its own.
  package borrowing func ownTotal() -> UInt64 { state.latestOwn }

  /// An open counter of one group.
  private final class Group {
    private let file: ProcFile
    private let key: StaticString
    private let unit: UInt64
    /// Whether it is the process's own, and not one above it.
    let isOwn: Bool
    /// What it had counted when it was opened.
    private let start: UInt64
    private var latest: UInt64 = 0

    /// Nil if the file has no counter.
    init?(_ path: String, isVersion2: Bool, isOwn: Bool) {
      let key: StaticString = isVersion2 ? "throttled_usec " : "throttled_time "
      guard let file = ProcFile(path), let start = Self.value(of: key, in: file) else { return nil }
      self.file = file
      self.key = key
      self.unit = isVersion2 ? 1000 : 1
      self.start = start
      self.isOwn = isOwn
    }

    /// The first of the groups with those above it, as far as they have counters; none if no group has.
    static func chain(_ candidates: [ControlGroups.File]) -> [Group] {
      for candidate in candidates {
        let groups = ([candidate.path] + candidate.above).compactMap {
          Group($0, isVersion2: candidate.isVersion2, isOwn: $0 == candidate.path)
        }
        if !groups.isEmpty { return groups }
      }
      return []
    }

    /// In nanoseconds since it was opened; what it was before if the group is gone.
    func total() -> UInt64 {
      if let value = Self.value(of: key, in: file), value > start { latest = max(latest, (value - start) &* unit) }
      return latest
    }

    private static func value(of key: StaticString, in file: borrowing ProcFile) -> UInt64? {
      file.parse { text in
        var scanner = FieldScanner(after: key, in: text)
        return scanner?.number().map { UInt64(bitPattern: $0) }
      }
    }
  }

  /// What changes while the counter is only borrowed.
  private final class State {
    private let membership: ProcFile
    private let mounts: String
    private let checkInterval: UInt64
    /// What ``membership`` said when ``groups`` were opened.
    private var text = ""
    /// The process's own, and those above it.
    private var groups: [Group] = []
    /// What the groups before ``groups`` have counted.
    private var past: UInt64 = 0
    private var pastOwn: UInt64 = 0
    private var latest: UInt64 = 0
    private(set) var latestOwn: UInt64 = 0
    private var nextCheck: UInt64 = 0

    init(membership: consuming ProcFile, mounts: String, checkInterval: UInt64) {
      self.membership = membership
      self.mounts = mounts
      self.checkInterval = checkInterval
      follow()
    }

    /// Never less than it was.
    func total() -> UInt64 {
      count()
      let now = MonotonicClock.now()
      guard now >= nextCheck else { return latest }
      nextCheck = now + checkInterval
      follow()
      return latest
    }

    private func count() {
      (latest, latestOwn) = (past, pastOwn)
      for group in groups {
        let total = group.total()
        latest += total
        if group.isOwn { latestOwn += total }
      }
    }

    private func follow() {
      guard let now = membership.parse(capacity: 8192, { String(decoding: $0, as: UTF8.self) }), now != text else {
        return
      }
      text = now
      (past, pastOwn) = (latest, latestOwn)
      groups = Group.chain(
        ControlGroups.files(
          named: "cpu.stat", controller: "cpu", of: ControlGroups.memberships(in: now), mounts: mounts))
    }
  }
}
