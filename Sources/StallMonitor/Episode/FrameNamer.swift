import CLinux
import StallCapture
import StallNaming
import StallReport

/// Adds names to frames: symbol, file and line where they are known, and the calls that were inlined.
///
/// Reads files, and no memory of modules, which may have been unloaded. Belongs to the thread that names.
final class FrameNamer {
  /// Whether frames get names; otherwise the receiver of the report adds them.
  var namesFrames = true
  /// When names are no longer waited for, on the monotonic clock.
  var deadline = UInt64.max

  /// Why frames will have no functions, or nil if they will.
  let problem: String?

  private let symbolizer: Symbolizer

  private struct Place: Hashable {
    var source: SymbolSource
    var offset: UInt64
  }

  // Complete answers: the stacks of one stall, and of one host, have most frames in common.
  private var known: [Place: [StackFrame]] = [:]
  private static let knownLimit = 512

  /// Opens libdw.
  ///
  /// Takes the dynamic loader's lock: call it at start.
  init() {
    problem = Symbolizer.load()
    symbolizer = Symbolizer()
  }

  /// Call it once on the thread that names.
  func prepareThread() { Symbolizer.prepareThread() }

  /// Brings the memory for symbols back under its budget.
  ///
  /// Call it after each report.
  func trim() { symbolizer.trim() }

  /// Closes all files and forgets all names.
  func release() {
    symbolizer.release()
    known = [:]
  }

  /// The stack with its names, and the calls that were inlined; what is left without a name for lack of time is marked.
  func names(of stack: [StackFrame]) -> [StackFrame] { namesFrames ? stack.flatMap(lookUp) : stack }

  /// The stack with the names of what lies in the system's and the runtime's libraries, for a verdict that hangs on them.
  func libraryFrames(of stack: [StackFrame]) -> [StackFrame] {
    stack.flatMap { $0.owner == .host ? [$0] : lookUp($0) }
  }

  /// The stack with the names of what lies in this module.
  func frames(of stack: [StackFrame], in module: String?) -> [StackFrame] {
    stack.flatMap { $0.module == module ? lookUp($0) : [$0] }
  }

  private func lookUp(_ frame: StackFrame) -> [StackFrame] {
    guard let source = frame.source, let offset = frame.offset else { return [frame] }
    clinux_fork_monitor_thread_passes()
    let place = Place(source: source, offset: offset)
    let frames = known[place] ?? findNames(of: frame, at: place)
    guard frame.isAsync else { return frames }
    return frames.map { frame in
      var frame = frame
      frame.isAsync = true
      return frame
    }
  }

  private func findNames(of frame: StackFrame, at place: Place) -> [StackFrame] {
    let answer = symbolizer.symbolize(module: place.source.module, address: place.offset, deadline: deadline)
    var frame = frame
    (frame.source, frame.isAsync, frame.isPending) = (nil, false, answer.isIncomplete)
    if !answer.frames.isEmpty { frame.function = nil }
    let frames = frame.named(answer.frames, isExecutable: place.source.isExecutable)
    guard !answer.isIncomplete else { return frames }
    if known.count >= Self.knownLimit { known.removeAll(keepingCapacity: true) }
    known[place] = frames
    return frames
  }
}
