/// Turns addresses into frames: module, build id and offset always; symbol, file and line where they are known.
///
/// Used on the watchdog alone, after the thread has gone on.
final class FrameResolver {
  /// The time that naming one stack may take; frames beyond it go out as module and offset.
  static let timeBudget: UInt64 = 200_000_000

  private var modules: ModuleMap
  private let symbolizer: Symbolizer

  init(executablePath: String) {
    modules = ModuleMap(executablePath: executablePath)
    symbolizer = Symbolizer()
  }

  /// Forgets where modules lie: some may have been unloaded. Call it when a stall begins.
  func flush() { modules.flush() }

  /// The build id of the module that holds `address`.
  func buildID(of address: UInt64) -> String? { modules.module(at: address)?.buildID }

  /// The frames of a backtrace, innermost first, with the calls that were inlined.
  func resolve(_ backtrace: Backtrace) -> [StackFrame] {
    let deadline = MonotonicClock.now() + Self.timeBudget
    return backtrace.frames.flatMap { resolve($0, deadline: deadline) }
  }

  private func resolve(_ frame: Backtrace.Frame, deadline: UInt64) -> [StackFrame] {
    guard let module = modules.module(at: frame.address) else { return [StackFrame(offset: frame.address)] }
    let offset = frame.lookupAddress - module.loadBias
    let identity = ModuleIdentity(path: module.path, buildID: module.buildID)
    let names = symbolizer.symbolize(module: identity, address: offset, deadline: deadline)
    return names.map { name in
      StackFrame(
        symbol: name.symbol, file: name.file, line: name.line, isInlined: name.inlined, module: module.path,
        buildID: module.buildID, offset: offset,
        owner: CodeOwner(modulePath: module.path, isExecutable: module.isMainExecutable, linkageName: name.linkageName),
        isCompilerGenerated: name.isCompilerGenerated)
    }
  }
}
