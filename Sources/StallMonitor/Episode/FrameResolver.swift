import CLinux
import CUnwind
import StallCapture
import StallReport
import StallSymbols

/// Turns addresses into frames: module, build ID and offset always; symbol, file and line where they are known.
///
/// Used only on the watchdog's thread, after the sampled thread has continued.
final class FrameResolver {
  /// The time that names may take, for a stall's first report and for each later one, in nanoseconds.
  ///
  /// The loop does not wait for it, but the line does. Frames beyond it go out as module, build ID and offset, and are named in a
  /// later report of the same stall.
  struct TimeBudget {
    var first: UInt64 = 100_000_000
    // More, so that what cannot be divided gets done in the end: the lines of a unit with a million of them.
    var later: UInt64 = 400_000_000
  }

  /// Whether frames get names; otherwise the receiver of the report adds them.
  var namesFrames = true

  private let budget: TimeBudget
  private var deadline = UInt64.max
  private var modules: ModuleMap
  private let symbolizer: Symbolizer

  private struct CodeLocation: Hashable {
    var module: ObjectIdentifier
    var offset: UInt64
  }

  // Complete answers by address: the stacks of one stall, and of one host, have most frames in common.
  private var known: [CodeLocation: [StackFrame]] = [:]
  // What `known` holds keeps its modules alive: an object's identity is not given to another one.
  private var knownModules: [ObjectIdentifier: LoadedModule] = [:]
  // Where functions begin that have no names.
  private var functions: [CodeLocation: UInt64] = [:]
  private static let knownLimit = 512

  /// Why frames will have no functions, or nil if they will.
  let problem: String?

  /// Opens libdw.
  ///
  /// Takes the dynamic loader's lock: call it at start.
  init(executablePath: String, budget: TimeBudget = TimeBudget()) {
    self.budget = budget
    problem = Symbolizer.load()
    modules = ModuleMap(executablePath: executablePath)
    symbolizer = Symbolizer()
  }

  /// Call it once on the thread that resolves.
  func prepareThread() { Symbolizer.prepareThread() }

  /// Forgets where modules lie: some may have been unloaded.
  ///
  /// Call it when a stall begins.
  func flush() { modules.flush() }

  /// Brings the memory for symbols back under its budget.
  ///
  /// Call it after each report.
  func trim() { symbolizer.trim() }

  /// The build ID of the module that holds `address`.
  func buildID(of address: UInt64) -> String? { modules.module(at: address)?.buildID }

  /// Sets the clock for the stacks of one report: the stalled thread's first, then those of others.
  func beginReport(isFirst: Bool) {
    deadline = MonotonicClock.now() + (isFirst ? budget.first : budget.later)
  }

  /// The frames of a backtrace, innermost first, with the calls that were inlined.
  func resolve(_ backtrace: Backtrace) -> [StackFrame] {
    var stack: [StackFrame] = []
    stack.reserveCapacity(2 * backtrace.frames.count)
    for frame in backtrace.frames { stack += resolve(frame) }
    return stack
  }

  /// The same, with a clock of its own: until `deadline`.
  func resolve(_ backtrace: Backtrace, deadline: UInt64) -> [StackFrame] {
    self.deadline = deadline
    return resolve(backtrace)
  }

  /// The same stack with the names for which there was no time before.
  func complete(_ stack: [StackFrame]) -> [StackFrame] {
    stack.flatMap { frame -> [StackFrame] in
      guard let pending = frame.pending else { return [frame] }
      // Inlined calls come again with the function that they are in.
      return frame.isInlined ? [] : resolve(pending)
    }
  }

  private func resolve(_ frame: Backtrace.Frame) -> [StackFrame] {
    clinux_fork_monitor_thread_passes()
    let frames = resolvePlace(frame)
    guard frame.isAsync else { return frames }
    return frames.map { frame in
      var frame = frame
      frame.isAsync = true
      return frame
    }
  }

  private func resolvePlace(_ frame: Backtrace.Frame) -> [StackFrame] {
    guard let module = modules.module(at: frame.address) else {
      // In the first pages nothing ever lies: a call through a null pointer, which is its caller's.
      return [StackFrame(offset: frame.address, owner: frame.address < 65536 ? .system : .host)]
    }
    let offset = frame.lookupAddress &- module.loadBias
    let key = CodeLocation(module: ObjectIdentifier(module), offset: offset)
    guard namesFrames else { return unnamed(frame, key: key, in: module) }
    if let frames = known[key] { return frames }
    var result = StackFrame(module: module.path, buildID: module.buildID, offset: offset)
    var identity = module.identity
    identity.usesDebugFile = module.isMainExecutable || HostCode.ownerOfLibrary(module.path) == nil
    let answer = symbolizer.symbolize(module: identity, address: offset, deadline: deadline)
    if answer.isIncomplete { result.pending = frame }
    let frames = result.named(answer.frames, isExecutable: module.isMainExecutable)
    guard !answer.isIncomplete else { return frames }
    makeRoom(for: module, key)
    known[key] = frames
    return frames
  }

  private func makeRoom(for module: LoadedModule, _ key: CodeLocation) {
    if known.count + functions.count >= Self.knownLimit {
      known.removeAll(keepingCapacity: true)
      functions.removeAll(keepingCapacity: true)
      knownModules.removeAll(keepingCapacity: true)
    }
    knownModules[key.module] = module
  }

  // MARK: Without names

  /// The frame as module, build ID and offset; its function is known by its beginning.
  private func unnamed(_ frame: Backtrace.Frame, key: CodeLocation, in module: LoadedModule) -> [StackFrame] {
    var result = StackFrame(module: module.path, buildID: module.buildID, offset: key.offset)
    result.unnamed = frame
    if let start = functions[key] {
      result.function = start
    } else {
      let start = cunwind_function_start(frame.lookupAddress)
      makeRoom(for: module, key)
      functions[key] = start > 0 ? start &- module.loadBias : key.offset
      result.function = functions[key]
    }
    return result.named([], isExecutable: module.isMainExecutable)
  }

  /// The stack with the names of what lies in the system's and the runtime's libraries, for a verdict that hangs on them.
  func libraryFrames(of stack: [StackFrame]) -> [StackFrame] {
    stack.flatMap { $0.owner == .host ? [$0] : lookedUp($0) }
  }

  /// The same with the names of what lies in the module that has Foundation's run loops, if there is one.
  func runLoopFrames(of stack: [StackFrame]) -> [StackFrame] {
    guard !namesFrames, clinux_cf_is_here(), let home = modules.module(at: UInt64(clinux_cf_address())) else {
      return stack
    }
    return stack.flatMap { $0.module == home.path ? lookedUp($0) : [$0] }
  }

  private func lookedUp(_ frame: StackFrame) -> [StackFrame] {
    guard let unnamed = frame.unnamed else { return [frame] }
    namesFrames = true
    defer { namesFrames = false }
    return resolve(unnamed)
  }
}
