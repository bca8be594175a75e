import PlatformLibc

/// How long this process has been kept from running because its control group had used up its processor quota.
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

  /// Opens the counter of the group that this process is in now.
  ///
  /// Nil without control groups.
  package init?() {
    self.init(membership: ControlGroups.file, mounts: "/sys/fs/cgroup", checkInterval: Self.checkInterval)
  }

  /// The same with files of one's own, for tests.
  package init?(membership: String, mounts: String, checkInterval: UInt64) {
    guard let file = ProcFile(membership) else { return nil }
    state = State(membership: file, mounts: mounts, checkInterval: checkInterval)
  }

  /// The total in nanoseconds since the counter was made; what a group had counted before the process was in it is left out.
  ///
  /// About 3 us, and as much again ten times a second.
  package borrowing func total() -> UInt64 { state.total() }

  /// An open counter of one group.
  private struct Group: ~Copyable {
    let file: ProcFile
    let key: StaticString
    let unit: UInt64
    /// What it had counted when it was opened.
    let start: UInt64

    /// The first of the files that has a counter; nil if none has.
    init?(_ candidates: [(path: String, isVersion2: Bool)]) {
      for (path, isVersion2) in candidates {
        guard let file = ProcFile(path) else { continue }
        let key: StaticString = isVersion2 ? "throttled_usec " : "throttled_time "
        let unit: UInt64 = isVersion2 ? 1000 : 1
        guard let start = Self.value(of: key, in: file) else { continue }
        self.file = file
        self.key = key
        self.unit = unit
        self.start = start
        return
      }
      return nil
    }

    /// In nanoseconds since it was opened; nil if the group is gone.
    borrowing func total() -> UInt64? {
      Self.value(of: key, in: file).map { $0 > start ? ($0 - start) &* unit : 0 }
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
    /// What ``membership`` said when ``group`` was opened.
    private var text = ""
    private var group: Group?
    /// What the groups before ``group`` have counted.
    private var past: UInt64 = 0
    private var latest: UInt64 = 0
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
      if let counted = group?.total() { latest = max(latest, past + counted) }
    }

    private func follow() {
      guard let now = membership.parse(capacity: 8192, { String(decoding: $0, as: UTF8.self) }), now != text else {
        return
      }
      text = now
      past = latest
      group = Group(
        ControlGroups.files(
          named: "cpu.stat", controller: "cpu", of: ControlGroups.memberships(in: now), mounts: mounts))
    }
  }
}
