import StallReport
import StallSymbols

/// Whether a frame is shown as the service's own: by where its module lies, and by what the monitor's and the runtime's functions are called.
///
/// For the eye alone. The monitor has already determined the responsible function, with more information.
enum FrameColor {
  static func isOwn(symbol: String, module: String) -> Bool {
    if !module.isEmpty, HostCode.ownerOfLibrary(module) != nil { return false }
    guard !symbol.isEmpty else { return !module.isEmpty }
    // What the compiler writes between two conventions.
    if ["reabstraction thunk", "partial apply", "outlined "].contains(where: symbol.hasPrefix) { return false }
    let prefixes = ["_start", "main", "swift_", "_swift", "clinux_", "cunwind_", "csymbols_", "std::", "__"]
    if prefixes.contains(where: symbol.hasPrefix) {
      return symbol == "main"
    }
    // `closure #1 () -> () in static Service.Store.read() -> ()`: whose it is stands last.
    let name = symbol.components(after: " in ").last ?? symbol[...]
    let words = name.split(separator: " ").prefix { !$0.contains("(") || $0.contains(".") }
    guard let path = words.first(where: { $0.contains(".") }), let first = path.split(separator: ".").first else {
      return true
    }
    return HostCode.owner(of: first) == .host
  }
}

extension String {
  /// The text, and what follows each occurrence of a mark; no Foundation.
  fileprivate func components(after mark: String) -> [Substring] {
    var parts: [Substring] = [self[...]]
    let (bytes, mark) = (Array(utf8), Array(mark.utf8))
    guard bytes.count >= mark.count else { return parts }
    for start in 0...(bytes.count - mark.count) where bytes[start..<(start + mark.count)].elementsEqual(mark) {
      // `Service.(read in _65708743483CBF2F15D1CFE2EBEC86AA)()`: private to a file.
      if start + mark.count < bytes.count, bytes[start + mark.count] == UInt8(ascii: "_") { continue }
      parts.append(self[utf8.index(startIndex, offsetBy: start + mark.count)...])
    }
    return parts
  }
}
