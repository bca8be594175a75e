import CLinux
import Dispatch
import Glibc
import LoopEngine
import Synchronization

/// The scenarios that need an unused main thread: `MainThreadVictim NAME`, exit code 0 if all is
/// correct.
enum Scenario: String {
  case forkOnAThreadWithoutALoop
  case forkOnAThreadWithALoop
  case noDescriptorsBeforeTheFirstRun

  func run() -> Never {
    switch self {
    case .forkOnAThreadWithoutALoop: forkOnAnotherThread {}
    case .forkOnAThreadWithALoop: forkOnAnotherThread { _ = Loop.current }
    case .noDescriptorsBeforeTheFirstRun: startWithoutDescriptors()
    }
  }
}

/// fork(), which is hidden from Swift; the symbol is not.
private func fork() -> pid_t {
  typealias Fork = @convention(c) () -> pid_t
  return unsafeBitCast(dlsym(nil, "fork"), to: Fork.self)()
}

private func startThread(_ body: @escaping @Sendable () -> Void) {
  final class Box {
    let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
  }
  var handle = pthread_t()
  pthread_create(
    &handle, nil,
    { raw in
      Unmanaged<Box>.fromOpaque(raw!).takeRetainedValue().body()
      return nil
    }, Unmanaged.passRetained(Box(body)).toOpaque())
  pthread_detach(handle)
}

/// Forks 300 times while the main loop has all hands full; each child uses loops as any process does.
private func forkOnAnotherThread(_ prepare: @escaping @Sendable () -> Void) -> Never {
  let loop = Loop.main
  loop.perform(every: .microseconds(50)) { _ in
    loop.perform {}
    _ = loop.currentMode
  }
  startThread { while true { for _ in 0..<100 { loop.perform(in: [.default, .tracking]) {} }; usleep(20) } }
  startThread {
    prepare()
    // The child finds what Swift makes once made: its own locks are not a matter of loops.
    if inChild() != 0 { print("the parent itself fails") }
    var failures: [Int32: Int] = [:]
    for _ in 0..<300 {
      let child = fork()
      if child == 0 {
        alarm(20)
        _exit(inChild())
      }
      var status: Int32 = 0
      waitpid(child, &status, 0)
      if status != 0 { failures[status, default: 0] += 1 }
    }
    print(failures.isEmpty ? "all is well" : "FAILED: \(failures)")
    exit(failures.isEmpty ? 0 : 1)
  }
  while true { loop.run() }
}

/// The digits of what callouts have done, one after another.
private let steps = Atomic(0)

private func step(_ digit: Int) { steps.store(steps.load(ordering: .relaxed) * 10 + digit, ordering: .relaxed) }

/// 0 when the thread's loop works, the main loop is another one's or this one's, and a thread can reach it.
private func inChild() -> Int32 {
  let isMainThread = clinux_gettid() == getpid()
  let loop = Loop.current
  if isMainThread && Loop.main !== loop { return 2 }
  if loop.snapshot.mode != nil { return 3 }
  steps.store(0, ordering: .relaxed)
  loop.perform { step(1) }
  loop.perform(after: .microseconds(100)) { _ in
    step(2)
    loop.stop()
  }
  var ends: [Int32] = [0, 0]
  pipe(&ends)
  defer { for end in ends { close(end) } }
  let watch = try? loop.watch(ends[0]) { source, _ in
    step(3)
    source.invalidate()
  }
  guard watch != nil else { return 4 }
  write(ends[1], "x", 1)
  if loop.run(mode: .default, for: .seconds(10)) != .stopped { return 5 }
  return steps.load(ordering: .relaxed) == 123 ? 0 : 6
}

/// The main queue's eventfd can't be made at first: the loop serves what it can, and the queue as soon as it can.
private func startWithoutDescriptors() -> Never {
  let first = dup(0)
  var limit = rlimit(rlim_cur: rlim_t(first) + 20, rlim_max: rlim_t(first) + 20)
  setrlimit(__rlimit_resource_t(UInt32(RLIMIT_NOFILE.rawValue)), &limit)
  while dup(0) >= 0 {}
  let loop = Loop.main
  steps.store(0, ordering: .relaxed)
  loop.perform { step(1) }
  loop.perform(after: .milliseconds(1)) { _ in step(2) }
  let result = loop.run(mode: .default, for: .milliseconds(50))
  guard result == .timedOut, steps.load(ordering: .relaxed) == 12 else {
    print("FAILED: \(result) \(steps.load(ordering: .relaxed))")
    exit(1)
  }
  startThread {
    while !loop.isWaiting { usleep(100) }
    // Nobody wakes the loop for them.
    for descriptor in first..<first + 20 { close(descriptor) }
  }
  startThread {
    // A loop that never looks again.
    sleep(60)
    print("FAILED: the main queue is not served")
    exit(2)
  }
  loop.perform(after: .milliseconds(200)) { _ in
    DispatchQueue.main.async {
      print("all is well")
      exit(0)
    }
  }
  while true { loop.run() }
}
