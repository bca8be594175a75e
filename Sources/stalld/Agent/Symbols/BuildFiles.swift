import Glibc
import LoopEngine
import StallMonitor

/// The files of the builds that processes of this machine run: found once by their build id, used for all of them.
///
/// Belongs to the naming thread.
final class BuildFiles {
  private let symbolizer: Symbolizer
  private var known: [String: ModuleIdentity] = [:]
  private var missing: [String: Loop.Instant] = [:]
  private(set) var hits: UInt64 = 0
  private(set) var misses: UInt64 = 0
  var bytes: Int { symbolizer.bytes }
  /// The process whose line is being named.
  var processID: Int32 = 0

  private static let memoryLimit = 4096
  /// A package may be installed, or another process that can be looked into may run it.
  private static let missingTime: Duration = .seconds(60)

  init(byteBudget: Int, debugDirectories: [String]) {
    symbolizer = Symbolizer(byteBudget: byteBudget, debugRoots: debugDirectories)
  }

  /// The functions at an offset, or nil if no file of this build is to be had.
  func look(up buildID: String, modulePath: String?, offset: UInt64) -> [SymbolizedFrame]? {
    guard let identity = known[buildID] ?? find(buildID, modulePath) else {
      misses += 1
      return nil
    }
    let answer = symbolizer.symbolize(module: identity, address: offset, deadline: .max)
    symbolizer.trim()
    guard answer.problem == nil else {
      // The process in whose file system it lay may have gone.
      known[buildID] = nil
      note(buildID)
      misses += 1
      return nil
    }
    hits += 1
    return answer.frames
  }

  private func find(_ buildID: String, _ modulePath: String?) -> ModuleIdentity? {
    if let time = missing[buildID] {
      guard time.duration(to: .now) > Self.missingTime else { return nil }
      missing[buildID] = nil
    }
    guard let modulePath, modulePath.hasPrefix("/"), let bytes = DebugFiles.bytes(buildID) else { return nil }
    // In a container another file may lie there; where the process may not be looked into, ours is likely the same.
    let candidates = ["/proc/\(processID)/root\(modulePath)", modulePath]
    let found = candidates.first { DebugFiles.identify($0)?.buildID == buildID }
    guard found != nil || hasDebugFile(buildID) else {
      note(buildID)
      return nil
    }
    if known.count >= Self.memoryLimit { known = [:] }
    let identity = ModuleIdentity(path: found ?? modulePath, buildID: bytes)
    known[buildID] = identity
    return identity
  }

  private func hasDebugFile(_ buildID: String) -> Bool {
    symbolizer.debugRoots.contains {
      access("\($0)/.build-id/\(buildID.prefix(2))/\(buildID.dropFirst(2)).debug", R_OK) == 0
    }
  }

  private func note(_ buildID: String) {
    if missing.count >= Self.memoryLimit { missing = [:] }
    missing[buildID] = .now
  }
}
