import CLinux
import Dispatch
import Glibc
import StallMonitor
import Synchronization

/// Tasks that block or compute below known asynchronous callers; prints the callers that a capture of all threads shows.
///
///     AsyncStackVictim SCENARIO blocked|called|area|running
///
/// Prints a line for each function that waits, innermost first: `async SYMBOL`, then `child` or `truncated` where that holds.
@main
struct AsyncStackVictim {
  static func main() {
    manner.store(Manner(CommandLine.arguments[2]).rawValue, ordering: .sequentiallyConsistent)
    guard let scenario = scenarios[CommandLine.arguments[1]] else { exit(2) }
    startWatcher()
    scenario()
    // The main queue, for the main actor.
    dispatchMain()
  }

  private nonisolated static func startWatcher() {
    var watcher = pthread_t()
    pthread_create(
      &watcher, nil,
      { _ in
        AsyncStackVictim.print()
        return nil
      }, nil)
  }

  /// Waits for the task to arrive, and prints what waits for it.
  fileprivate nonisolated static func print() {
    while arrived.load(ordering: .sequentiallyConsistent) == 0 { usleep(1000) }
    usleep(50_000)
    for thread in StallMonitor.captureAllThreads()
    where thread.threadID == arrived.load(ordering: .sequentiallyConsistent) {
      Swift.print("doing", thread.isRunning ? "running" : "blocked", thread.failure ?? "")
      for frame in thread.frames {
        Swift.print(frame.isAsync ? "async" : "frame", frame.symbol ?? "?", frame.line ?? 0)
      }
      if thread.isChildTask { Swift.print("child") }
      if thread.isTruncated { Swift.print("truncated") }
    }
    fflush(nil)
    _exit(0)
  }
}

/// How a task keeps its thread.
enum Manner: Int {
  case blocked, called, running, area

  init(_ name: String) {
    self = name == "blocked" ? .blocked : name == "called" ? .called : name == "area" ? .area : .running
  }
}

let manner = Atomic<Int>(0)
/// The id of the thread that the task is on.
let arrived = Atomic<Int32>(0)

/// Keeps the thread from within the caller: in a system call, or on a processor.
@inline(__always)
func keepThread() {
  arrived.store(clinux_gettid(), ordering: .sequentiallyConsistent)
  switch Manner(rawValue: manner.load(ordering: .relaxed)) {
  case .blocked: usleep(600_000_000)
  case .called: keepThreadInCalls(8)
  case .area: manner.store(callKeeper(6), ordering: .relaxed)
  default: while manner.load(ordering: .relaxed) >= 0 {}
  }
}

@inline(never)
func keepThreadInCalls(_ depth: Int) {
  if depth == 0 { usleep(600_000_000) } else { keepThreadInCalls(depth - 1) }
  manner.store(2, ordering: .relaxed)
}

struct Words { var first = 1, second = 2, third = 3 }

/// Blocks with a value on the stack whose size is known only when it runs.
@inline(never) @_semantics("optimize.sil.specialize.generic.never")
func keepThreadInArea<Value>(_ value: Value) -> Value {
  var copy = value
  usleep(600_000_000)
  withUnsafeMutablePointer(to: &copy) { _ = $0 }
  return copy
}

@inline(never)
func callKeeper(_ number: Int) -> Int { keepThreadInArea(Words(first: number)).first + number }
