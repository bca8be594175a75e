import StallCapture

/// The actions in the order in which a stall comes to them.
struct ActionPlan: Sendable {
  private let actions: [(level: UInt64, kind: StallAction.Kind)]

  init(_ actions: [StallAction]) {
    // Stable: of one level, in the order in which the service gave them; but an abort comes last.
    self.actions = actions.map { ($0.after.nanoseconds, $0.kind) }.enumerated().sorted { a, b in
      (a.element.0, a.element.1 == .abort ? 1 : 0, a.offset) < (b.element.0, b.element.1 == .abort ? 1 : 0, b.offset)
    }.map(\.element)
  }

  /// Whether there are closures of the service's to call.
  static func needsCourier(_ actions: [StallAction]) -> Bool {
    actions.contains { if case .call = $0.kind { true } else { false } }
  }

  /// What is due of a stall that has lasted for `duration`, if the first `done` actions have been done.
  func due(after duration: UInt64, done: Int) -> [StallAction.Kind] {
    actions.dropFirst(done).prefix { $0.level <= duration }.map(\.kind)
  }

  /// The duration at which the next action is due; nil if there is none.
  func nextLevel(done: Int) -> UInt64? { done < actions.count ? actions[done].level : nil }
}
