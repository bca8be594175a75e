import CLinux
import CSymbols
import Glibc
import LoopEngine
import StallMonitor
import StallNaming
import StallReport

/// The files of the builds that processes of this machine run: found once by their build ID, used for all of them.
///
/// A file says itself which build it is, and may say that it is another one's. One that only root can have put where it lies is
/// believed for everybody's processes; any other is believed for those of its own user in the same control group.
final class BuildFiles {
  private struct Key: Hashable {
    var buildID: String
    var audience: String
  }

  /// A file that has been opened and checked.
  private struct Found {
    var descriptor: Int32
    var path: String
    var audience: String
  }

  private var symbolizer: Symbolizer!
  private var known: [Key: ModuleIdentity] = [:]
  private var missing: [Key: Loop.Instant] = [:]
  /// Opened, and not yet the symbolizer's.
  private var opened: [ModuleIdentity: Int32] = [:]
  private(set) var hits: UInt64 = 0
  private(set) var misses: UInt64 = 0
  var bytes: Int { symbolizer.bytes }

  /// The process whose line is being named.
  var client = NamingClient()
  /// CLOCK_MONOTONIC in ns: the time for names is over then.
  private var deadline = UInt64.max
  /// The same for files that not only root can have put where they lie.
  private var deadlineOfStrangers = UInt64.max
  /// Something was cut by the deadline.
  private(set) var isIncomplete = false
  /// A file that not only root can have put there was.
  private(set) var isCutOfStrangers = false
  /// Called before anything is read; `true` says that only root can have put it there.
  private let willRead: (Bool) -> Void

  private static let memoryLimit = 4096
  /// A package may be installed, say.
  private static let missingTime: Duration = .seconds(60)

  init(byteBudget: Int, debugDirectories: [String], willRead: @escaping (Bool) -> Void) {
    self.willRead = willRead
    symbolizer = Symbolizer(byteBudget: byteBudget, debugRoots: debugDirectories) { [unowned self] in open($0) }
    symbolizer.willRead = { willRead($0.audience.isEmpty) }
  }

  /// Begins with another line.
  func begin(_ client: NamingClient, until deadline: UInt64, ofStrangers: UInt64) {
    self.client = client
    (self.deadline, deadlineOfStrangers) = (deadline, ofStrangers)
    (isIncomplete, isCutOfStrangers, hits, misses) = (false, false, 0, 0)
  }

  /// Brings the memory under its limit.
  func end() { symbolizer.trim() }

