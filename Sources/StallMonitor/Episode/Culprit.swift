/// Which frame of a stack is to blame, and which stalls are the same.
package enum Culprit {
  /// The innermost frame of the host's own code, named or not: a caller that has a name is not to blame for one that has none.
  ///
  /// Where none is known, the innermost that has a name. Nil while it is not known yet whose code the innermost is.
  package static func frame(of stack: [StackFrame]) -> StackFrame? {
    if let first = stack.first(where: { $0.isHostCode }), first.pending != nil, first.symbol == nil { return nil }
    return stack.first { $0.isHostCode }
      ?? stack.first { $0.symbol != nil }
      ?? stack.first
  }

  /// A hash of the function that a stall is known by, with the version of the rule in front: `v2:` and 16 hexadecimal digits.
  ///
  /// The function is the innermost of the host's own, without its callers: an optimizer takes callers out of the stack (tail
  /// calls) or gives them another's name (merged closures). So it is the same across builds, restarts, machines and
  /// address-space layouts. Of a thread that ran, the innermost is a matter of chance: there it is `common`, the innermost that
  /// most samples met, unless that is not called by the same callout. Nil without a frame of the host's, and while it is not
  /// named for lack of time. `Tests/Corpus/fingerprints` has the rule in full.
  package static func fingerprint(of stack: [StackFrame], common: StackFrame? = nil) -> String? {
    guard let innermost = stack.firstIndex(where: \.isHostCode), stack[innermost].pending == nil else { return nil }
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

  /// A hash over all of the host's own frames: what tells stalls of one process apart that have the culprit in common.
  ///
  /// Nil without such a frame, and while one of them is not named.
  static func path(of stack: [StackFrame]) -> UInt64? {
    var hash = FNV1a()
    var isEmpty = true
    for frame in stack where frame.isHostCode {
      isEmpty = false
      if frame.pending != nil { return nil }
      hash.combine(frame.identity.utf8)
      hash.combine(UInt8(ascii: "\n"))
    }
    return isEmpty ? nil : hash.value
  }
}

extension Culprit {
  /// What makes two stalls of one process the same: the fingerprint where frames have names, and else a hash over functions, by where
  /// they lie.
  ///
  /// Nil where there is no fingerprint.
  static func repeatKey(of stack: [StackFrame]) -> String? {
    guard stack.contains(where: { $0.unnamed != nil }) else { return fingerprint(of: stack) }
    var hash = FNV1a()
    for frame in stack where frame.isHostCode {
      hash.combine(frame.functionKey.utf8)
      hash.combine(UInt8(ascii: "\n"))
    }
    return fingerprint(of: stack) == nil ? nil : String(hash.value, radix: 16)
  }
}

extension StackFrame {
  /// Whether somebody of the host's wrote it.
  var isHostCode: Bool { owner == .host && !isCompilerGenerated }

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
