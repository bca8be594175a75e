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

  /// A hash over the names of the host's own frames, with the version of the rule in front: `v1:` and 16 hexadecimal
  /// digits.
  ///
  /// The same across restarts, machines and address-space layouts; nil without a frame of the host's, and while one of
  /// them is not named for lack of time.
  package static func fingerprint(of stack: [StackFrame]) -> String? {
    var hash = FNV1a()
    var isEmpty = true
    for frame in stack where frame.isHostCode {
      isEmpty = false
      if frame.pending != nil { return nil }
      // A frame without a name is told apart by its place in the build.
      let text = frame.symbol ?? "\(frame.buildID ?? frame.module ?? "")+\(frame.offset ?? 0)"
      hash.combine(text.utf8)
      hash.combine(UInt8(ascii: "\n"))
    }
    guard !isEmpty else { return nil }
    let digits = String(hash.value, radix: 16)
    return "v1:" + String(repeating: "0", count: 16 - digits.utf8.count) + digits
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
}
