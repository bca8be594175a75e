/// Which frame of a stack is to blame, and which stalls are the same.
package enum Culprit {
  /// The innermost frame of the host's own code, named or not: a caller that has a name is not to blame for one that has none.
  ///
  /// Merged code is not blamed: its name may be that of a function that did not run. Where no other is known, it is the
  /// innermost merged one, and without any, the innermost that has a name. Nil while it is not known yet whose code the
  /// innermost is.
  package static func frame(of stack: [StackFrame]) -> StackFrame? {
    if let first = stack.first(where: { $0.isHostCode }), first.pending != nil, first.symbol == nil { return nil }
    return blamedIndex(of: stack).map { stack[$0] }
      ?? stack.first { $0.symbol != nil }
      ?? stack.first
  }

  /// The innermost frame of the host's, preferably of a function that is known to have run.
  private static func blamedIndex(of stack: [StackFrame]) -> Int? {
    stack.firstIndex(where: \.isHostCode) ?? stack.firstIndex(where: \.isOwnCode)
  }

  /// A hash of the function that a stall is known by, with the version of the rule in front: `v2:` and 16 hexadecimal digits.
  ///
  /// The function is the innermost of the host's own, without its callers: an optimizer takes callers out of the stack (tail
  /// calls) or gives them another's name (merged closures). So it is the same across builds, restarts, machines and
  /// address-space layouts. Of a thread that ran, the innermost is a matter of chance: there it is `common`, the innermost that
  /// most samples met, unless that is not called by the same callout. Nil without a frame of the host's, and while it is not
  /// named for lack of time. `Tests/Corpus/fingerprints` has the rule in full.
  package static func fingerprint(of stack: [StackFrame], common: StackFrame? = nil) -> String? {
    guard let innermost = blamedIndex(of: stack), stack[innermost].pending == nil else { return nil }
    let callout = stack[innermost...].prefix { !$0.isCaller }
    // Without names, a function is not known for the same from one sample to the next.
    let blamed =
      common?.symbol == nil
      ? nil : common.flatMap { common in callout.first { $0.isHostCode && $0.isSameFunction(as: common) } }
    guard let frame = blamed ?? callout.first, frame.pending == nil else { return nil }
    var hash = FNV1a()
    hash.combine(frame.identity.utf8)
    let digits = String(hash.value, radix: 16)
    return "v2:" + String(repeating: "0", count: 16 - digits.utf8.count) + digits
  }

  /// Whether the fingerprint of a computation hangs on no name of this stack that is not known.
  package static func isSettled(of stack: [StackFrame], common: StackFrame?) -> Bool {
    guard let innermost = stack.firstIndex(where: \.isHostCode) else { return true }
    guard let common, common.symbol != nil else { return stack[innermost].symbol != nil }
    for frame in stack[innermost...] {
      if frame.isSameFunction(as: common) || frame.isCaller { break }
      // It might be the common one; or a library's that calls back, and then that is out of reach.
      if frame.symbol == nil { return false }
    }
    return true
  }

  /// What makes two stalls of one process the same: the host's own functions on the stack, by name, or by where they lie in their build.
  ///
  /// More than the culprit: those that reach the same function on different ways are told each. How often a function stands on the stack has no part in it:
  /// a recursion has another depth each time. Nil without such a frame, and while one of them is not named for lack of time.
  static func repeatKey(of stack: [StackFrame]) -> String? {
    var hash = FNV1a()
    var known: Set<String> = []
    for frame in stack where frame.isOwnCode {
      if frame.pending != nil { return nil }
      guard known.insert(frame.functionKey).inserted else { continue }
      hash.combine(frame.functionKey.utf8)
      hash.combine(UInt8(ascii: "\n"))
    }
    return known.isEmpty ? nil : String(hash.value, radix: 16)
  }
}

extension StackFrame {
  /// Whether somebody of the host's wrote it.
  fileprivate var isOwnCode: Bool { owner == .host && !isCompilerGenerated }

  /// Whether somebody of the host's wrote it, and it is known who.
  var isHostCode: Bool { isOwnCode && !isMerged }

  /// What tells the function from others: its name, or its place in the build.
  fileprivate var identity: String { symbol ?? "\(buildID ?? module ?? "")+\(offset ?? 0)" }

  /// A loop, or a library that calls back: what is outside of it is not the same piece of work.
  fileprivate var isCaller: Bool {
    switch owner {
    case .host: false
    case .monitor, .system: true
    case .runtime:
      symbol.map { $0.hasPrefix("_dispatch_") || $0.hasPrefix("NIOPosix.") || $0.contains("RunLoop") } ?? false
    }
  }
}
