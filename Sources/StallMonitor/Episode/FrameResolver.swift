/// Turns addresses into frames: module, build id and offset always; symbol, file and line where they are known.
///
/// Used on the watchdog alone, after the thread has gone on.
final class FrameResolver {
  /// The time that naming one stack may take; frames beyond it go out as module and offset.
  static let timeBudget: UInt64 = 200_000_000

  private var modules: ModuleMap
  private let symbolizer: Symbolizer

  /// Opens libdw.
  ///
  /// Takes the dynamic loader's lock: call it at start.
  init(executablePath: String) {
    Symbolizer.load()
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

  /// The build id of the module that holds `address`.
  func buildID(of address: UInt64) -> String? { modules.module(at: address)?.buildID }

  /// The frames of a backtrace, innermost first, with the calls that were inlined.
  ///
  /// Frames that come up after `deadline` go out as module and offset.
  func resolve(
    _ backtrace: Backtrace, deadline: UInt64 = MonotonicClock.now() + FrameResolver.timeBudget
  ) -> [StackFrame] {
    backtrace.frames.flatMap { resolve($0, deadline: deadline) }
  }

  private func owner(of name: SymbolizedFrame?, in module: LoadedModule) -> CodeOwner {
    HostCode.owner(
      modulePath: module.path, isExecutable: module.isMainExecutable, linkageName: name?.linkageName,
      symbol: name?.symbol)
  }

  private func resolve(_ frame: Backtrace.Frame, deadline: UInt64) -> [StackFrame] {
    guard let module = modules.module(at: frame.address) else { return [StackFrame(offset: frame.address)] }
    let offset = frame.lookupAddress &- module.loadBias
    var place = StackFrame(module: module.path, buildID: module.buildID, offset: offset)
    let names = symbolizer.symbolize(module: module.identity, address: offset, deadline: deadline).frames
    guard !names.isEmpty else {
      place.owner = owner(of: nil, in: module)
      return [place]
    }
    return names.map { name in
      let linkageName = name.linkageName ?? ""
      place.symbol = name.symbol.map { ShortSymbol.withoutDisguise($0, linkageName: linkageName) }
      place.shortSymbol = name.shortSymbol
      place.file = name.file
      place.line = name.line
      place.isInlined = name.inlined
      place.owner = owner(of: name, in: module)
      place.isCompilerGenerated = name.isCompilerGenerated
      return place
    }
  }
}
