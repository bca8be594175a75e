import Foundation
import StallDetection
import TestSupport
import Testing
import VictimC

@testable import StallMonitor

extension WatchedHosts {
  /// Hosts that do not stall: the first thing that a stall monitor must get right.
  @Suite(
    .serialized, .takingTurns(aloneBecause: "a host is judged to be healthy, which one without a processor is not"),
    .repeatedAfterStandstills(because: "a host is healthy only while it is served within its threshold"))
  struct HealthyHostTests {
    @Test(arguments: Victim.Build.allCases)
    func busyAndHealthyHostIsNeverReported(build: Victim.Build) throws {
      let victim = try Victim.run("healthy", milliseconds: 3000, build: build)
      #expect(victim.status == 0)
      #expect(victim.facts["watching"] == "true")
      #expect(victim.reports.isEmpty)
    }

    @Test func hostThatHasNotRunItsLoopYetIsNotReported() throws {
      let victim = try Victim.run("never-runs", milliseconds: 800)
      #expect(victim.reports.isEmpty)
    }

    /// Its thread's own work before and after a run of the loop is no turn, and its rest is none.
    @Test func watchOfALoopThatDoesNotTurnReportsNothing() throws {
      let victim = try Victim.run("watched-without-turns", milliseconds: 800)
      #expect(victim.status == 0)
      #expect(victim.facts["watched"] == "3")
      #expect(victim.reports.isEmpty)
    }

    @Test func nestedRunInAPrivateModeIsNotAStall() throws {
      let victim = try Victim.run("nested", milliseconds: 1500)
      #expect(victim.reports.isEmpty)
    }

    /// Whether Swift's crash handler omits some threads, also of a program without the monitor.
    private static let omitsWaitingThreads: Bool = {
      #if arch(arm64) && compiler(<6.3)
      true
      #else
      false
      #endif
    }()

    /// Swift's crash handler stops all threads to print them, the watchdog among them.
    @Test(.disabled(if: omitsWaitingThreads, "Swift 6.2 prints no thread there that waits for a semaphore"))
    func crashOfTheHostIsReportedInFull() throws {
      let victim = try Victim.run(
        "crash", environment: ["SWIFT_BACKTRACE": "enable=yes,color=no,interactive=no,preset=full"])
      #expect(victim.status != 0)
      #expect(victim.talk.contains("stall-watchdog"))
      #expect(!victim.talk.contains("failed to suspend"))
    }

    @Test func idleServiceWakesNoThread() throws {
      let victim = try Victim.run("idle", milliseconds: 3000)
      #expect(victim.facts["wakeups"] == "0")
      #expect(victim.reports.isEmpty)
    }

    /// The copying of a large memory holds up the watchdog, too.
    @Test func hostThatForksIsNotReportedAsStopped() throws {
      let victim = try Victim.run("forks", milliseconds: 5000, environment: ["STALLMONITOR_THRESHOLD": "100ms"])
      #expect(victim.status == 0)
      #expect(!victim.reports.contains { $0.cause == "stopped" }, "\(victim.reports)")
    }

    /// A process that is stopped does not run, and its main loop is not responsible.
    @Test func stoppedProcessIsReportedOnceAndNamesNoFunction() throws {
      let victim = try Victim.run("healthy", milliseconds: 2500) { process in
        usleep(800_000)
        kill(process.processIdentifier, SIGSTOP)
        usleep(1_000_000)
        kill(process.processIdentifier, SIGCONT)
      }
      #expect(victim.reports.count == 1)
      let report = try #require(victim.reports.first)
      #expect(report.event == "stall.ended")
      #expect(report.cause == "stopped")
      #expect(report.culprit == "")
      #expect(report.stack.isEmpty)
      #expect(report.duration > 700 && report.duration < 1500)
      #expect((report["message"] as? String)?.hasPrefix("the whole process was stopped for") == true)
    }

    /// The time of a stop during a stall is deducted, and reported: duration and `frozen_ms` add up
    /// to the time that passed.
    @Test func stopInMidStallIsDeductedAndReported() throws {
      // A stop that meets the watchdog at a sample is not noticed: hence none at that time.
      let environment = ["STALLMONITOR_RESAMPLE_INTERVAL": "10s"]
      let victim = try Victim.run("sleep", milliseconds: 4000, environment: environment) { process in
        usleep(1_500_000)
        kill(process.processIdentifier, SIGSTOP)
        usleep(1_000_000)
        kill(process.processIdentifier, SIGCONT)
      }
      let ended = try #require(victim.reports.last { $0.event == "stall.ended" && $0.cause == "sleep" })
      let frozen = try #require(ended["stall", "evidence", "frozen_ms"] as? Double)
      let took = try #require(victim.facts["took_ms"].flatMap(Double.init))
      // What is proven: the watchdog cannot see the stop begin, and waits for 250 ms at most.
      #expect(frozen >= 750)
      #expect(ended.duration + frozen >= took - 1)
      // The stall was late when it was found.
      #expect(ended.duration + frozen < took + 50)
    }

