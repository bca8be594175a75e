import Synchronization

extension Loop {
  /// The thread of the loop ended before the work could run.
  public struct Ended: Error, Sendable, Equatable, CustomStringConvertible {
    /// What happened, in words.
    public var description: String { "the loop's thread exited before the work ran" }
  }

  /// Runs a closure on the loop's thread and waits for its result.
  ///
  /// On the loop's own thread, it runs immediately. The closure does not escape: nothing of it outlives the call, so a `deinit` may call this
  /// with what it captures of `self`.
  ///
  /// - Important: Two loops that wait for each other wait for ever.
  /// - Parameters:
  ///   - mode: The mode in which the closure may run.
  ///   - name: What the monitor calls it in a report.
  ///   - file: Where it was scheduled.
  ///   - line: Where it was scheduled.
  ///   - body: Called on the loop's thread.
  /// - Returns: What the closure returns.
  /// - Throws: What the closure throws, or ``Ended`` when the loop's thread has ended or ends before it comes to the
  ///   closure.
  public func performAndWait<Value: Sendable>(
    in mode: Mode = .common, name: StaticString? = nil, file: StaticString = #fileID, line: UInt32 = #line,
    _ body: sending () throws -> Value
  ) throws -> Value {
    if isOwnerOrNow { return try body() }
    // Nobody would come to it but this thread, which waits.
    if published.hasEndedHere { throw Ended() }
    return try withoutActuallyEscaping(body) { body in
      let call = AwaitedCall(body, by: threadID)
      post(in: mode, name: name, file: file, line: line, { try call.run() }) { call.finish($0) }
      return try call.wait().get()
    }
  }

  /// Runs a closure on the loop's thread and awaits its result without blocking a thread.
  ///
  /// - Parameters:
  ///   - mode: The mode in which the closure may run.
  ///   - name: What the monitor calls it in a report.
  ///   - file: Where it was scheduled.
  ///   - line: Where it was scheduled.
  ///   - body: Called on the loop's thread. If that is the calling thread, it does not run immediately either.
  /// - Returns: What the closure returns.
  /// - Throws: What the closure throws, or ``Ended`` when the loop's thread has ended or ends before it comes to the
  ///   closure.
  public func performAndWait<Value: Sendable>(
    in mode: Mode = .common, name: StaticString? = nil, file: StaticString = #fileID, line: UInt32 = #line,
    _ body: sending @escaping () throws -> Value
  ) async throws -> Value {
    try await withCheckedThrowingContinuation { continuation in
      post(in: mode, name: name, file: file, line: line, body) { continuation.resume(with: $0) }
    }
  }

  /// Posts a closure and reports its outcome exactly once: its result, or that it was dropped.
  private func post<Value: Sendable>(
    in mode: Mode, name: StaticString?, file: StaticString, line: UInt32,
    _ body: @escaping () throws -> Value, answer: @escaping @Sendable (Result<Value, any Error>) -> Void
  ) {
    let promise = Promise(answer)
    note(mode)
    _ = enqueue(
      WorkItem(modes: mode.id, callSite: CallSite(file, line, name)) { promise.give(Result { try body() }) })
  }
}

/// Delivers its answer once.
///
/// Its release without an answer also counts as one.
private final class Promise<Value: Sendable>: Sendable {
  private let answer: @Sendable (Result<Value, any Error>) -> Void
  private let isGiven = Atomic<Bool>(false)

  init(_ answer: @escaping @Sendable (Result<Value, any Error>) -> Void) {
    self.answer = answer
  }

  deinit {
    if !isGiven.load(ordering: .relaxed) { answer(.failure(Loop.Ended())) }
  }

  func give(_ result: Result<Value, any Error>) {
    isGiven.store(true, ordering: .relaxed)
    answer(result)
  }
}

/// A closure that one thread calls while another one sleeps for its result.
private final class AwaitedCall<Value: Sendable>: @unchecked Sendable {
  // @unchecked: the closure is touched by the thread that calls it alone, until the latch opens.
  private var body: (() throws -> Value)?
  private let result = Guarded<Result<Value, any Error>?>(nil)
  private let latch: Latch

  init(_ body: @escaping () throws -> Value, by thread: Int32) {
    self.body = body
    latch = Latch(openedBy: thread)
  }

  // A function of its own: when it returns, it has released what it has of the closure.
  @inline(never)
  func run() throws -> Value {
    guard let body = body.take() else { throw Loop.Ended() }
    return try body()
  }

  /// Releases the closure, also if it was not called, and wakes the sleeper.
  func finish(_ value: Result<Value, any Error>) {
    body = nil
    result.withLock { $0 = value }
    latch.open()
  }

  func wait() -> Result<Value, any Error> {
    latch.wait()
    return result.withLock { $0.take() } ?? .failure(Loop.Ended())
  }
}
