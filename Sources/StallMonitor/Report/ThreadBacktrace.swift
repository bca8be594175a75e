/// A snapshot of one thread: whether it ran or waited, and its call stack with function names.
///
/// ``StallMonitor/captureAllThreads(timeLimit:)`` makes them. Its `description` is text for people, one line a frame.
public struct ThreadBacktrace: Sendable, Hashable {
  /// A call on the stack.
  public struct Frame: Sendable, Hashable {
    /// The function's demangled name, if it is known.
    public var symbol: String?
    /// The source file, if it is known.
    public var file: String?
    /// The line in it.
    public var line: Int?
    /// Whether the call was inlined into the next frame that is not inlined.
    public var isInlined: Bool
    /// Whether the function is suspended: it awaits the call of the frames before it, and is not on
    /// the thread's stack.
    public var isAsync: Bool
    /// The executable or library, if the code lies in one.
    public var module: String?
    /// The module's GNU build ID in hexadecimal, if it has one.
    public var buildID: String?
    /// The address in the module that `addr2line` takes; for a caller, of the call and not of its return.
    public var offset: UInt64?
  }

  /// The kernel's id of the thread.
  public var threadID: Int32
  /// The thread's name: at most 15 bytes.
  public var name: String?
  /// Whether the thread was running or ready to run.
  public var isRunning: Bool
  /// The call that it was waiting in, in words, such as `read(fd 7 → pipe:[1234])`.
  ///
  /// Nil if it was running, or was not captured.
  public var wait: String?
  /// The calls, innermost first; empty if the stack could not be captured (see ``failure``).
  public var frames: [Frame]
  /// Whether a frame may be wrong: it was found by scanning the stack, or read after the thread had continued.
  public var isApproximate: Bool
  /// Whether outer frames could not be found.
  public var isTruncated: Bool
  /// Whether the thread runs a child task: the functions that wait for it are in its parent task, and not among the frames.
  public var isChildTask: Bool
  /// Why there are no frames, in words.
  public var failure: String?
}

extension ThreadBacktrace: CustomStringConvertible {
  /// The thread in lines: what it did, then its frames.
  public var description: String {
    let doing = isRunning ? "running" : wait ?? "not inspected"
    var lines = ["thread \(threadID)\(name.map { " \"\($0)\"" } ?? ""): \(doing)"]
    if let failure { lines.append("  no stack: \(failure)") }
    for (number, frame) in frames.enumerated() { lines.append("  #\(number) \(frame)") }
    if isChildTask { lines.append("  (a child task; its parent waits for it)") }
    if isTruncated { lines.append("  … outer frames not found") }
    if isApproximate {
      lines.append("  (a frame may be wrong: found by scanning the stack, or read after the thread had continued)")
    }
    return lines.joined(separator: "\n")
  }
}

extension ThreadBacktrace.Frame: CustomStringConvertible {
  /// The function, its place in the source if that is known, and its place in the module.
  public var description: String {
    let place = file.map { " at \($0)\(line.map { ":\($0)" } ?? "")" } ?? ""
    let code = offset.map { " (\(module ?? "unknown module")+0x\(String($0, radix: 16)))" } ?? ""
    return (symbol ?? "??") + (isInlined ? " [inlined]" : "") + (isAsync ? " [async]" : "") + place + code
  }
}
