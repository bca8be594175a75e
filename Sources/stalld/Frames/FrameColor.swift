import StallNaming
import StallReport

/// Whether a frame is shown as the service's own: by where its module lies, and by what the monitor's and the runtime's functions are called.
///
/// For the eye alone. The monitor has already determined the responsible function, with more information.
enum FrameColor {
  static func isOwn(symbol: String, module: String) -> Bool {
    if !module.isEmpty, HostCode.ownerOfLibrary(module) != nil { return false }
    guard !symbol.isEmpty else { return !module.isEmpty }
    // What the compiler writes between two conventions.
    if ["reabstraction thunk", "partial apply", "outlined "].contains(where: symbol.hasPrefix) { return false }
    let prefixes = ["_start", "swift_", "_swift", "clinux_", "cunwind_", "csymbols_", "std::", "__"]
    if prefixes.contains(where: symbol.hasPrefix) { return false }
    return ShortSymbol.module(of: symbol).map { HostCode.owner(of: $0) == .host } ?? true
  }
}
