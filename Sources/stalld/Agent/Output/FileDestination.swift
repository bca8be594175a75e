import CLinux
import DescriptorIO
import Glibc
import LoopEngine
import StallCapture

/// A file of JSON lines, rotated when it is too long or too old.
///
/// What it says that it has is in the file that the path leads to, or in one that was renamed: after each write the file must still
/// have a name. An outside logrotate is noticed at SIGHUP, and while lines come within a second. Age counts from the file's birth, so a
/// restart of the agent does not prolong it; the file is renamed with the first line that comes after its time, so an idle agent does nothing.
final class FileDestination: LineDestination {
  /// logrotate makes the new file itself, right after the rename; one of ours in between would be in its way.
  private static let graceForRename = Duration.seconds(1)
  /// After a rename that failed.
  private static let rotationRetry = Duration.seconds(10)
  /// How many names are tried for a rotated file.
  private static let nameAttempts = 100
  /// How often in a row a new file may be removed before that is a failure.
  private static let removals = 3

  private var settings: AgentSettings.Output.File
  private let keeper: RotatedFileKeeper
  private let say: OutputWriter.Say
  private var file: LineFile?
  private var directory: OutputDirectory?
  private var missingSince: Loop.Instant?
  private var nextRotation = Loop.Instant.distantPast
  private var lastRotated: RotatedName?
  /// Why the last rotation failed, which is logged once; nil if it worked.
  private var lastRotationFailure: String?
  private(set) var rotations: UInt64 = 0
  private(set) var needsSync = false

  init(_ settings: AgentSettings.Output.File, keeper: RotatedFileKeeper, say: @escaping OutputWriter.Say) {
    self.settings = settings
    self.keeper = keeper
    self.say = say
  }

  var name: String { AgentSettings.Output.file(settings).name }

  func update(_ settings: AgentSettings.Output.File) {
    guard settings != self.settings else { return }
    self.settings = settings
    keeper.lookAfter(settings)
  }

  func open() throws(OutputError) {
    keeper.lookAfter(settings)
    lastRotated = RotatedName.newest(besides: settings.path)
    directory = OutputDirectory(PathParts(settings.path).directory)
    do throws(LineFile.Failure) {
      try openFile()
    } catch {
      if ![ENOSPC, EDQUOT, EIO, EMFILE, ENFILE, ENOMEM, EINTR].contains(error.code) {
        throw OutputError(name, error.reason)
      }
    }
  }

  func reopen() {
    if let file, FileIdentity(path: settings.path) != file.identity { letGo() }
    // If that fails, the next line reports it.
    if file == nil { try? openFile() }
  }

  func close() { letGo() }

  func send(_ lines: ArraySlice<ReportLine>) -> (count: Int, result: SendResult) {
    var rest = lines
    var removals = 0
    while !rest.isEmpty {
      do throws(LineFile.Failure) {
        let count = try write(rest)
        rest = rest.dropFirst(count)
        removals = count > 0 ? 0 : removals + 1
        if removals > Self.removals {
          throw LineFile.Failure(ENOENT, "another process deletes the file each time it is created")
        }
      } catch {
        return (lines.count - rest.count, .failed(error.reason, needsRestart: error.needsRestart))
      }
    }
    return (lines.count, .sent)
  }

  func sync() -> String? {
    let code = file?.synchronise() ?? 0
    needsSync = code != 0
    return code == 0 ? nil : String(cString: strerror(code))
  }

  /// Writes as many lines as go into one file at once; none if the file has lost its name meanwhile.
  private func write(_ lines: ArraySlice<ReportLine>) throws(LineFile.Failure) -> Int {
    try followPath()
    rotateIfDue(for: lines[lines.startIndex].bytes.count)
    let file = file!
    let sizeBefore = file.size
    let count: Int
    do {
      count = try file.append(fitting(lines, behind: sizeBefore))
    } catch {
      // The process's limit for files (RLIMIT_FSIZE): a new file has space again.
      if error.code == EFBIG, sizeBefore > 0, rotate() { return 0 }
      throw error
    }
    guard file.hasName(settings.path) else {
      letGo()
      return 0
    }
    switch settings.fsync {
    case .off: break
    case .interval: needsSync = true
    case .each:
      let code = file.synchronise()
      guard code == 0 else {
        file.cut(to: sizeBefore)
        throw LineFile.Failure(code)
      }
    }
    return count
  }