  /// Returns the functions at an offset; nil if there is no file of this build.
  func look(up buildID: String, modulePath: String?, offset: UInt64) -> [SymbolizedFrame]? {
    for audience in ["", client.audience] {
      let key = Key(buildID: buildID, audience: audience)
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
    let isTrusted = identity.audience.isEmpty
    let answer = symbolizer.symbolize(
      module: identity, address: offset, deadline: isTrusted ? deadline : deadlineOfStrangers)
    guard answer.problem == nil else { return nil }
    if answer.isIncomplete {
      isIncomplete = true
      if !isTrusted { isCutOfStrangers = true }
    }
    hits += 1
    return answer.frames
  }

  private func find(_ buildID: String, _ modulePath: String?) -> ModuleIdentity? {
    if isMissing(buildID) { return nil }
    guard let modulePath, modulePath.hasPrefix("/"), let bytes = DebugFiles.bytes(buildID) else { return nil }
    let found = file(of: buildID, modulePath)
    guard found != nil || hasDebugFile(buildID) else { return nil }
    if known.count >= Self.memoryLimit { known = [:] }
    let identity = ModuleIdentity(path: found?.path ?? modulePath, buildID: bytes, audience: found?.audience ?? "")
    keep(found?.descriptor ?? -1, for: identity)
    known[Key(buildID: buildID, audience: identity.audience)] = identity
    return identity
  }

  // MARK: Opening

  /// For the symbolizer, which closes it; once more with all that is checked if it has closed an earlier one.
  private func open(_ identity: ModuleIdentity) -> Int32 {
    if let descriptor = opened.removeValue(forKey: identity) { return descriptor }
    let id = hexadecimal(identity.buildID)
    guard let found = file(of: id, identity.path) else { return -1 }
    if found.audience == identity.audience { return found.descriptor }
    Glibc.close(found.descriptor)
    return -1
  }

  private func keep(_ descriptor: Int32, for identity: ModuleIdentity) {
    if let old = opened.removeValue(forKey: identity), old >= 0 { Glibc.close(old) }
    opened[identity] = descriptor
  }

  /// The file of a build where the process says that it lies: in our own file system, or in the process's.
  private func file(of buildID: String, _ path: String) -> Found? {
    willRead(false)
    var isTrusted = false
    let descriptor = csymbols_open_module(-1, path, &isTrusted)
    if let found = check(descriptor, buildID, path, isTrusted: isTrusted) { return found }
    // In a container another file may lie at our path, and after an upgrade a newer one; those of a process end with it.
    guard let process = client.openProcess() else { return nil }
    defer { Glibc.close(process) }
    let root = clinux_open_directory(process, "root")
    if root >= 0 {
      defer { Glibc.close(root) }
      let descriptor = csymbols_open_module(root, path, &isTrusted)
      if let found = check(descriptor, buildID, path, isTrusted: false) { return found }
    }
    let executable = openat(process, "exe", O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
    return check(executable, buildID, path, isTrusted: false)
  }

  /// Takes the descriptor over: closes it unless it is a file of that build, and its owner may
  /// provide files for the process.
  private func check(_ descriptor: Int32, _ buildID: String, _ path: String, isTrusted: Bool) -> Found? {
    guard descriptor >= 0 else { return nil }
    var status = stat()
    let isOwn =
      fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
      && (status.st_uid == client.user || status.st_uid == 0) && status.st_mode & S_IWOTH == 0
    guard isTrusted || isOwn, DebugFiles.identify(descriptor: descriptor) == buildID else {
      Glibc.close(descriptor)
      return nil
    }
    return Found(descriptor: descriptor, path: path, audience: isTrusted ? "" : client.audience)
  }

  private func hasDebugFile(_ buildID: String) -> Bool {
    symbolizer.debugRoots.contains {
      access("\($0)/.build-id/\(buildID.prefix(2))/\(buildID.dropFirst(2)).debug", R_OK) == 0
    }
  }

  // MARK: Missing files

  private func isMissing(_ buildID: String) -> Bool {
    missing[missingKey(buildID)].map { $0.duration(to: .now) < Self.missingTime } ?? false
  }

  private func note(_ buildID: String) {
    if isMissing(buildID) { return }
    if missing.count >= Self.memoryLimit { missing = [:] }
    missing[missingKey(buildID)] = .now
  }

  private func missingKey(_ buildID: String) -> Key { Key(buildID: buildID, audience: "\(client.process)") }
}

/// The process that sent a line, as the kernel reported it to the agent.
struct NamingClient {
  var process: Int32 = 0
  var user: UInt32 = 0
  /// Empty if it is not known.
  var controlGroup = ""

  /// The identity for whose processes the client's own files are trusted.
  var audience: String { "\(user) \(controlGroup.isEmpty ? "process \(process)" : controlGroup)" }

  /// Its directory in `/proc`, which stays its own; nil if that is another process's by now.
  func openProcess() -> Int32? {
    guard !controlGroup.isEmpty else { return nil }
    let directory = clinux_open_directory(-1, "/proc/\(process)")
    guard directory >= 0 else { return nil }
    if isStillIn(directory) { return directory }
    Glibc.close(directory)
    return nil
  }

  private func isStillIn(_ directory: Int32) -> Bool {
    var status = stat()
    guard fstat(directory, &status) == 0, status.st_uid == user || status.st_uid == 0 else { return false }
    let file = openat(directory, "cgroup", O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { return false }
    defer { Glibc.close(file) }
    return Peer.controlGroup(from: file) == controlGroup
  }
}
