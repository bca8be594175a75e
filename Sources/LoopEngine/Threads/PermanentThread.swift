import CLinux
import PlatformLibc
import Synchronization

/// A thread that its loop keeps alive until it is stopped or this object is released.
///
/// All members may be used on any thread, in any order, also on the thread itself. The thread does
/// not retain this object: when the last reference is released, the thread ends.
public final class PermanentThread: Sendable {
  private let name: String
  private let stackSize: Int
  private let running = Guarded<Running?>(nil)

  /// Makes a thread that is not running yet.
  ///
  /// - Parameters:
  ///   - name: The thread's name; the kernel keeps its first 15 bytes.
  ///   - stackSize: Bytes of stack; 0 for the system's default.
  public init(name: String = "permanent", stackSize: Int = 0) {
    self.name = name
    self.stackSize = stackSize
  }

  deinit {
    // Ends by itself: nobody is left to wait for it.
    running.withLock { $0 }?.endWithoutWaiting()
  }

  /// Whether the thread has been started and not been stopped.
  public var isRunning: Bool { loop != nil }

  /// The thread's loop, nil when the thread does not run.
  public var loop: Loop? {
    running.withLock { $0 }.flatMap { $0.isEnding ? nil : $0.loop }
  }

  /// Starts the thread and waits until it takes work.
  ///
  /// Does nothing if it runs; after a stop, it starts a new thread.
  ///
  /// - Throws: ``LoopError`` when the system has no thread left.
  public func start() throws(LoopError) {
    let failure = running.withLock { current -> LoopError? in
      if let current, !current.isEnding { return nil }
      let fresh = Running(name: name)
      if let error = fresh.launch(stackSize: stackSize) { return error }
      current = fresh
      return nil
    }
    if let failure { throw failure }
  }

  /// Runs a block on the thread, after those that were there before.
  ///
  /// - Parameters:
  ///   - name: What the monitor calls it in a report.
  ///   - file: Where it was scheduled.
  ///   - line: Where it was scheduled.
  ///   - block: Called on the thread.
  /// - Returns: False, and the block is released, when the thread does not run.
  @discardableResult
  public func perform(
    name: StaticString? = nil, file: StaticString = #fileID, line: UInt32 = #line,
    _ block: sending @escaping () -> Void
  ) -> Bool {
    loop?.perform(name: name, file: file, line: line, block) ?? false
  }

  /// Runs a closure on the thread and waits for its result; on the thread itself at once.
  ///
  /// - Parameters:
  ///   - name: What the monitor calls it in a report.
  ///   - file: Where it was scheduled.
  ///   - line: Where it was scheduled.
  ///   - body: Called on the thread.
  /// - Returns: What the closure returns.
  /// - Throws: What the closure throws; ``Loop/Ended`` when the thread does not run, or ends before it comes to the
  ///   closure.
  public func performAndWait<Value: Sendable>(
    name: StaticString? = nil, file: StaticString = #fileID, line: UInt32 = #line,
    _ body: sending () throws -> Value
  ) throws -> Value {
    guard let loop else { throw Loop.Ended() }
    return try loop.performAndWait(name: name, file: file, line: line, body)
  }

  /// Runs a closure on the thread and awaits its result: the form for async code, which blocks no thread.
  ///
  /// - Parameters:
  ///   - name: What the monitor calls it in a report.
  ///   - file: Where it was scheduled.
  ///   - line: Where it was scheduled.
  ///   - body: Called on the thread.
  /// - Returns: What the closure returns.
  /// - Throws: What the closure throws; ``Loop/Ended`` when the thread does not run, or ends before it comes to the
  ///   closure.
  public func performAndWait<Value: Sendable>(
    name: StaticString? = nil, file: StaticString = #fileID, line: UInt32 = #line,
    _ body: sending @escaping () throws -> Value
  ) async throws -> Value {
    guard let loop else { throw Loop.Ended() }
    return try await loop.performAndWait(name: name, file: file, line: line, body)
  }

  /// Stops the thread and waits until it has ended.
  ///
  /// Blocks that were posted before have run by then, if they may run in the default mode. Delayed work that is not due, and idle
  /// work, has not. All nested runs end. On the thread itself this returns at once, and the thread ends after the current pass.
  /// Stopping a thread that does not run does nothing.
  public func stop() {
    running.withLock { $0 }?.end()
  }
}

/// One life of a permanent thread; all that the thread itself refers to.
private final class Running: @unchecked Sendable {
  // @unchecked: `handle` and `loop` are written before other code gets this object.
  private(set) var handle = clinux_thread_t()
  private(set) var loop: Loop!
  private let name: String
  private let ready = Latch()
  private let ended = Latch()
  private let ending = Atomic<Bool>(false)
  private let isClaimed = Atomic<Bool>(false)

  init(name: String) {
    self.name = name
  }

  var isEnding: Bool { ending.load(ordering: .acquiring) }

  func launch(stackSize: Int) -> LoopError? {
    let raw = Unmanaged.passRetained(self).toOpaque()
    let result = clinux_thread_create(
      &handle, max(stackSize, 0),
      { raw in
        Unmanaged<Running>.fromOpaque(raw!).takeRetainedValue().main()
        return nil
      }, raw)
    if result != 0 {
      Unmanaged<Running>.fromOpaque(raw).release()
      return LoopError("start a thread", errorNumber: result)
    }
    ready.wait()
    return nil
  }

  private func main() {
    clinux_set_thread_name(name)
    let current = Loop.current
    loop = current
    // What keeps the loop from being empty, and so from finishing.
    current.add(Loop.Source(name: "keeps a permanent thread alive") {}, to: .default)
    ready.open()
    // A stop() of the loop itself ends a run and not the thread.
    while !isEnding { current.run() }
    current.drainAfterTermination()
    LoopThread.endCurrent()
    ended.open()
  }

  func endWithoutWaiting() {
    ending.store(true, ordering: .releasing)
    loop.terminate()
    if !isClaimed.exchange(true, ordering: .acquiringAndReleasing) { clinux_thread_detach(handle) }
  }

  func end() {
    if loop.isCurrent {
      endWithoutWaiting()
      return
    }
    ending.store(true, ordering: .releasing)
    loop.terminate()
    if !isClaimed.exchange(true, ordering: .acquiringAndReleasing) {
      clinux_thread_join(handle)
    } else {
      ended.wait()
    }
  }
}
