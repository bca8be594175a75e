import Glibc

/// How long this process's control group has been kept from running because it had used up its processor quota.
///
/// `throttled_usec` in version 2's `cpu.stat` (Documentation/admin-guide/cgroup-v2.rst), `throttled_time` in
/// nanoseconds in version 1's (Documentation/scheduler/sched-bwc.rst).
struct ThrottleCounter: ~Copyable {
  private let file: ProcFile
  private let key: [UInt8]
  private let unit: UInt64

  /// Opens the counter of the group that this process is in now.
  ///
  /// Nil if it is in none that has one.
  init?() {
    for (path, isVersion2) in Self.candidates() {
      guard let file = ProcFile(path) else { continue }
      let key = Array((isVersion2 ? "throttled_usec " : "throttled_time ").utf8)
      guard Self.value(of: key, in: file) != nil else { continue }
      self.file = file
      self.key = key
      unit = isVersion2 ? 1000 : 1
      return
    }
    return nil
  }

  /// The total in nanoseconds, or nil if the group is gone.
  ///
  /// About 3 us.
  borrowing func total() -> UInt64? { Self.value(of: key, in: file).map { $0 * unit } }

  private static func value(of key: [UInt8], in file: borrowing ProcFile) -> UInt64? {
    file.parse { text in
      for line in text.split(separator: UInt8(ascii: "\n")) where line.starts(with: key) {
        let digits = UnsafeRawBufferPointer(rebasing: text[line.startIndex + key.count..<line.endIndex])
        return FieldScanner.number(digits).map { UInt64(bitPattern: $0) }
      }
      return nil
    }
  }

  /// Where the counter may be, the most specific first.
  ///
  /// In a container the group's path often is that of the host, and the group itself is mounted at the root.
  private static func candidates() -> [(path: String, isVersion2: Bool)] {
    guard let text = ProcFile("/proc/self/cgroup")?.parse(capacity: 8192, { String(decoding: $0, as: UTF8.self) })
    else {
      return []
    }
    var result: [(String, Bool)] = []
    for line in text.split(separator: "\n") {
      // hierarchy-ID:controller-list:path (cgroups(7)); version 2 is 0::path.
      let fields = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
      guard fields.count == 3 else { continue }
      let group = fields[2] == "/" ? "" : String(fields[2])
      if fields[0] == "0" && fields[1].isEmpty {
        for root in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
          result.append((root + group + "/cpu.stat", true))
          result.append((root + "/cpu.stat", true))
        }
      } else if fields[1].split(separator: ",").contains("cpu") {
        for root in ["/sys/fs/cgroup/\(fields[1])", "/sys/fs/cgroup/cpu"] {
          result.append((root + group + "/cpu.stat", false))
          result.append((root + "/cpu.stat", false))
        }
      }
    }
    return result
  }
}