    /// A debugger that attaches to the process holds all its threads, and not its loop alone.
    @Test func debuggedProcessHasNoResponsibleFunction() throws {
      let victim = try Victim.run("healthy", milliseconds: 2500) { process in
        usleep(800_000)
        #expect(victim_debug(process.processIdentifier, 1000))
      }
      #expect(victim.status == 0)
      #expect(victim.reports.map(\.cause) == ["stopped"])
      #expect(victim.reports.allSatisfy { $0.stack.isEmpty && $0.culprit == "" })
    }

    /// A watchdog that gets no processor wakes late, and the loop that turned meanwhile is not
    /// responsible.
    @Test func starvedWatchdogNamesNoFunction() throws {
      let victim = try Victim.run("healthy", milliseconds: 1600, environment: ["STALLMONITOR_THRESHOLD": "1s"]) {
        process in
        usleep(300_000)
        let tasks = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(process.processIdentifier)/task")
        let watchdog = try #require(
          tasks.first {
            let name = try? String(
              contentsOfFile: "/proc/\(process.processIdentifier)/task/\($0)/comm", encoding: .utf8)
            return name == "stall-watchdog\n"
          }.flatMap { Int32($0) })
        // It runs only when no other thread wants to run, and one does on each processor.
        var parameters = sched_param()
        let idlePolicy: Int32 = 5  // SCHED_IDLE (linux/sched.h), which Swift does not see.
        #expect(sched_setscheduler(watchdog, idlePolicy, &parameters) == 0)
        let spinners = try Spinners(onProcessors: [0, 1])
        usleep(1_000_000)
        spinners.stop()
      }
      #expect(victim.status == 0)
      #expect(victim.reports.isEmpty)
    }

    /// The wall clock jumps by hours, forward and back, each time that the process asks for it.
    @Test func steppedWallClockChangesNothing() throws {
      let fixtures = try SymbolFixtures()
      let library = try fixtures.clang(
        """
        #define _GNU_SOURCE
        #include <sys/syscall.h>
        #include <sys/time.h>
        #include <time.h>
        #include <unistd.h>
        static long step(void) { static _Atomic long calls; return (calls++ / 3 % 2 ? 1 : -1) * 3 * 3600; }
        int clock_gettime(clockid_t clock, struct timespec *time) {
          int result = (int)syscall(SYS_clock_gettime, clock, time);
          if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) time->tv_sec += step();
          return result;
        }
        int gettimeofday(struct timeval *restrict time, void *restrict zone) {
          (void)zone;
          struct timespec now;
          clock_gettime(CLOCK_REALTIME, &now);
          time->tv_sec = now.tv_sec, time->tv_usec = now.tv_nsec / 1000;
          return 0;
        }
        time_t time(time_t *result) {
          struct timespec now;
          clock_gettime(CLOCK_REALTIME, &now);
          if (result) *result = now.tv_sec;
          return now.tv_sec;
        }
        """, ["-shared", "-fPIC"], name: "stepping.so")
      let healthy = try Victim.run("healthy", milliseconds: 800, environment: ["LD_PRELOAD": library])
      #expect(healthy.status == 0)
      #expect(healthy.reports.isEmpty)
      let stalled = try Victim.run(
        "sleep", milliseconds: 300, environment: ["LD_PRELOAD": library, "STALLMONITOR_THRESHOLD": "50ms"])
      let report = try #require(stalled.reports.last)
      #expect(report.event == "stall.ended" && report.cause == "sleep")
      #expect(report.duration >= 299 && report.duration < 60_000)
      // The library was in place: the report's own time is hours away.
      let time = try #require(report["@timestamp"] as? String)
      let away = try Date(time, strategy: Date.ISO8601FormatStyle(includingFractionalSeconds: true))
        .timeIntervalSinceNow
      #expect(abs(away) > 3600)
    }

    /// A virtual machine that slept for hours, seen through the watchdog's lateness.
    @Test func machineThatSleptWasFrozen() throws {
      let freezes = FreezeDetector()
      let before = freezes.counts()
      let hours: UInt64 = 3 * 3600 * 1_000_000_000
      let result = freezes.freeze(since: before, lateness: hours, of: hours + 7)
      let freeze = try #require(result)
      // But for what this thread itself has waited for a processor meanwhile.
      #expect(freeze.atLeast <= hours && freeze.atLeast > hours - 60_000_000_000)
      #expect(freeze.atMost == hours + 7)
      let punctual = freezes.freeze(since: before, lateness: FreezeEvidence.limit, of: hours)
      #expect(punctual == nil)
    }

