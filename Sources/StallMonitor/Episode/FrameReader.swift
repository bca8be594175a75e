import CLinux
import CUnwind
import StallCapture
import StallReport
import StallNaming

/// Turns addresses into frames without names: module, build ID and offset, and where the function begins.
///
/// Reads no file and takes no lock of the loader's. Belongs to the thread that captures.
final class FrameReader {
  private var modules: ModuleMap

  private struct CodeLocation: Hashable {
    var module: ObjectIdentifier
    var offset: UInt64
  }

  // Where functions begin.
  private var functions: [CodeLocation: UInt64] = [:]
  // What `functions` knows keeps its modules alive: an object's identity is not given to another one.
  private var knownModules: [ObjectIdentifier: LoadedModule] = [:]
  private static let knownLimit = 512

  init(executablePath: String) { modules = ModuleMap(executablePath: executablePath, of: .own) }

  /// Forgets where modules lie: some may have been unloaded.
  ///
  /// Call it when a stall begins.
  func flush() { modules.flush() }

  /// The build ID of the module that holds `address`.
  func buildID(of address: UInt64) -> String? { modules.module(at: address)?.buildID }

  /// The module that has Foundation's run loops; nil if there is none.
  func runLoopModule() -> String? {
    clinux_cf_is_here() ? modules.module(at: UInt64(clinux_cf_address()))?.path : nil
  }

  /// The frames of a backtrace, innermost first, without the calls that were inlined.
  func frames(of backtrace: Backtrace) -> [StackFrame] { backtrace.frames.map(frame) }

  private func frame(_ frame: Backtrace.Frame) -> StackFrame {
    guard let module = modules.module(at: frame.address) else {
      // In the first pages nothing ever lies: a call through a null pointer, which is its caller's.
      return StackFrame(offset: frame.address, owner: frame.address < 65536 ? .system : .host)
    }
    let offset = frame.lookupAddress &- module.loadBias
    var result = StackFrame(module: module.path, buildID: module.buildID, offset: offset)
    var identity = module.identity
    identity.usesDebugFile = module.isMainExecutable || HostCode.ownerOfLibrary(module.path) == nil
    result.source = SymbolSource(module: identity, isExecutable: module.isMainExecutable)
    result.function = function(at: frame.lookupAddress, offset, in: module)
    result.owner = HostCode.owner(modulePath: module.path, isExecutable: module.isMainExecutable, linkageName: nil)
    result.isAsync = frame.isAsync
    return result
  }

  private func function(at address: UInt64, _ offset: UInt64, in module: LoadedModule) -> UInt64 {
    let key = CodeLocation(module: ObjectIdentifier(module), offset: offset)
    if let start = functions[key] { return start }
    if functions.count >= Self.knownLimit {
      functions.removeAll(keepingCapacity: true)
      knownModules.removeAll(keepingCapacity: true)
    }
    let start = cunwind_function_start(cunwind_own_process(), address)
    let function = start > 0 ? start &- module.loadBias : offset
    (functions[key], knownModules[key.module]) = (function, module)
    return function
  }
}
