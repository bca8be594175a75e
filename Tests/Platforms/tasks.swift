// Tasks that block or compute below known asynchronous callers, and what a capture of all threads shows of them. For systems that the tests in
// Swift are not built for. `scripts/test-aarch64` builds and runs it.
import CLinux
import Glibc
import StallMonitor
import Synchronization

/// How a task keeps its thread.
enum Manner: String { case sleeping, reading, computing }

/// The id of the thread that the task is on, or 0.
let arrived = Atomic<Int32>(0)
let manner = Manner(rawValue: CommandLine.arguments[2])!

@inline(never) func keepThread() {
  arrived.store(clinux_gettid(), ordering: .sequentiallyConsistent)
  switch manner {
  case .sleeping: sleep(100)
  case .reading:
    var ends: [Int32] = [0, 0]
    var byte: UInt8 = 0
    pipe(&ends)
    _ = read(ends[0], &byte, 1)
  case .computing: while arrived.load(ordering: .relaxed) != 0 {}
  }
  arrived.store(0, ordering: .sequentiallyConsistent)
}

actor Store {
  var count = 0
  @inline(never) func load(_ value: Int) -> Int {
    keepThread()
    count += value
    return count
  }
}

let store = Store()

@inline(never) func awaitLoad(_ value: Int) async -> Int { await store.load(value) + value }
@inline(never) func awaitRoute(_ value: Int) async throws -> Int {
  let found = await awaitLoad(value)
  if found < 0 { throw CancellationError() }
  return found + value
}
@inline(never) func awaitPlain(_ value: Int) async -> Int {
  await Task.yield()
  keepThread()
  return value
}
@inline(never) func awaitTwice(_ value: Int) async -> Int { await awaitPlain(value) + awaitPlain(0) }

/// Captures all threads when the task has arrived, and looks for the frames in their order.
func check(_ expected: [String]) -> Bool {
  while arrived.load(ordering: .sequentiallyConsistent) == 0 { usleep(1000) }
  usleep(50_000)
  let id = arrived.load(ordering: .sequentiallyConsistent)
  guard let thread = StallMonitor.captureAllThreads().first(where: { $0.threadID == id }) else {
    print("the thread is not there")
    return false
  }
  let frames = thread.frames.map { ($0.isAsync ? "async " : "frame ") + ($0.symbol ?? "?") }
  var left = expected[...]
  for frame in frames {
    guard let next = left.first else { break }
    let (kind, name) = (next.prefix(6), next.dropFirst(6))
    if frame.hasPrefix(kind), frame.split(separator: "(")[0].hasSuffix(name) { left.removeFirst() }
  }
  let isRight = left.isEmpty && !thread.isTruncated
  if !isRight { print("missing: \(left), truncated: \(thread.isTruncated), of \(frames) \(thread.failure ?? "")") }
  return isRight
}

setvbuf(stdout, nil, _IONBF, 0)
let monitor = try StallMonitor.start()
let isRight: Bool
if CommandLine.arguments[1] == "actor" {
  Task.detached { _ = try await awaitRoute(1) }
  isRight = check(["frame keepThread", "frame Store.load", "frame awaitLoad", "async awaitRoute"])
} else {
  Task.detached { _ = await awaitTwice(1) }
  isRight = check(["frame keepThread", "frame awaitPlain", "async awaitTwice"])
}
print(CommandLine.arguments[1], manner, isRight ? "right" : "wrong")
_exit(isRight ? 0 : 1)
