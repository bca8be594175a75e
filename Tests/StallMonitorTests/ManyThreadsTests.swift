import CUnwind
import Glibc
import Synchronization
import Testing
import VictimC

@testable import StallCapture
@testable import StallMonitor

extension CapturesInThisProcess {
  /// All threads of a large process, one after the other.
  @Suite(.serialized, .timeLimit(.minutes(2)))
  struct ManyThreadsTests {
    @Test func fiveHundredThreads() throws {
      let blocked = (0..<496).map { VictimThread(depth: 1 + $0 % 30, leaf: .read, settles: false) }
      let running = (0..<4).map { VictimThread(depth: 10 + $0, leaf: .spin, settles: false) }
      defer { (blocked + running).forEach { $0.release() } }
      blocked.forEach { $0.waitUntilItStands() }
      let capture = ThreadCapture(of: .own)
      let probes = (blocked + running).map { ProbeBox($0.id) }
      let slices = probes.map { $0.probe.schedule()?.timeslices }
      var whole = 0
      var runningWhole = 0
      for probe in probes {
        let moment = capture.captureWithPatience(probe.probe)
        guard case .success(let backtrace) = moment.backtrace, !backtrace.isTruncated else { continue }
        whole += 1
        if moment.activity == .running { runningWhole += 1 }
      }
      #expect(whole == 500)
      #expect(runningWhole == 4)
      // No blocked thread has had a processor meanwhile: it was not held, for its own capture or another's.
      for (probe, before) in zip(probes.prefix(blocked.count), slices) {
        #expect(probe.probe.schedule()?.timeslices == before)
      }
    }

    /// A running thread is paused only for the copy in its own capture: it continues while its
    /// stack is unwound, while others are captured, and while others map memory.
    @Test(arguments: [true, false])
    func runningThreadIsPausedOnlyForTheCopy(usesPerf: Bool) throws {
      let running = victim_moment_start(VICTIM_DEEP, { cunwind_prepare_thread_for_timer() }, nil)
      let mapping = victim_moment_start(VICTIM_MAPPING, nil, nil)
      let other = VictimThread(depth: 1200, leaf: .read)
      defer {
        victim_moment_stop(running)
        victim_moment_stop(mapping)
        other.release()
      }
      let capture = ThreadCapture(of: .own, mayUsePerf: usesPerf)
      let probe = ThreadProbe(thread: victim_moment_id(running), of: .own)
      let otherProbe = ThreadProbe(thread: other.id, of: .own)
      // The first ones touch its alternate stack.
      for _ in 0..<10 { _ = capture.capture(probe, stackEnd: 0) }
      // A thread that waits sleeps, and the kernel counts that.
      let before = probe.voluntarySwitches()
      let captures = TestMachine.isEmulated ? 30 : 150
      var taken = 0
      for _ in 0..<captures {
        _ = try capture.captureWithPatience(otherProbe).backtrace.get()
        if (try? capture.capture(probe, stackEnd: 0).backtrace.get()) != nil { taken += 1 }
      }
      let after = probe.voluntarySwitches()
      // A page fault of its own may wait for the thread that maps memory; its captures may not.
      #expect(try #require(after) - #require(before) < 5)
      #expect(taken > captures * 2 / 3)
    }
  }
}

/// A probe in an array: it cannot be copied.
private final class ProbeBox {
  let probe: ThreadProbe
  init(_ thread: Int32) { probe = ThreadProbe(thread: thread, of: .own) }
}