    /// A freezer of version 1 freezes threads where they sleep, without a trace: the process's group is the evidence.
    @Test(.enabled(if: FreezerGroup.isUsable, "needs root and a freezer of version 1"))
    func freezerGroupThatIsJoinedLaterIsKnown() throws {
      let freezes = FreezeDetector()
      func freeze() -> FreezeEvidence.Freeze? {
        freezes.freeze(since: freezes.counts(), lateness: 9_000_000_000, of: 9_001_000_000)
      }
      let group = try FreezerGroup()
      defer { group.remove() }
      let before = freeze()
      #expect(before == nil)
      try group.join()
      let after = freeze()
      #expect(after != nil)
      try group.leave()
      let left = freeze()
      #expect(left == nil)
    }

    /// A hypervisor takes a processor away, and the kernel counts that for nobody: a late wait is no freeze.
    @Test func watchdogThatIsLateForNoKnownReasonWasNotFrozen() {
      let freezes = FreezeDetector()
      let before = freezes.counts()
      usleep(1000)
      let freeze = freezes.freeze(since: before, lateness: 3_000_000_000, of: 3_001_000_000)
      #expect(freeze == nil)
    }

    /// A wait for the kernel's lock of the memory map, in a page fault, is no stop: a large process may be copied without fork handlers.
    ///
    /// But a fault alone explains no wait.
    @Test(arguments: [false, true])
    func pageFaultsBesideWorkAreNoStop(isBusy: Bool) throws {
      let pages = 32
      let memory = try #require(
        mmap(nil, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), "no memory")
      defer { munmap(memory, pages * 4096) }
      let freezes = FreezeDetector()
      let before = freezes.counts()
      for _ in 0..<8 { usleep(1000) }
      for page in 0..<pages { memory.storeBytes(of: 1, toByteOffset: page * 4096, as: UInt8.self) }
      let end = clock() + 150_000
      while isBusy, clock() < end {}
      let freeze = freezes.freeze(since: before, lateness: 200_000_000, of: 201_000_000)
      #expect((freeze == nil) == isBusy)
    }

    /// The watchdog, too, may wait for the kernel's lock of the memory map.
    @Test("a thread that maps much memory is no stop of the process")
    func besideAMapping() throws {
      let victim = try Victim.run("beside-a-mapping")
      #expect(victim.status == 0)
      #expect(!victim.reports("stall.ended").contains { $0.isCaused(by: "stopped") }, "\(victim.reports)")
    }

    /// The watchdog has other descriptors: a profiler that writes its samples in the handler would lose them.
    @Test("a profiler's handler does not run on the watchdog's thread")
    func profiled() throws {
      let victim = try Victim.run("profiled")
      #expect(victim.facts["on-watchdog"] == "0")
      #expect(try #require(victim.facts["on-others"].flatMap { Int($0) }) > 100)
    }

    @Test("signals that a service reads with sigwait are not delivered to the monitor's threads")
    func signalsThatAreRead() throws {
      let victim = try Victim.run("sigwait", milliseconds: 1)
      #expect(victim.status == 0)
      for number in [SIGPROF, SIGTRAP, SIGPIPE] { #expect(victim.facts["read-\(number)"] == "true", "\(number)") }
    }

    @Test("a service without standard output runs, and is not watched")
    func withoutStandardOutput() throws {
      let victim = try Victim.run("sleep", milliseconds: 1, through: ["/bin/sh", "-c", #"exec "$0" "$@" >&-"#])
      #expect(victim.status == 0)
      #expect(victim.facts["watching"] == "false")
      #expect(victim.talk.contains("cannot open the sink stdout: Bad file descriptor"))
    }

    @Test("a monitor that has stopped gives its memory back")
    func restartedOften() throws {
      let victim = try Victim.run("restarted-often", milliseconds: 1)
      // In KiB, over 500 starts.
      let grown = try #require(victim.facts["grown"].flatMap { Int($0) })
      #expect(grown < 1000)
    }
  }
}

/// A group below this process's own in a freezer of version 1; nothing is frozen in it.
private struct FreezerGroup {
  private let own: URL
  private let url: URL

  private static func find() -> URL? {
    let text = (try? String(contentsOfFile: "/proc/self/cgroup", encoding: .utf8)) ?? ""
    return text.firstMatch(of: /(?m)^\d+:freezer:(.*)$/).map {
      URL(filePath: "/sys/fs/cgroup/freezer").appending(path: String($0.1))
    }
  }

  /// Below a group that is frozen as a whole, every process is in a freezer's group.
  static var isUsable: Bool {
    find().map { $0.path == "/sys/fs/cgroup/freezer" && access($0.path, W_OK) == 0 } ?? false
  }

  init() throws {
    own = try #require(Self.find())
    url = own.appending(path: "stalld-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: false)
  }

  private func move(to group: URL) throws {
    try Data("\(getpid())".utf8).write(to: group.appending(path: "cgroup.procs"))
  }

  func join() throws { try move(to: url) }
  func leave() throws { try move(to: own) }

  func remove() {
    try? leave()
    rmdir(url.path)
  }
}
