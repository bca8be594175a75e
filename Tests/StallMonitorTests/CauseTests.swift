import Foundation
import TestSupport
import Testing

extension WatchedHosts {
  /// Causes that the machine brings about, provoked for real.
  @Suite(
    .serialized, .takingTurns(aloneBecause: "processors are taken away from hosts"),
    .repeatedAfterStandstills(because: "a cause is what most of a stall's time went to"))
  struct CauseTests {
    /// Two others on the same processor, and the host's turn takes three times as long.
    @Test func loopWithoutAProcessorIsStarved() throws {
      let spinners = try Spinners(onProcessors: [0, 0])
      defer { spinners.stop() }
      let milliseconds = TestMachine.isEmulated ? 10_000 : 1500
      let victim = try Victim.run("compute", milliseconds: milliseconds, through: ["/usr/bin/taskset", "-c", "0"])
      let ended = try #require(victim.reports.last)
      #expect(ended.event == "stall.ended")
      #expect(ended.cause == "starved")
      #expect(ended.culprit.contains("blockByComputing()"))
      let delay = try #require(ended["stall", "evidence", "run_delay_ms"] as? Double)
      let cpu = try #require(ended["stall", "evidence", "cpu_ms"] as? Double)
      #expect(delay > cpu)
    }

    /// A control group whose quota is a fifth of a processor.
    @Test(.enabled(if: ControlGroup.isUsable, "needs root and a control group hierarchy with the cpu controller"))
    func loopOverItsQuotaIsThrottled() throws {
      let group = try ControlGroup(quota: 20_000)
      defer { group.remove() }
      let milliseconds = TestMachine.isEmulated ? 10_000 : 1500
      let victim = try Victim.run("compute", milliseconds: milliseconds, through: group.wrapper)
      let ended = try #require(victim.reports.last)
      #expect(ended.event == "stall.ended")
      // The group has used up its quota on any machine. On a busy one the host waits for a processor longer than for the quota.
      let throttled = try #require(ended["stall", "evidence", "throttled_ms"] as? Double)
      let delay = try #require(ended["stall", "evidence", "run_delay_ms"] as? Double)
      let observed = try #require(ended["stall", "evidence", "observed_ms"] as? Double)
      #expect(throttled > 0)
      #expect(ended.cause == (throttled > observed / 2 || throttled > delay / 2 ? "throttled" : "starved"))
      if ended.cause == "throttled" { #expect(throttled > ended.duration / 3) }
    }

    struct Known: Sendable, CustomTestStringConvertible {
      var call: String
      var cause: String
      var wait: String
      var testDescription: String { call }
    }

    /// A call that blocks the loop, by what it waits for.
    @Test(arguments: [
      Known(call: "read of a pipe", cause: "io", wait: "read(fd "),
      Known(call: "open of a FIFO", cause: "io", wait: "openat(/tmp/"),
      Known(call: "flock", cause: "lock", wait: "flock(fd "),
      Known(call: "fcntl F_OFD_SETLKW", cause: "lock", wait: "fcntl(fd "),
      Known(call: "clock_nanosleep", cause: "sleep", wait: "clock_nanosleep(300 ms)"),
      Known(call: "waitpid", cause: "lock", wait: "wait4(pid "),
    ])
    func callIsReportedWithItsCause(known: Known) throws {
      // The calls take less than a second.
      let milliseconds = TestMachine.isEmulated ? 900 : 300
      let victim = try Victim.run(
        "call", milliseconds: milliseconds,
        environment: ["VICTIM_CALL": known.call, "STALLMONITOR_THRESHOLD": "50ms"])
      let report = try #require(TestMachine.isEmulated ? victim.reports.last : victim.reports.first)
      #expect(report.cause == known.cause)
      let wait = try #require(report["stall", "evidence", "wait"] as? String)
      #expect(wait.hasPrefix(known.wait.replacing("300", with: "\(milliseconds)")), "\(wait)")
      #expect((report["message"] as? String)?.contains(wait) == true)
    }

    /// A mapped file that is dropped from memory repeatedly.
    @Test func loopThatReadsItsMemoryFromDiskIsInFaults() throws {
      // Not below /tmp, which may be memory itself.
      let file = Repository.root.appending(path: ".build/faults-\(UUID().uuidString)")
      defer { try? FileManager.default.removeItem(at: file) }
      try Data(repeating: 7, count: 64 << 20).write(to: file)
      // Written back: dirty pages cannot be dropped.
      let handle = try FileHandle(forUpdating: file)
      try handle.synchronize()
      try handle.close()
      var causes: [String] = []
      // A machine whose disk is all cache, or that has no processor to spare, may get another go.
      for _ in 0..<4 where causes.last != "fault" {
        let victim = try Victim.run("faults", milliseconds: 700, environment: ["VICTIM_FILE": file.path])
        let ended = try #require(victim.reports.last)
        causes.append(ended.cause)
        guard ended.cause == "fault" else { continue }
        #expect(ended["stall", "evidence", "major_faults"] as? Int ?? 0 > 0)
        #expect(ended.culprit.contains("blockByFaulting()"))
      }
      // On a very fast disk the processor does most of the work, or half of it.
      #expect(
        causes.last == "fault" || causes.allSatisfy { ["running", "starved", "throttled", "unknown"].contains($0) },
        "\(causes)")
    }

