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
  private var hasComplained = false
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
    let limits = DetailFolder.Limits(
      files: Self.fileLimit, bytes: settings.maxSize, age: settings.maxAge.map { Int($0.components.seconds) })
    if folder == nil || settings.directory != self.settings.directory {
      let opened = DetailFolder(taking: try Self.open(settings.directory), limits: limits, isShared: false)
      removedBefore = removed
      folder = opened
    }
    self.settings = settings
    folder?.limits = limits
    folder?.makeRoom(for: 0)
  }

  /// Throws if the directory cannot be used; makes it if it is not there.
  static func test(_ directory: String) throws(OutputError) { close(try open(directory)) }

  private static func open(_ directory: String) throws(OutputError) -> Int32 {
    let name = "details.directory \(directory)"
    if mkdir(directory, 0o750) != 0, errno != EEXIST { throw OutputError(name, code: errno) }
    let opened = clinux_open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW, 0)
    guard opened >= 0 else { throw OutputError(name, code: errno) }
    guard faccessat(opened, ".", W_OK | X_OK, AT_EACCESS) == 0 else {
      let code = errno
      close(opened)
      throw OutputError(name, code: code)
    }
    return opened
  }

  /// Returns the file's path, or nil if it could not be written.
  func write(_ id: String, of user: UInt32, in share: DetailFolder.Share, _ bytes: [UInt8]) -> String? {
    let code = folder?.write(id, of: user, in: share, bytes) ?? ENOENT
    guard code == 0 else { return fail(code) }
    hasComplained = false
    written += 1
    return "\(settings.directory)/\(DetailFolder.name(of: id, user: user))"
  }

  /// Saves how much of each user and unit was written today.
  func keepUsage(_ text: String) {
    let code = folder?.replace(Self.usageName, with: Array(text.utf8)) ?? ENOENT
    if code != 0 { _ = fail(code) }
  }

  /// What was kept last; empty if nothing was.
  func keptUsage() -> String {
    String(decoding: folder?.read(Self.usageName, limit: Self.usageLimit) ?? [], as: UTF8.self)
  }

  private func fail(_ code: Int32) -> String? {
    failures += 1
    if !hasComplained {
      say(.error, "cannot write detail files in \(settings.directory): \(String(cString: strerror(code)))")
    }
    hasComplained = true
    return nil
  }
}
