import StallDetection
import StallReport

extension Episode {
  /// Whether a sample shows more runs of Foundation's loop than were known.
  ///
  /// `frames` names those of Foundation's module.
  func hasUnseenRun(_ frames: ([StackFrame]) -> [StackFrame]) -> Bool {
    hasSample { sample in
      sample.knownRuns.map { FoundationRuns.count(in: frames(sample.stack)) > $0 } ?? false
    }
  }
}