    /// The machine's pressure during the stall is reported where the kernel counts it.
    @Test(.enabled(if: FileManager.default.fileExists(atPath: "/proc/pressure/cpu")))
    func pressureIsReported() throws {
      let victim = try Victim.run("sleep", milliseconds: TestMachine.isEmulated ? 1500 : 300)
      let pressure = try #require(victim.reports.last?["stall", "evidence", "pressure"] as? [String: Double])
      #expect(pressure.values.allSatisfy { $0 >= 0 && $0 < 60_000 })
      #expect(pressure["cpu_ms"] != nil)
    }

    /// A pipe, a socket and a lock of the host's, in the words of the report.
    @Test(
      .disabled(
        if: TestMachine.isEmulated, "the monitor misses the demo's short stalls while it reads names, for over a second"
      ))
    func whatWasWaitedForIsNamed() throws {
      let demo = try Program.run(Victim.Build.debug.executable("stalld").path, ["demo"])
      #expect(demo.status == 0, "\(demo.errors)")
      let lines = demo.data
      try ReportSchema.expectValid(lines)
      let ended = try lines.split(separator: UInt8(ascii: "\n")).map(WrittenReport.init).filter {
        $0.event == "stall.ended"
      }
      let waits = ended.map { $0["stall", "evidence", "wait"] as? String }
      try #require(waits.count == 4)
      #expect(waits[0] == nil)
      #expect(waits[1]?.hasPrefix("clock_nanosleep(") == true)
      #expect(waits[2]?.hasPrefix("read(fd ") == true && waits[2]?.contains("→ pipe:[") == true)
      #expect(waits[3] == "futex(wait): pthread mutex")
      let holder = try #require((ended[3]["threads"] as? [[String: Any]])?.first)
      #expect(holder["name"] as? String == "lock-keeper")
      let stack = try #require(holder["stack"] as? [[String: Any]])
      #expect(stack.contains { ($0["symbol"] as? String)?.contains("keepTheLock") == true })
    }
  }
}

/// A control group of the test's own with a processor quota, in either version of the hierarchy.
struct ControlGroup {
  private let directory: URL
  /// Runs a command as a member of the group.
  let wrapper: [String]

  private static let roots = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup"]

  private static let root: (url: URL, isVersion2: Bool)? = {
    guard geteuid() == 0 else { return nil }
    for path in roots {
      let url = URL(fileURLWithPath: path)
      if FileManager.default.isWritableFile(atPath: path + "/cpu.cfs_quota_us") { return (url, false) }
      let controllers = try? String(contentsOf: url.appending(path: "cgroup.subtree_control"), encoding: .utf8)
      if controllers?.contains("cpu ") == true || controllers?.hasSuffix("cpu\n") == true { return (url, true) }
    }
    return nil
  }()

  static var isUsable: Bool { root != nil }

  /// A group that may run for `quota` microseconds in each tenth of a second.
  init(quota: Int) throws {
    let root = try #require(Self.root)
    directory = root.url.appending(path: "stalld-test-\(getpid())")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
    if root.isVersion2 {
      try "\(quota) 100000".write(to: directory.appending(path: "cpu.max"), atomically: false, encoding: .utf8)
    } else {
      try "100000".write(to: directory.appending(path: "cpu.cfs_period_us"), atomically: false, encoding: .utf8)
      try "\(quota)".write(to: directory.appending(path: "cpu.cfs_quota_us"), atomically: false, encoding: .utf8)
    }
    wrapper = ["/bin/sh", "-c", "echo $$ > \(directory.path)/cgroup.procs; exec \"$@\"", "sh"]
  }

  func remove() { rmdir(directory.path) }
}
