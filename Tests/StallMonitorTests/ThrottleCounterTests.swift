import Foundation
import Testing

@testable import StallCapture
@testable import StallMonitor

/// A counter that follows the process from one control group into another.
struct ThrottleCounterTests {
  private final class Groups {
    let directory = FileManager.default.temporaryDirectory.appending(path: "stalld-groups-\(UUID().uuidString)")
    var membership: String { directory.appending(path: "cgroup").path }

    init() throws { try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true) }
    deinit { try? FileManager.default.removeItem(at: directory) }

    func count(_ name: String, _ text: String) throws {
      let group = directory.appending(path: name)
      try FileManager.default.createDirectory(at: group, withIntermediateDirectories: true)
      try write(text, to: group.appending(path: "cpu.stat").path)
    }

    func enter(_ line: String) throws { try write(line + "\n", to: membership) }

    func counter() -> ThrottleCounter? {
      ThrottleCounter(membership: membership, mounts: directory.path, checkInterval: 0)
    }

    /// In place, as the kernel's files change: an open file has the new content.
    private func write(_ text: String, to path: String) throws {
      let file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
      try #require(file >= 0)
      _ = Array(text.utf8).withUnsafeBytes { Glibc.write(file, $0.baseAddress, $0.count) }
      close(file)
    }
  }

  private struct NoCounter: Error {}

  @Test func followsTheProcessIntoAnotherGroup() throws {
    let groups = try Groups()
    try groups.count("a", "usage_usec 9\nthrottled_usec 500\n")
    try groups.count("b", "usage_usec 9\nthrottled_usec 70000\n")
    try groups.enter("0::/a")
    guard let counter = groups.counter() else { throw NoCounter() }
    #expect(counter.total() == 0)
    try groups.count("a", "usage_usec 9\nthrottled_usec 502\n")
    #expect(counter.total() == 2000)
    try groups.enter("0::/b")
    #expect(counter.total() == 2000, "what the group had counted before is not this process's")
    try groups.count("b", "usage_usec 9\nthrottled_usec 70003\n")
    #expect(counter.total() == 5000)
    // And what the old one counts from now on is others'.
    try groups.count("a", "usage_usec 9\nthrottled_usec 900\n")
    #expect(counter.total() == 5000)
  }

  /// As in a service of a slice with `CPUQuota=`.
  @Test func quotasOfTheGroupsAboveCount() throws {
    let groups = try Groups()
    try groups.count("slice", "throttled_usec 100\n")
    try groups.count("slice/service", "throttled_usec 10\n")
    try groups.count("slice/service/unlimited", "usage_usec 9\n")
    try groups.enter("0::/slice/service/unlimited")
    guard let counter = groups.counter() else { throw NoCounter() }
    #expect(counter.total() == 0)
    try groups.count("slice", "throttled_usec 104\n")
    #expect(counter.total() == 4000)
    try groups.count("slice/service", "throttled_usec 11\n")
    #expect(counter.total() == 5000)
  }

  @Test func groupWithoutACounterIsLeftForOneThatHasIt() throws {
    let groups = try Groups()
    try groups.enter("0::/nowhere")
    guard let counter = groups.counter() else { throw NoCounter() }
    #expect(counter.total() == 0)
    // Version 1.
    try groups.count("cpu,cpuacct/job", "nr_periods 3\nthrottled_time 1000\n")
    try groups.enter("4:cpu,cpuacct:/job\n0::/")
    #expect(counter.total() == 0)
    try groups.count("cpu,cpuacct/job", "nr_periods 3\nthrottled_time 1700\n")
    #expect(counter.total() == 700)
    try groups.enter("0::/gone")
    #expect(counter.total() == 700)
  }
}
