import CLinux
import CUnwind
import Foundation
import Synchronization
import Testing

@testable import StallCapture
@testable import StallMonitor

/// The perf events of the watchdog's thread.
struct PerfEventTests {
  /// Without an event that stays, each first one after a second takes the kernel 8 to 16 ms, in which no stall is found.
  @Test(.enabled(if: cunwind_perf_is_permitted(), "perf events are not permitted"))
  func oneEventStaysOpenInTheMonitorsOwnTable() async throws {
    let target = clinux_gettid()
    let counts = Mutex<[Int]>([])
    let outside = Self.events(at: "/proc/self/fd")
    let thread = try OwnThreads.startApart(name: "perf-test") {
      cunwind_memory_prepare()
      defer { cunwind_memory_finish() }
      guard let layout = TaskLayout.current, let pointer = ThreadPointer.of(thread: target) else { return }
      let path = "/proc/self/task/\(clinux_gettid())/fd"
      counts.withLock { $0.append(Self.events(at: path)) }
      for _ in 0..<2 {
        let changes = TaskChanges(of: target, threadPointer: pointer, layout: layout)
        counts.withLock { $0.append(Self.events(at: path)) }
        withExtendedLifetime(changes) {}
      }
      counts.withLock { $0.append(Self.events(at: path)) }
    }
    pthread_join(thread, nil)
    #expect(counts.withLock { $0 } == [0, 2, 2, 1])
    #expect(Self.events(at: "/proc/self/fd") == outside)
  }

  private static func events(at path: String) -> Int {
    let names = (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []
    return names.count { name in
      (try? FileManager.default.destinationOfSymbolicLink(atPath: "\(path)/\(name)")) == "anon_inode:[perf_event]"
    }
  }
}
