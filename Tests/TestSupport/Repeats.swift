public import Testing

/// A suite or a test that is judged by real durations: see ``Testing/Trait/repeatedAfterStandstills(because:)``.
public struct RepeatedAfterStandstills: SuiteTrait, TestTrait, TestScoping {
  private static let attempts = 5

  let reason: String

  /// Reaches the tests of a suite.
  public var isRecursive: Bool { true }

  /// Provides for each case of a test its attempts.
  public func scopeProvider(for test: Test, testCase: Test.Case?) -> Self? { testCase != nil ? self : nil }

  /// Runs a test until it passes, or fails while the machine did not pause.
  public func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
  ) async throws {
    for _ in 1..<Self.attempts {
      let watch = StandstillWatch()
      defer { watch.end() }
      try await withKnownIssue("repeated: the machine stood still, and \(reason)", isIntermittent: true) {
        try await StandstillWatch.$current.withValue(watch) { try await function() }
      } matching: { _ in
        !Task.isCancelled && watch.forgives()
      }
      guard watch.hasForgiven, !Task.isCancelled else { return }
    }
    try await function()
  }
}

extension Trait where Self == RepeatedAfterStandstills {
  /// Runs a test again, up to four times, that fails while a processor of the machine did not serve a thread, or the victim's, for 30 ms.
  ///
  /// The issues of before are shown as known ones, and CI counts them. A test that fails without that has failed. A test's time limit spans
  /// all its attempts. `reason` says which real duration is judged.
  public static func repeatedAfterStandstills(because reason: String) -> Self { Self(reason: reason) }
}
