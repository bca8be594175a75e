/// The rules for the responsible frame of a stack, and for equal stalls.
package enum Culprit {
  /// The responsible frame is the innermost frame of the service's own code, with or without a name.
  ///
  /// Code that runs a loop is not responsible for what the loop calls: frames outside of a loop count only if no loop is inside, or
  /// if a task runs a loop that waits.
  /// Merged code is not responsible: its name may be that of a function that did not run. Where no other is known, it is the
  /// innermost merged one, and without any, the innermost that has a name. Nil while it is not known yet whose code the
  /// innermost is.
  package static func frame(of stack: [StackFrame]) -> StackFrame? {
    if let first = work(in: stack).first(where: { $0.isHostCode }), first.isPending, first.symbol == nil {
      return nil
    }
    return responsibleIndex(of: stack).map { stack[$0] }
      ?? stack.first { $0.symbol != nil && !$0.isAsync }
      ?? stack.first
  }

  /// The innermost frame of the service's own code, preferably of a function that is known to have run.
  package static func responsibleIndex(of stack: [StackFrame]) -> Int? {
    let work = work(in: stack)
    return work.firstIndex(where: \.isHostCode) ?? work.firstIndex(where: \.isOwnCode)
  }

  /// What the innermost loop has called, without asynchronous callers (`isAsync`), which are not always known.
  ///
  /// If the loop called none of the service's own code, and a task runs the loop within its job, it is what the job has called.
  private static func work(in stack: [StackFrame]) -> ArraySlice<StackFrame> {
    let called = stack.prefix { !$0.isLoop && !$0.isAsync }
    guard !called.contains(where: \.isOwnCode), let job = stack.firstIndex(where: \.isJob),
      let loop = stack[..<job].lastIndex(where: \.isLoop)
    else { return called }
    let ofJob = stack[(loop + 1)..<job]
    return ofJob.contains(where: \.isOwnCode) ? ofJob : called
  }

  /// The part of a stack that is one piece of work: from the innermost frame of the service's own code to what called back.
  package static func callout(of stack: [StackFrame]) -> ArraySlice<StackFrame> {
    guard let innermost = responsibleIndex(of: stack) else { return [] }
    return stack[innermost...].prefix { !$0.isCaller && !$0.isAsync }
  }

  /// Whether the stacks of one stall show many short pieces of work: no function is in more than half of them.
  ///
  /// Only the innermost callout of each stack counts: frames outside of it are on every stack.
  /// False with fewer than three stacks, and where a function has no name: then it cannot be
  /// distinguished from others.
  package static func disagree(_ stacks: [[StackFrame]]) -> Bool {
    guard stacks.count >= 3 else { return false }
    var counts: [String: Int] = [:]
    for stack in stacks {
      let frames = callout(of: stack).filter(\.isHostCode)
      guard !frames.isEmpty, frames.allSatisfy({ $0.symbol != nil }) else { return false }
      for function in Set(frames.map(\.functionKey)) { counts[function, default: 0] += 1 }
    }
    return counts.values.allSatisfy { 2 * $0 <= stacks.count }
  }

  /// A hash of the function that a stall is known by, with the version of the rule in front: `v2:` and 16 hexadecimal digits.
  ///
  /// The function is the innermost of the service's own, without its callers: an optimizer takes callers out of the stack (tail
  /// calls) or gives them another's name (merged closures). So it is the same across builds, restarts, machines and
  /// address-space layouts. Of a thread that ran, the innermost is a matter of chance: there it is `common`, the innermost that
  /// most samples met, unless that is not called by the same callout. Nil without a frame of the service's own code, and while it is not
  /// named for lack of time. `Tests/Corpus/fingerprints` has the rule in full.
  package static func fingerprint(of stack: [StackFrame], common: StackFrame? = nil) -> String? {
    let callout = callout(of: stack)
    guard let innermost = callout.first, !innermost.isPending else { return nil }
    // Without names, a function is not known for the same from one sample to the next.
    let responsible =
      common?.symbol == nil
      ? nil : common.flatMap { common in callout.first { $0.isHostCode && $0.isSameFunction(as: common) } }
    let frame = responsible ?? innermost
    guard !frame.isPending else { return nil }
    var hash = FNV1a()
    hash.combine(frame.identity.utf8)
    return "v2:" + Hexadecimal.text(hash.value)
  }

  /// Whether the fingerprint of a stall on CPU depends on no unknown name of this stack.
  package static func isSettled(of stack: [StackFrame], common: StackFrame?) -> Bool {
    guard let innermost = work(in: stack).firstIndex(where: \.isHostCode) else { return true }
    guard let common, common.symbol != nil else { return stack[innermost].symbol != nil }
    for frame in stack[innermost...] {
      if frame.isSameFunction(as: common) || frame.isCaller || frame.isAsync { break }
      // It might be the common one; or a library's that calls back, and then that is out of reach.
      if frame.symbol == nil { return false }
    }
    return true
  }

  /// What makes two stalls of one process the same: the service's own functions on the stack, by name and file.
  ///
  /// A frame that an agent will name is known by its address: functions that were inlined into one have all else in common.
  ///
  /// Stricter than the responsible function: stalls that reach the same function on different paths
  /// are distinct. It does not depend on how often a function is on the stack, because the depth of
  /// a recursion varies, nor on functions that wait for an asynchronous call. Nil without such a
  /// frame, and while one of them is not named for lack of time.
  package static func repeatKey(of stack: [StackFrame]) -> String? {
    var hash = FNV1a()
    var known: Set<String> = []
    for frame in stack where frame.isOwnCode && !frame.isAsync {
      if frame.isPending { return nil }
      let key = frame.repeatKey
      guard known.insert(key).inserted else { continue }
      hash.combine(key.utf8)
      hash.combine(UInt8(ascii: "\n"))
    }
    return known.isEmpty ? nil : String(hash.value, radix: 16)
  }
}

extension StackFrame {
  /// Whether it is the service's own code.
  fileprivate var isOwnCode: Bool { owner == .host && !isCompilerGenerated }

  /// Whether it is the service's own code, and not merged code.
  package var isHostCode: Bool { isOwnCode && !isMerged }

  /// What a repetition has in common with the stall that was reported.
  fileprivate var repeatKey: String {
    if source != nil, symbol == nil { return "\(buildID ?? module ?? "")+\(offset ?? 0)" }
    return functionKey + (file.map { " \($0)" } ?? "")
  }

  /// The function's identity: its name, or its place in the build.
  fileprivate var identity: String { symbol ?? "\(buildID ?? module ?? "")+\(offset ?? 0)" }

  /// A loop that calls the work that is due, of any ``LoopLibrary``.
  fileprivate var isLoop: Bool {
    guard owner != .host, let symbol else { return false }
    return LoopLibrary.loops.contains { symbol.hasPrefix($0) }
  }

  /// The beginning of a job of Swift concurrency.
  fileprivate var isJob: Bool { owner != .host && symbol?.hasPrefix("swift_job_run") == true }

  /// A loop, or a library that calls back: what is outside of it is not the same piece of work.
  fileprivate var isCaller: Bool {
    switch owner {
    case .host: false
    case .monitor, .system: true
    case .runtime: symbol.map(LoopLibrary.callsBack) ?? false
    }
  }
}
