import CLinux
import Foundation
import Glibc
import Synchronization
import Testing

@testable import StallMonitor

extension OneAtATime {
  /// The beginning of a computation is known by what its first samples have in common.
  @Suite(.serialized)
  struct FollowUpTests {
    @Test(
      "the line of a computation's beginning has the fingerprint of its end, where the machine has the time to look")
    func beginning() throws {
      var missed = 0
      for _ in 0..<6 {
        let victim = try Victim.run(
          "c-compute-in-parts", milliseconds: 700, environment: ["STALLMONITOR_THRESHOLD": "100ms"])
        #expect(victim.reports.map(\.event) == ["stall.started", "stall.ended"])
        let (started, ended) = (try #require(victim.reports.first), try #require(victim.reports.last))
        let samples = try #require(started["stall", "samples"] as? Int)
        #expect((1...5).contains(samples))
        // It is told as of the first look.
        #expect(started.duration < 120 || (started["stall", "evidence", "run_delay_ms"] as? Double ?? 0) > 1)
        guard samples >= 3 else {
          let (delay, observed) = (
            ended["stall", "evidence", "run_delay_ms"], ended["stall", "evidence", "observed_ms"]
          )
          if (delay as? Double ?? .infinity) < (observed as? Double ?? 0) / 50 { missed += 1 }
          continue
        }
        #expect(started["stall", "fingerprint"] as? String == ended["stall", "fingerprint"] as? String)
        return
      }
      // Two ticks of the kernel's clock go by before the first of them.
      var tick = timespec()
      clock_getres(CLOCK_MONOTONIC_COARSE, &tick)
      #expect(
        missed < 3 || tick.tv_nsec > 5_000_000, "the thread had the processor all the time, and was hardly looked at")
    }

    @Test func whoeverIsLookedAtSeldomIsNotLookedAtMore() throws {
      let victim = try Victim.run(
        "c-compute-in-parts", milliseconds: 400,
        environment: ["STALLMONITOR_THRESHOLD": "100ms", "STALLMONITOR_SAMPLING": "10s"])
      #expect(victim.reports.map { $0["stall", "samples"] as? Int } == [1, 1])
    }

    @Test("a thread that works in the kernel is not taken for one that computes", arguments: [true, false])
    func userMode(computes: Bool) throws {
      let worker = Worker(computes: computes)
      defer { worker.end() }
      let probe = ThreadProbe(thread: worker.id)
      var steady = 0
      guard var run = UserModeRun(of: probe) else {
        Issue.record("the kernel does not tell")
        return
      }
      var begun = 1
      let deadline = MonotonicClock.now() + 3_000_000_000
      while MonotonicClock.now() < deadline, begun < 40, steady < 3 {
        usleep(1000)
        guard probe.activity() == .running else { continue }
        switch run.look(at: probe) {
        case .waiting: continue
        case .steady:
          steady += 1
          run.restart(at: probe)
        case .over:
          begun += 1
          if let next = UserModeRun(of: probe) { run = next }
        }
      }
      if computes { #expect(steady > 0) } else { #expect(steady == 0) }
    }

    /// Computes, or lets the kernel copy, without ever giving its processor up.
    private final class Worker: Sendable {
      private let thread = Atomic<Int32>(0)
      private let isOver = Atomic<Bool>(false)
      private let hasEnded = Atomic<Bool>(false)

      var id: Int32 { thread.load(ordering: .acquiring) }

      init(computes: Bool) {
        Thread.detachNewThread { [self] in
          let zero = open("/dev/zero", O_RDONLY)
          let buffer = UnsafeMutableRawPointer.allocate(byteCount: 16 << 20, alignment: 4096)
          buffer.initializeMemory(as: UInt8.self, repeating: 1, count: 16 << 20)
          thread.store(clinux_gettid(), ordering: .releasing)
          var state: UInt64 = 1
          while !isOver.load(ordering: .acquiring) {
            if computes {
              for step: UInt64 in 0..<1000 { state = state &* 31 &+ step }
            } else {
              read(zero, buffer, 16 << 20)
            }
          }
          buffer.storeBytes(of: state, as: UInt64.self)
          buffer.deallocate()
          close(zero)
          hasEnded.store(true, ordering: .releasing)
        }
        while id == 0 { usleep(100) }
      }

      func end() {
        isOver.store(true, ordering: .releasing)
        while !hasEnded.load(ordering: .acquiring) { usleep(100) }
      }
    }
  }
}
