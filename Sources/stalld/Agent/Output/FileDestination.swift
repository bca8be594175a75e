import Glibc
import LoopEngine

/// A file of JSON lines, begun anew when it is too long or too old.
///
/// An outside logrotate is noticed, too: at SIGHUP, and while lines come within two seconds. Age counts from the file's birth, so a
/// restart of the agent does not prolong it; the file is renamed with the first line that comes after its time, so an idle agent does nothing.
final class FileDestination: LineDestination {
  private static let checkInterval = Duration.seconds(1)
  /// After a rename that failed.
  private static let rotationRetry = Duration.seconds(10)

  private var settings: AgentSettings.Output.File
  private let keeper: RotatedFileKeeper
  private let say: OutputWriter.Say
  private var file: LineFile?
  private var nextCheck = Loop.Instant.distantPast
  private var isMissing = false
  private var nextRotation = Loop.Instant.distantPast
  private var lastRotated: RotatedName?
  private(set) var rotations: UInt64 = 0

  init(_ settings: AgentSettings.Output.File, keeper: RotatedFileKeeper, say: @escaping OutputWriter.Say) {
    self.settings = settings
    self.keeper = keeper
    self.say = say
  }

  var name: String { "file \(settings.path)" }

  func update(_ settings: AgentSettings.Output.File) {
    guard settings != self.settings else { return }
    self.settings = settings
    keeper.lookAfter(settings)
  }

  func open() throws(OutputError) {
    keeper.lookAfter(settings)
    lastRotated = RotatedName.newest(besides: settings.path)
    do throws(LineFile.Failure) {
      file = try LineFile(path: settings.path, mode: settings.mode)
    } catch {
      if ![ENOSPC, EDQUOT, EIO, EMFILE, ENFILE, ENOMEM, EINTR].contains(error.code) {
        throw OutputError(name, error.reason)
      }
    }
  }

  func reopen() {
    nextCheck = .distantPast
    isMissing = true
    checkIdentity()
  }

  func close() { file = nil }

  func send(_ line: ReportLine) -> SendResult {
    checkIdentity()
    do throws(LineFile.Failure) {
      if file == nil { file = try LineFile(path: settings.path, mode: settings.mode) }
      rotateIfDue(for: line.bytes.count)
      try file!.append(line.bytes)
      return .sent
    } catch {
      // The process's limit for files (RLIMIT_FSIZE): a new file has room again.
      if error.code == EFBIG, file?.size != 0, rotate() { return send(line) }
      return .failed(error.reason)
    }
  }

  // MARK: Rotation from outside

  /// Lets go of a file that was renamed or removed.
  private func checkIdentity() {
    guard file != nil, case let now = Loop.Instant.now, now >= nextCheck else { return }
    nextCheck = now.advanced(by: Self.checkInterval)
    let identity = LineFile.Identity(path: settings.path)
    if identity == file!.identity {
      isMissing = false
      return
    }
    // logrotate makes the new file itself, right after the rename; one of ours in between would be in its way.
    if identity == nil && !isMissing {
      isMissing = true
      return
    }
    isMissing = false
    do throws(LineFile.Failure) {
      file = try LineFile(path: settings.path, mode: settings.mode)
    } catch {
      // The old file is better than none.
      say(.error, "\(name): cannot be opened anew: \(error.reason); lines go on to the one that was renamed")
      nextCheck = now.advanced(by: Self.rotationRetry)
    }
  }

  // MARK: Rotation of our own

  private func rotateIfDue(for count: Int) {
    guard file!.size > 0 else { return }
    let isTooLong = settings.maxSize.map { file!.size + count > $0 } ?? false
    let isTooOld = settings.maxAge.map { .seconds(time(nil) - file!.birth) >= $0 } ?? false
    if isTooLong || isTooOld, Loop.Instant.now >= nextRotation { _ = rotate() }
  }

  /// Renames the file and opens a new one; if either fails, the old one stays in use.
  private func rotate() -> Bool {
    let target = RotatedName.next(after: lastRotated)
    let path = target.path(besides: settings.path)
    // Somebody else has just renamed it: theirs is not ours to rename.
    let before = file!.identity
    guard LineFile.Identity(path: settings.path) == before else {
      nextCheck = .distantPast
      isMissing = true
      checkIdentity()
      return file!.identity != before
    }
    guard rename(settings.path, path) == 0 else { return rotationFailed(String(cString: strerror(errno))) }
    do throws(LineFile.Failure) {
      file = try LineFile(path: settings.path, mode: settings.mode)
    } catch {
      rename(path, settings.path)
      return rotationFailed(error.reason)
    }
    lastRotated = target
    rotations += 1
    keeper.lookAfter(settings)
    return true
  }

  private func rotationFailed(_ reason: String) -> Bool {
    nextRotation = .now.advanced(by: Self.rotationRetry)
    say(.error, "\(name): cannot be rotated: \(reason); it grows on")
    return false
  }
}