  /// The first lines that may be together in the file.
  private func fitting(_ lines: ArraySlice<ReportLine>, behind size: Int) -> ArraySlice<ReportLine> {
    guard let limit = settings.maxSize else { return lines }
    var end = size
    var count = 0
    for line in lines {
      end += line.bytes.count
      if end > limit && count > 0 { break }
      count += 1
    }
    return lines.prefix(count)
  }

  // MARK: Rotation from outside

  /// Opens the file that the path leads to, unless that is the one in use.
  private func followPath() throws(LineFile.Failure) {
    if let file {
      let identity = FileIdentity(path: settings.path)
      if identity == file.identity {
        missingSince = nil
        return
      }
      if identity == nil, file.hasName(settings.path) {
        let since = missingSince ?? .now
        missingSince = since
        if since.duration(to: .now) < Self.graceForRename { return }
      }
      letGo()
    }
    try openFile()
  }

  /// Leaves a file that was renamed, or closes.
  private func letGo() {
    if needsSync, let reason = sync() { say(.error, "\(name): cannot synchronise: \(reason)") }
    needsSync = false
    file = nil
    missingSince = nil
  }

  private func openFile() throws(LineFile.Failure) {
    try directory?.check()
    do throws(LineFile.Failure) {
      file = try LineFile(path: settings.path, mode: settings.mode)
    } catch {
      throw directory?.explain(error) ?? error
    }
    if let directory, !directory.isCurrent { self.directory = directory.successor }
    if settings.fsync != .off { OutputDirectory.synchronise(of: settings.path) }
  }

  // MARK: Rotation of our own

  private func rotateIfDue(for count: Int) {
    guard let file, file.size > 0 else { return }
    func isDue() -> Bool {
      settings.maxSize.map { file.size + count > $0 } ?? false
        || settings.maxAge.map { Self.isTooOld(birth: file.birth, now: time(nil), limit: $0) } ?? false
    }
    guard isDue(), Loop.Instant.now >= nextRotation else { return }
    // Another program may have truncated it (copytruncate).
    file.refreshSize()
    if file.size > 0, isDue() { _ = rotate() }
  }

  /// Whether a file was born so long before now, or after: the clock was wrong then, or is wrong now.
  ///
  /// So no file grows for longer than twice the limit. Times are seconds since 1970.
  static func isTooOld(birth: Int, now: Int, limit: Duration) -> Bool { .seconds(abs(now - birth)) >= limit }

  /// Renames the file and opens a new one; if either fails, the old one stays in use.
  private func rotate() -> Bool {
    // Another program has just renamed it: the file at the path is not ours.
    guard let old = file, FileIdentity(path: settings.path) == old.identity else { return false }
    guard let target = reserveName() else { return rotationFailed(SystemError(code: errno).description) }
    let path = target.path(besides: settings.path)
    guard rename(settings.path, path) == 0 else {
      let code = errno
      unlink(path)
      return rotationFailed(SystemError(code: code).description)
    }
    do throws(LineFile.Failure) {
      try openFile()
    } catch {
      if FileIdentity(path: settings.path) == nil { rename(path, settings.path) }
      return rotationFailed(error.reason)
    }
    if needsSync, case let code = old.synchronise(), code != 0 {
      say(.error, "file \(path): cannot synchronise: \(String(cString: strerror(code)))")
    }
    needsSync = false
    lastRotated = target
    lastRotationFailure = nil
    rotations += 1
    keeper.lookAfter(settings)
    return true
  }

  /// A name that nothing has, with an empty file that the rename replaces; nil with errno if none can be made.
  ///
  /// rename(2) replaces whatever has a name: another agent's file, or one of a time when the clock was ahead.
  private func reserveName() -> RotatedName? {
    var name = RotatedName.next(after: lastRotated)
    for _ in 0..<Self.nameAttempts {
      let path = name.path(besides: settings.path)
      let descriptor = clinux_open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
      if descriptor >= 0 {
        Glibc.close(descriptor)
        return name
      }
      guard errno == EEXIST else { return nil }
      name = RotatedName.next(after: name)
    }
    errno = EEXIST
    return nil
  }

  private func rotationFailed(_ reason: String) -> Bool {
    nextRotation = .now.advanced(by: Self.rotationRetry)
    if reason != lastRotationFailure {
      say(.error, "\(name): cannot rotate: \(reason); writing to the same file, and retrying")
    }
    lastRotationFailure = reason
    return false
  }
}
