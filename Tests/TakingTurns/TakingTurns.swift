public import Testing

/// A suite that waits for its turn: of all that have this trait, in any target, one runs at a time.
///
/// For suites that start hosts, agents or machines, which would wait for each other until their time limits are over.
/// It is taken before the first test starts, so time limits do not run while a suite waits. Tests of one suite are
/// kept apart by `.serialized`.
public struct TakingTurns: SuiteTrait, TestScoping {
  private static let turns = Turns()

  /// Waits for the suite's turn, and gives it on when the suite has ended.
  public func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
  ) async throws {
    await Self.turns.take()
    // All other tests are ready when a run begins. They go first: a time limit is not to run while they have the threads.
    for _ in 0..<16 { await Task.yield() }
    do {
      try await function()
    } catch {
      await Self.turns.give()
      throw error
    }
    await Self.turns.give()
  }
}

extension Trait where Self == TakingTurns {
  /// One suite after the other: see ``TakingTurns``.
  public static var takingTurns: Self { Self() }
}

private actor Turns {
  private var isTaken = false
  private var waiting: [CheckedContinuation<Void, Never>] = []

  func take() async {
    guard isTaken else {
      isTaken = true
      return
    }
    await withCheckedContinuation { waiting.append($0) }
  }

  func give() {
    guard waiting.isEmpty else { return waiting.removeFirst().resume() }
    isTaken = false
  }
}
