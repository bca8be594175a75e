import CLinux
import DescriptorIO
import Glibc

/// A directory that the agent writes to, as it was when the agent began to use it.
///
/// The agent writes nothing into a directory that another user has put in its place, even if its
/// permissions allow it.
final class OutputDirectory: Sendable {
  let path: String
  /// The agent creates the directory if it is missing.
  private let isMade: Bool
  private let owner: uid_t
  private let isLink: Bool
  /// Held, so that no other directory gets its inode number; -1 if there was no descriptor left.
  private let descriptor: Int32

  /// Nil if there is none.
  convenience init?(_ path: String, isMade: Bool = false) {
    guard let (owner, isLink) = Self.facts(path) else { return nil }
    self.init(path, isMade: isMade, owner: owner, isLink: isLink)
  }

  private init(_ path: String, isMade: Bool, owner: uid_t, isLink: Bool) {
    (self.path, self.isMade, self.owner, self.isLink) = (path, isMade, owner, isLink)
    descriptor = clinux_open_directory(-1, path)
  }

  deinit { if descriptor >= 0 { close(descriptor) } }

  /// The one that is at the path now, which the agent uses from now on; it must still have the first one's owner.
  var successor: OutputDirectory { OutputDirectory(path, isMade: isMade, owner: owner, isLink: isLink) }

  /// Whether the path still leads to it.
  var isCurrent: Bool {
    descriptor < 0 || FileIdentity(path: path, followingLinks: true) == FileIdentity(descriptor)
  }

  /// Whether only a new process can write there: another directory is at the path by now, and it is read-only here.
  ///
  /// systemd makes the directories of a unit writable when it starts the unit. That ends when the directory is removed.
  var isOutOfReach: Bool {
    guard !isCurrent else { return false }
    var facts = statvfs()
    let isThere = statvfs(path, &facts) == 0 || isMade && statvfs(PathParts(path).directory, &facts) == 0
    return isThere && facts.f_flag & UInt(ST_RDONLY) != 0
  }

  /// Throws if it belongs to another user now, or has become a symbolic link.
  func check() throws(LineFile.Failure) {
    // If there is none, opening a file there fails with that error.
    guard let (owner, isLink) = Self.facts(path) else { return }
    if isLink && !self.isLink {
      throw LineFile.Failure(
        ELOOP, "the directory \(path) has become a symbolic link; if that is intended, restart the agent")
    }
    if owner != self.owner {
      throw LineFile.Failure(
        EPERM,
        "the directory \(path) now belongs to user \(owner) instead of \(self.owner); if that is intended, restart the agent"
      )
    }
  }

  /// What to report instead of an error that occurred there.
  func explain(_ failure: LineFile.Failure) -> LineFile.Failure {
    guard isOutOfReach else { return failure }
    return LineFile.Failure(
      failure.code,
      "the directory \(path) was replaced, and this process cannot write to the new one: \(failure.reason)",
      needsRestart: true)
  }

  /// Brings the name of a new file to the disk; an errno value, or 0.
  @discardableResult
  static func synchronise(of file: String) -> Int32 {
    let opened = clinux_open(PathParts(file).directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0)
    guard opened >= 0 else { return errno }
    defer { close(opened) }
    // EINVAL: the file system does not do that for directories.
    return fsync(opened) == 0 || errno == EINVAL ? 0 : errno
  }

  private static func facts(_ path: String) -> (owner: uid_t, isLink: Bool)? {
    var (entry, target) = (stat(), stat())
    guard lstat(path, &entry) == 0, stat(path, &target) == 0 else { return nil }
    return (target.st_uid, entry.st_mode & S_IFMT == S_IFLNK)
  }
}
