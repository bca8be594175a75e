public import Testing

/// A suite that waits for its turn: of all that have this trait, in any target, one runs at a time.
///
/// For suites that start hosts, agents or machines, which would wait for each other until their time limits are over.
/// It is taken before the first test starts, so time limits do not run while a suite waits. Tests of one suite are
/// kept apart by `.serialized`.
///
/// Such tests are judged by times, too. One that fails while the machine stood still (``StandstillWatch``) is run again, up to four times; the
/// issues of before are shown as known ones. One that fails without that has failed. A test's time limit spans all its attempts.
public struct TakingTurns: SuiteTrait, TestTrait, TestScoping {
  private static let turns = Turns()
  private static let attempts = 5

  /// For suites in a suite that has its turn already.
  @TaskLocal private static var hasTurn = false

  /// Whether a test that fails while the machine stood still is run again; false for tests that are not judged by times.
  var forgivesStandstills = true

  /// Reaches the tests of the suite.
  public var isRecursive: Bool { true }

  /// Provides for suites their turn, and for each case of a test its attempts.
  public func scopeProvider(for test: Test, testCase: Test.Case?) -> Self? {
    test.isSuite || testCase != nil ? self : nil
  }

  /// Waits for the suite's turn, and gives it on when the suite has ended; or runs a test until it passes or fails on a machine that goes.
  public func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
  ) async throws {
    guard testCase == nil else { return try await attempt(function) }
    guard !Self.hasTurn else { return try await function() }
    await Self.turns.take()
    // All other tests are ready when a run begins. They go first: a time limit is not to run while they have the threads.
    for _ in 0..<16 { await Task.yield() }
    do {
      try await Self.$hasTurn.withValue(true) { try await function() }
    } catch {
      await Self.turns.give()
      throw error
    }
    await Self.turns.give()
  }

  private func attempt(_ function: @Sendable () async throws -> Void) async throws {
    guard forgivesStandstills else { return try await function() }
    for _ in 1..<Self.attempts {
      let watch = StandstillWatch()
      defer { watch.end() }
      try await withKnownIssue("The machine stood still meanwhile: once more.", isIntermittent: true) {
        try await function()
      } matching: { _ in
        !Task.isCancelled && watch.forgives()
      }
      guard watch.hasForgiven, !Task.isCancelled else { return }
    }
    try await function()
  }
}

extension Trait where Self == TakingTurns {
  /// One suite after the other: see ``TakingTurns``.
  public static var takingTurns: Self { Self() }

  /// The same; `false` where a failure is one, however busy the machine was.
  public static func takingTurns(forgivesStandstills: Bool) -> Self { Self(forgivesStandstills: forgivesStandstills) }
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
