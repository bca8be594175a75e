import StallMonitor
import StallReport

/// The identity of a stall once its frames have names, by the monitor's own rules, and which parts of it are uncertain.
struct StallAttribution {
  /// Nil where the owner of a frame's code is unknown.
  private(set) var culprit: StackFrame?
  /// Nil if there is none, or it is uncertain.
  private(set) var fingerprint: String?
  /// Another file, or another name, would not change the fingerprint.
  private(set) var isFingerprintCertain = false
  private(set) var path: CallTree.Path?
  private(set) var isPathCertain = false

  /// - Parameters:
  ///   - stack: The frames of the sample that is shown, judged.
  ///   - isWhole: No frame was taken out of it.
  ///   - tree: All samples; nil where the line has none.
  ///   - samples: The number of samples of the thread.
  ///   - ran: The thread ran at the sample that is shown.
  init(stack: [FrameText], isWhole: Bool, tree: CallTree?, samples: Int, ran: Bool) {
    var frames = stack.map(\.frame)
    let culprit = Culprit.frame(of: frames)
    // A frame further in, whose owner is unknown, might be the one.
    let firstUnjudged = stack.firstIndex { $0.isUnjudged } ?? stack.count
    let position = culprit.flatMap { frames.firstIndex(of: $0) } ?? stack.count
    // One sample is all of them.
    let tree = tree ?? (samples <= 1 && isWhole ? Self.tree(of: stack) : nil)
    if let tree { (path, isPathCertain) = tree.certainPath }
    guard position < firstUnjudged else { return }
    self.culprit = culprit
    guard isWhole else { return }
    guard ran else {
      fingerprint = Culprit.fingerprint(of: frames)
      isFingerprintCertain = true
      return
    }
    guard let tree else { return }
    let (common, isCertain) = tree.certainCommonFrame
    for index in frames.indices where stack[index].isUnjudged { frames[index].symbol = nil }
    guard isCertain, Culprit.isSettled(of: frames, common: common) else { return }
    fingerprint = Culprit.fingerprint(of: frames, common: common)
    isFingerprintCertain = true
  }

  private static func tree(of stack: [FrameText]) -> CallTree {
    var tree = CallTree(samples: 1, weight: 1)
    let frames = stack.map { given in
      var frame = given.frame
      if given.isUnjudged { frame.symbol = nil }
      return frame
    }
    _ = tree.add(frames, under: nil, weight: 1, samples: 1)
    return tree
  }
}
