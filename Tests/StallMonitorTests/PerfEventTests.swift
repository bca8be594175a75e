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
      guard let layout = ProcessHandle.own.taskLayout, let pointer = ThreadPointer.of(thread: target, in: .own) else {
        return
      }
      let path = "/proc/self/task/\(clinux_gettid())/fd"
      counts.withLock { $0.append(Self.events(at: path)) }
      for _ in 0..<2 {
        let change = Breakpoint.change(ofTaskOn: target, threadPointer: pointer, layout: layout)
        counts.withLock { $0.append(Self.events(at: path)) }
        #expect(change?.isHit == false)
      }
      counts.withLock { $0.append(Self.events(at: path)) }
    }
    pthread_join(thread, nil)
    #expect(counts.withLock { $0 } == [0, 2, 2, 1])
    #expect(Self.events(at: "/proc/self/fd") == outside)
  }

  /// A task that awaits something else has not yielded.
  @Test(.enabled(if: cunwind_perf_is_permitted(), "perf events are not permitted"))
  func yieldsOfATaskAreNoticed() throws {
    let hits = Mutex<[Bool?]>([])
    let (go, done) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    let target = Atomic<Int32>(0)
    Thread.detachNewThread {
      target.store(clinux_gettid(), ordering: .releasing)
      for mayYield in [false, true] {
        done.signal()
        go.wait()
        _ = Task.immediate { await mayYield ? Task.yield() : withUnsafeContinuation { $0.resume() } }
      }
      done.signal()
    }
    done.wait()
    let thread = try OwnThreads.startApart(name: "perf-test") {
      let yield = Breakpoint.yield(on: target.load(ordering: .acquiring))
      for _ in 0..<2 {
        go.signal()
        done.wait()
        hits.withLock { $0.append(yield?.isHit) }
      }
    }
    pthread_join(thread, nil)
    #expect(hits.withLock { $0 } == [false, true])
  }

  private static func events(at path: String) -> Int {
    let names = (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []
    return names.count { name in
      (try? FileManager.default.destinationOfSymbolicLink(atPath: "\(path)/\(name)")) == "anon_inode:[perf_event]"
    }
  }
}
