import CLinux
import Glibc
import StallMonitor

/// The directory of detail files as the settings want it; used on the store's thread alone.
final class DetailDirectory: @unchecked Sendable {
  // @unchecked: handed to closures of one thread.

  /// The file with the daily usage of users and units.
  ///
  /// It is in the same directory as the detail files.
  private static let usageName = "usage"
  private static let usageLimit = 64 << 20
  /// Small files take space, too.
  private static let fileLimit = 1 << 16

  private let say: OutputWriter.Say
  private var settings = AgentSettings.Details()
  private var folder: DetailFolder?
  /// The folder's directory as it was when the folder was opened.
  private var place: OutputDirectory?
  /// Why the last file could not be written, which is logged once; nil if it was.
  private(set) var failure: String?
  private var failures: UInt64 = 0
  private var removedBefore: UInt64 = 0
  private(set) var written: UInt64 = 0

  init(say: @escaping OutputWriter.Say) { self.say = say }

  var count: Int { folder?.count ?? 0 }
  var bytes: Int { folder?.bytes ?? 0 }
  /// Files that have given way, also in directories of before.
  var removed: UInt64 { removedBefore + (folder?.removed ?? 0) }

  func takeFailures() -> UInt64 {
    defer { failures = 0 }
    return failures
  }

  /// Opens the directory that is configured, or makes it, and applies the limits to what is there.
  func use(_ settings: AgentSettings.Details) throws(OutputError) {
    if folder == nil || settings.directory != self.settings.directory {
      do { try open(settings.directory) } catch { throw Self.unusable(settings.directory, error) }
      place = OutputDirectory(settings.directory, isMade: true)
    }
    self.settings = settings
    folder?.limits = Self.limits(of: settings)
    folder?.makeRoom(for: 0)
  }

  /// Throws if the directory cannot be used; makes it if it is not there.
  func test(_ directory: String) throws(OutputError) {
    do {
      if directory == settings.directory { try followPath() }
      close(try Self.open(directory))
    } catch {
      if error.needsRestart { note(error) }
      throw Self.unusable(directory, error)
    }
  }

  private static func unusable(_ directory: String, _ failure: LineFile.Failure) -> OutputError {
    OutputError("details.directory \(directory)", failure.reason)
  }

  private static func limits(of settings: AgentSettings.Details) -> DetailFolder.Limits {
    DetailFolder.Limits(
      files: fileLimit, bytes: settings.maxSize, age: settings.maxAge.map { Int($0.components.seconds) })
  }

  private func open(_ directory: String) throws(LineFile.Failure) {
    let opened = DetailFolder(taking: try Self.open(directory), limits: Self.limits(of: settings), isShared: false)
    removedBefore = removed
    folder = opened
  }

  /// Opens the directory again, or makes it, if another process has removed or replaced it.
  private func followPath() throws(LineFile.Failure) {
    guard let place, !place.isCurrent else { return }
    try place.check()
    do throws(LineFile.Failure) {
      try open(place.path)
      self.place = place.successor
    } catch {
      throw place.explain(error)
    }
  }

  private static func open(_ directory: String) throws(LineFile.Failure) -> Int32 {
    if mkdir(directory, 0o750) != 0, errno != EEXIST { throw LineFile.Failure(errno) }
    let opened = clinux_open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW, 0)
    guard opened >= 0 else { throw LineFile.Failure(errno) }
    guard faccessat(opened, ".", W_OK | X_OK, AT_EACCESS) == 0 else {
      let code = errno
      close(opened)
      throw LineFile.Failure(code)
    }
    return opened
  }

  /// Returns the file's path, or nil if it could not be written.
  func write(_ id: String, of user: UInt32, in share: DetailFolder.Share, _ bytes: [UInt8]) -> String? {
    guard change({ $0.write(id, of: user, in: share, bytes) }) else { return nil }
    written += 1
    return "\(settings.directory)/\(DetailFolder.name(of: id, user: user))"
  }

  /// Saves how much of each user and unit was written today.
  func keepUsage(_ text: String) { _ = change { $0.replace(Self.usageName, with: Array(text.utf8)) } }

  /// What was kept last; empty if nothing was.
  func keptUsage() -> String {
    String(decoding: folder?.read(Self.usageName, limit: Self.usageLimit) ?? [], as: UTF8.self)
  }

  /// Writes something, which returns an errno value or 0; false if that failed.
  private func change(_ body: (DetailFolder) -> Int32) -> Bool {
    do throws(LineFile.Failure) {
      try followPath()
      let code = folder.map(body) ?? ENOENT
      if code != 0 { throw LineFile.Failure(code) }
      failure = nil
      return true
    } catch {
      failures += 1
      note(error)
      return false
    }
  }

  /// Logs why nothing can be written there, once.
  private func note(_ failure: LineFile.Failure) {
    let text = "cannot write detail files in \(settings.directory): \(failure.reason)"
    if text != self.failure { say(failure.needsRestart ? .critical : .error, text) }
    self.failure = text
  }
}
