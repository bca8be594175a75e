import Foundation
public import Testing

/// Tests that take too long for `make test`.
public enum LongForm {
  /// Whether tests run in their long form: `TEST_FORM=long`, as the targets of the Makefile that name them have it.
  public static let isOn = ProcessInfo.processInfo.environment["TEST_FORM"] == "long"
}

extension Trait where Self == ConditionTrait {
  /// Leaves a test to a target of the Makefile: `make test-shared-agent`.
  public static func onlyInLongForm(_ target: String) -> Self {
    .enabled(if: LongForm.isOn, "takes long: `make \(target)` runs it")
  }
}
