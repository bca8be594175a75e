import Glibc
import LoopEngine
import StallMonitor

/// The files of the builds that processes of this machine run: found once by their build id, used for all of them.
///
/// Belongs to the naming thread.
final class BuildFiles {
  /// Whom a file is believed: everybody one of root's, and each user its own.
  ///
  /// A file says itself which build it is, and somebody's may say that it is another one's.
  private struct Key: Hashable {
    var buildID: String
    var owner: UInt32?
  }

  private struct Missing: Hashable {
    var buildID: String
    var process: Int32
  }

  private let symbolizer: Symbolizer
  private var known: [Key: ModuleIdentity] = [:]
  private var missing: [Missing: Loop.Instant] = [:]
  private(set) var hits: UInt64 = 0
  private(set) var misses: UInt64 = 0
  var bytes: Int { symbolizer.bytes }
  /// The process whose line is being named, and its user.
  var processID: Int32 = 0
  var userID: UInt32 = 0

  private static let memoryLimit = 4096
  /// A package may be installed, say.
  private static let missingTime: Duration = .seconds(60)

  init(byteBudget: Int, debugDirectories: [String]) {
    symbolizer = Symbolizer(byteBudget: byteBudget, debugRoots: debugDirectories)
  }

  /// The functions at an offset, or nil if no file of this build is to be had.
  func look(up buildID: String, modulePath: String?, offset: UInt64) -> [SymbolizedFrame]? {
    for key in [Key(buildID: buildID), Key(buildID: buildID, owner: userID)] {
      guard let identity = known[key] else { continue }
      if let frames = frames(at: offset, of: identity) { return frames }
      // The process in whose file system it lay has gone, say; this one's may have it.
      known[key] = nil
    }
    if let identity = find(buildID, modulePath), let frames = frames(at: offset, of: identity) { return frames }
    misses += 1
    note(buildID)
    return nil
  }

  private func frames(at offset: UInt64, of identity: ModuleIdentity) -> [SymbolizedFrame]? {
    let answer = symbolizer.symbolize(module: identity, address: offset, deadline: .max)
    symbolizer.trim()
    guard answer.problem == nil else { return nil }
    hits += 1
    return answer.frames
  }

  private func find(_ buildID: String, _ modulePath: String?) -> ModuleIdentity? {
    if let time = missing[Missing(buildID: buildID, process: processID)], time.duration(to: .now) < Self.missingTime {
      return nil
    }
    guard let modulePath, modulePath.hasPrefix("/"), let bytes = DebugFiles.bytes(buildID) else { return nil }
    // In a container another file may lie at our path, and after an upgrade a newer one; those of a process end with it.
    let candidates = [modulePath, "/proc/\(processID)/root\(modulePath)", "/proc/\(processID)/exe"]
    let found = candidates.first { DebugFiles.identify($0)?.buildID == buildID }
    guard found != nil || hasDebugFile(buildID) else { return nil }
    if known.count >= Self.memoryLimit { known = [:] }
    let identity = ModuleIdentity(path: found ?? modulePath, buildID: bytes)
    known[Key(buildID: buildID, owner: found.map(isRoots) ?? true ? nil : userID)] = identity
    return identity
  }

  private func isRoots(_ path: String) -> Bool {
    var status = stat()
    return stat(path, &status) == 0 && status.st_uid == 0
  }

  private func hasDebugFile(_ buildID: String) -> Bool {
    symbolizer.debugRoots.contains {
      access("\($0)/.build-id/\(buildID.prefix(2))/\(buildID.dropFirst(2)).debug", R_OK) == 0
    }
  }

  private func note(_ buildID: String) {
    let key = Missing(buildID: buildID, process: processID)
    if let time = missing[key], time.duration(to: .now) < Self.missingTime { return }
    if missing.count >= Self.memoryLimit { missing = [:] }
    missing[key] = .now
  }
}
