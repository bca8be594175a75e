//   stalls list     the names of all stalls
//   stalls NAME     one stall, in a turn of a watched loop
import CStallMonitor
import Foundation

// Unsafe: set before a thread that reads it starts.
nonisolated(unsafe) var deadline = DispatchTime.distantFuture

/// Whether the stall has lasted long enough.
///
/// Ask once a millisecond of work. Transparent, and so a part of whoever asks: a sample may find the question, which is no stall's function.
@_transparent
func isLate() -> Bool { DispatchTime.now() >= deadline }

func waitUntilLate() {
  while !isLate() { usleep(1000) }
}

func setThreadName(_ name: String) {
  let file = open("/proc/thread-self/comm", O_WRONLY)
  write(file, name, name.utf8.count)
  close(file)
}

/// Calls `before` on a thread of its own at once, and `after` on it when the stall has lasted long enough; returns when `before` has.
func meanwhile(_ name: String, _ before: @escaping @Sendable () -> Void, _ after: @escaping @Sendable () -> Void) {
  let isDone = DispatchSemaphore(value: 0)
  let thread = Thread {
    setThreadName(name)
    before()
    isDone.signal()
    waitUntilLate()
    after()
  }
  thread.start()
  isDone.wait()
}

func later(_ name: String, _ action: @escaping @Sendable () -> Void) { meanwhile(name, {}, action) }

let stalls = computing.merging(blocking) { first, _ in first }
let name = CommandLine.arguments.dropFirst().first ?? ""
if name == "list" {
  for name in stalls.keys.sorted() { print(name) }
  exit(0)
}
guard let stall = stalls[name] else { exit(97) }
guard stallmonitor_start(nil) == 0, let loop = stallmonitor_loop_create("main", 0) else { exit(99) }
// The first call takes its time on a busy machine, and is no part of the stall.
_ = isLate()
deadline = .now() + .milliseconds(250)
stallmonitor_loop_busy(loop)
stall()
stallmonitor_loop_idle(loop)
stallmonitor_stop()
