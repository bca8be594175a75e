import StallReport

// Apart from `LoopDescription.swift`, which other platforms compile without `StallReport`.
extension LoopDescription.Kind {
  /// The kind that a report gives.
  var loopKind: LoopKind {
    switch value {
    case .nio: .nio
    case .executor: .executor
    }
  }
}
