import CUnwind
import Glibc
import Synchronization
import Testing

@testable import StallMonitor

extension OneAtATime {
  /// All threads of a large process, one after the other.
  @Suite(.serialized, .timeLimit(.minutes(2)))
  struct ManyThreadsTests {
    @Test func fiveHundredThreads() throws {
      let blocked = (0..<496).map { VictimThread(depth: 1 + $0 % 30, leaf: .read, settles: false) }
      let running = (0..<4).map { VictimThread(depth: 10 + $0, leaf: .spin, settles: false) }
      defer { (blocked + running).forEach { $0.release() } }
      usleep(50_000)
      let capture = ThreadCapture()
      let probes = (blocked + running).map { ProbeBox($0.id) }
      let slices = probes.map { $0.probe.schedule()?.timeslices }
      var whole = 0
      var runningWhole = 0
      for probe in probes {
        let moment = capture.capture(probe.probe, stackEnd: 0)
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

    /// A running thread is held in its own capture alone: it goes on while its stack is unwound, and while others are captured.
    @Test func threadGoesOnWhileOthersAreCaptured() throws {
      let counted = VictimThread(depth: 3, leaf: .spin, settles: false)
      let other = VictimThread(depth: 1200, leaf: .read, settles: true)
      defer {
        counted.release()
        other.release()
      }
      let capture = ThreadCapture()
      let probe = ThreadProbe(thread: counted.id)
      let otherProbe = ThreadProbe(thread: other.id)
      // Held by nothing else, it waits for nobody: the kernel never sees it sleep.
      let before = try #require(Self.voluntarySwitches(counted.id))
      for _ in 0..<200 {
        _ = try capture.capture(otherProbe, stackEnd: 0).backtrace.get()
        _ = capture.capture(probe, stackEnd: 0)
      }
      #expect(Self.voluntarySwitches(counted.id) == before)
    }

    private static func voluntarySwitches(_ thread: Int32) -> Int? {
      guard let file = ProcFile("/proc/self/task/\(thread)/status") else { return nil }
      return file.parse(capacity: 4096) { text in
        let lines = String(decoding: text, as: UTF8.self).split(separator: "\n")
        return lines.first { $0.hasPrefix("voluntary_ctxt_switches") }?.split(separator: "\t").last.flatMap { Int($0) }
      }
    }
  }
}

/// A probe in an array: it cannot be copied.
private final class ProbeBox {
  let probe: ThreadProbe
  init(_ thread: Int32) { probe = ThreadProbe(thread: thread) }
}
