import StallReport

/// What a stall is known by, as far as the names of its frames show it.
package struct StallIdentity {
  /// Nil where it is not known whose code the innermost frame is.
  package private(set) var culprit: StackFrame?
  /// Nil without a frame of the service's own code.
  package private(set) var fingerprint: String?
  /// No name that is missing would change it.
  package private(set) var isFingerprintCertain: Bool
  package private(set) var path: CallTree.Path?
  package private(set) var isPathCertain = false

  /// - Parameters:
  ///   - stack: The frames of the sample that is shown.
  ///   - tree: All samples; nil if they are not known.
  ///   - ran: The thread ran at the sample that is shown.
  package init(stack: [StackFrame], tree: CallTree?, ran: Bool) {
    culprit = Culprit.frame(of: stack)
    let (common, isCommonCertain) = ran ? tree?.certainCommonFrame ?? (nil, false) : (nil, true)
    fingerprint = Culprit.fingerprint(of: stack, common: common)
    isFingerprintCertain =
      culprit != nil && isCommonCertain && (!ran || Culprit.isSettled(of: stack, common: common))
    if let tree { (path, isPathCertain) = tree.certainPath }
  }
}
