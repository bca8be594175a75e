/// Which frame of a stack is to blame, and which stalls are the same.
enum Culprit {
  /// The innermost frame of the host's own code, named or not: a caller that has a name is not to blame for one that has none.
  ///
  /// Where none is known, the innermost that has a name.
  static func frame(of stack: [StackFrame]) -> StackFrame? {
    stack.first { $0.isHostCode }
      ?? stack.first { $0.symbol != nil }
      ?? stack.first
  }

  /// A hash over the names of the host's own frames, with the version of the rule in front: `v1:` and 16 hexadecimal
  /// digits.
  ///
  /// The same across restarts, machines and address-space layouts; nil without a frame of the host's.
  ///
  /// FNV-1a, 64 bits (Fowler, Noll, Vo): stable over platforms and versions, unlike `Hasher`.
  static func fingerprint(of stack: [StackFrame]) -> String? {
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    var isEmpty = true
    for frame in stack where frame.isHostCode {
      isEmpty = false
      // A frame without a name is told apart by its place in the build.
      let text = frame.symbol ?? "\(frame.buildID ?? frame.module ?? "")+\(frame.offset ?? 0)"
      for byte in text.utf8 { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01b3 }
      hash = (hash ^ 0x0a) &* 0x0000_0100_0000_01b3
    }
    guard !isEmpty else { return nil }
    let digits = String(hash, radix: 16)
    return "v1:" + String(repeating: "0", count: 16 - digits.utf8.count) + digits
  }
}

extension StackFrame {
  fileprivate var isHostCode: Bool { owner == .host && !isCompilerGenerated }
}
