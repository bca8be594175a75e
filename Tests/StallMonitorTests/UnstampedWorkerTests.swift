import CLinux
import Foundation
import Testing

@testable import StallMonitor

/// A worker thread that is watched from outside.
struct UnstampedWorkerTests {
  /// Objects of the service's are released on its own threads, which cannot close what is in the watchdog's descriptor table.
  @Test func nothingIsLeftOpenWhenTheWatchIsOver() throws {
    let (isReady, isOver) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    nonisolated(unsafe) var id: Int32 = 0  // Written before the signal and read after it.
    Thread.detachNewThread {
      id = clinux_gettid()
      isReady.signal()
      isOver.wait()
    }
    defer { isOver.signal() }
    isReady.wait()
    func filesOfTheThread() throws -> Int {
      try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count { name in
        (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(name)"))?
          .contains("/task/\(id)/") == true
      }
    }
    let worker = UnstampedWorker(
      id: id, pulse: Pulse(semaphore: WakeSemaphore(), fencesItself: false), leastThreshold: 0, isDue: true)
    // Once the thread is blocked.
    for _ in 0..<1000 where try filesOfTheThread() == 0 {
      worker.beat()
      usleep(1000)
    }
    #expect(try filesOfTheThread() > 0)
    worker.finish()
    #expect(try filesOfTheThread() == 0)
    withExtendedLifetime(worker) {}
  }
}
