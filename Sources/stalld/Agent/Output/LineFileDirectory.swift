import CLinux
import DescriptorIO
import Glibc

extension LineFile {
  /// The directory of a file as it was when the output was opened.
  ///
  /// The agent writes no reports into a directory that another user has put in its place, even if
  /// its permissions allow it.
  struct Directory {
    private let owner: uid_t
    private let isLink: Bool

    /// Nil if there is none.
    init?(of file: String) {
      let path = PathParts(file).directory
      var (entry, target) = (stat(), stat())
      guard lstat(path, &entry) == 0, stat(path, &target) == 0 else { return nil }
      owner = target.st_uid
      isLink = entry.st_mode & S_IFMT == S_IFLNK
    }

    /// Throws if it belongs to another user now, or has become a symbolic link.
    func check(_ file: String) throws(Failure) {
      // If there is none, opening the file fails with that error.
      guard let now = Directory(of: file) else { return }
      let path = PathParts(file).directory
      if now.isLink && !isLink {
        throw Failure(ELOOP, "its directory \(path) has become a symbolic link; if that is intended, restart the agent")
      }
      if now.owner != owner {
        throw Failure(
          EPERM,
          "its directory \(path) now belongs to user \(now.owner) instead of \(owner); if that is intended, restart the agent"
        )
      }
    }

    /// Brings a new name in the directory to the disk; an errno value, or 0.
    @discardableResult
    static func synchronise(of file: String) -> Int32 {
      let descriptor = clinux_open(PathParts(file).directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0)
      guard descriptor >= 0 else { return errno }
      defer { close(descriptor) }
      // EINVAL: the file system does not do that for directories.
      return fsync(descriptor) == 0 || errno == EINVAL ? 0 : errno
    }
  }
}
