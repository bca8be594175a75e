import StallReport

/// Frames of a stack that are shown as one line, such as "12 frames of LoopEngine".
struct FoldedFrames: Equatable {
  /// The frames' places in the stack.
  var range: Range<Int>
  /// What they are of: "LoopEngine", "libdispatch and the C library".
  var origin: String

  var text: String { "\(range.count) frames of \(origin)" }

  /// The frames of a stack that fold; a ``FoldRule`` says of each frame what it is.
  ///
  /// The responsible function and the service's own code stay. So does what they called, because it shows what the thread
  /// waited for. A single frame stays, and so does a stack that would fold whole.
  ///
  /// - Parameters:
  ///   - stack: Symbols and modules, innermost first; an empty text where there is none.
  ///   - responsible: The symbol of the responsible function.
  /// - Returns: What folds, from the innermost outwards; none overlaps another.
  static func inside(_ stack: [(symbol: String, module: String)], responsible: String?) -> [FoldedFrames] {
    let rules = stack.map { FoldRule.rule(symbol: $0.symbol, module: $0.module) }
    let responsible = responsible.flatMap { name in stack.firstIndex { $0.symbol == name } }
    let own = stack.indices.first {
      rules[$0] == nil && FrameColor.isOwn(symbol: stack[$0].symbol, module: stack[$0].module)
    }
    let innermost = [responsible, own].compactMap { $0 }.min() ?? stack.count
    func name(_ index: Int) -> String? {
      guard index != responsible, let rule = rules[index], index > innermost || rule.foldsCallees else { return nil }
      return rule.name
    }
    return folds(stack.indices.map(name))
  }

  /// Joins neighbours that fold; each frame has the name of its rule, or nil if it stays.
  static func folds(_ names: [String?]) -> [FoldedFrames] {
    var folds: [FoldedFrames] = []
    var start = 0
    while start < names.count {
      let end = names[start...].firstIndex { $0 == nil } ?? names.count
      if end - start > 1, end - start < names.count {
        folds.append(FoldedFrames(range: start..<end, origin: list(names[start..<end].compactMap { $0 })))
      }
      start = max(end, start + 1)
    }
    return folds
  }

  /// Distinct names in their order: "A", "A and B", "A, B and C".
  static func list(_ names: [String]) -> String {
    var distinct: [String] = []
    for name in names where !distinct.contains(name) { distinct.append(name) }
    guard distinct.count > 1 else { return distinct.first ?? "" }
    return distinct.dropLast().joined(separator: ", ") + " and " + distinct[distinct.count - 1]
  }
}
