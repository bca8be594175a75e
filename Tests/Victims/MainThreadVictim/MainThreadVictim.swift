import CLinux
import Dispatch
import Glibc
import LoopEngine

/// Checks what happens on the main thread of an `@main async` program that `Loop.main` serves, and
/// prints it line by line.
///
/// Exit code 0 when all is as it should be.
@main
struct MainThreadVictim {
  @MainActor static var order: [String] = []

  static func main() async {
    if CommandLine.arguments.count > 1 {
      guard let scenario = Scenario(rawValue: CommandLine.arguments[1]) else { exit(64) }
      scenario.run()
    }
    check(Loop.hostAsyncMain(), "the runtime has the hook")
    check(isMainThread, "main() begins on the main thread")
    try? await Task.sleep(for: .milliseconds(5))
    check(isMainThread, "main() goes on there after a sleep")
    await Task.detached { check(!isMainThread, "a detached task does not") }.value
    await MainActor.run { check(isMainThread, "the main actor is there") }

    await withCheckedContinuation { continuation in
      DispatchQueue.main.async {
        check(isMainThread && Loop.main.isCurrent, "the main queue is there, too")
        check(Loop.main.snapshot.callout?.kind == .mainQueue, "and shows as the callout")
        continuation.resume()
      }
    }

    await withCheckedContinuation { continuation in
      Loop.main.perform(after: .milliseconds(1)) { _ in
        // A private mode does not serve the main queue.
        DispatchQueue.main.async { MainActor.assumeIsolated { order.append("queue") } }
        Loop.main.perform(after: .milliseconds(5), in: "private") { _ in
          MainActor.assumeIsolated { order.append("timer in a private mode") }
        }
        Loop.main.run(mode: "private", for: .milliseconds(50))
        DispatchQueue.main.async {
          // From within itself it is not served either.
          DispatchQueue.main.async {
            MainActor.assumeIsolated { order.append("inner") }
            continuation.resume()
          }
          Loop.main.run(mode: .default, for: .milliseconds(10))
          MainActor.assumeIsolated { order.append("outer") }
        }
      }
    }
    check(order == ["timer in a private mode", "queue", "outer", "inner"], "modes and nesting: \(order)")

    order = []
    await withCheckedContinuation { continuation in
      Loop.main.perform(after: .milliseconds(1)) { _ in
        // Both are found by one poll, the descriptor first, and the queue's readiness is reported
        // only once.
        var ends: [Int32] = [0, 0]
        pipe(&ends)
        let (reading, writing) = (ends[0], ends[1])
        try! Loop.main.watch(reading) { source, _ in
          source.invalidate()
          close(reading)
          close(writing)
          Loop.main.run(mode: "private", for: .zero)
          Loop.main.run(mode: .default, for: .zero)
          MainActor.assumeIsolated { order.append("descriptor") }
        }
        write(writing, "x", 1)
        DispatchQueue.main.async {
          MainActor.assumeIsolated { order.append("queue") }
          continuation.resume()
        }
      }
    }
    check(order.sorted() == ["descriptor", "queue"], "the queue is served beside a nested run: \(order)")

    order = []
    await withCheckedContinuation { continuation in
      // The pass in which a timer fires has not served the queue.
      Loop.main.perform(after: .milliseconds(1)) { _ in
        Loop.main.observe([.beforeTimers, .beforeWaiting]) { observer, activity in
          MainActor.assumeIsolated {
            order.append(activity == .beforeWaiting ? "waits" : "pass")
            if activity == .beforeWaiting { observer.invalidate() }
          }
        }
        DispatchQueue.main.async {
          MainActor.assumeIsolated { order.append("queue") }
          continuation.resume()
        }
      }
    }
    try? await Task.sleep(for: .milliseconds(5))
    check(order == ["pass", "queue", "pass", "waits"], "a queue that is ready is served without a wait: \(order)")

    // Woken, or never asleep.
    let passes = Passes()
    let observer = Loop.main.observe(.beforeTimers) { _, _ in MainActor.assumeIsolated { passes.count += 1 } }
    let before = switches()
    try? await Task.sleep(for: .milliseconds(500))
    let woken = switches() - before
    observer.invalidate()
    // Polling would be hundreds.
    check(woken <= 20, "the idle main thread sleeps: \(woken) context switches in half a second")
    check(passes.count <= 20, "and does not spin: \(passes.count) passes")
    print("all is well")
  }

  @MainActor final class Passes { var count = 0 }

  static var isMainThread: Bool { clinux_gettid() == getpid() }

  static func check(_ condition: Bool, _ what: String) {
    print(condition ? "ok:" : "FAILED:", what)
    if !condition { exit(1) }
  }

  static func switches() -> Int {
    var usage = rusage()
    // RUSAGE_THREAD, which Swift does not import.
    getrusage(__rusage_who_t(1), &usage)
    return usage.ru_nvcsw
  }
}
