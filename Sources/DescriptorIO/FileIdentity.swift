import PlatformLibc

/// Which file it is, by device and inode, whatever its path is.
package struct FileIdentity: Hashable, Sendable {
  private let device: UInt
  private let inode: UInt

  package init(_ status: stat) { (device, inode) = (status.st_dev, status.st_ino) }

  /// Of the file that a descriptor of the calling thread's table leads to; nil if the descriptor is closed.
  package init?(_ descriptor: Int32) {
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { return nil }
    self.init(status)
  }

  /// Of the file at a path; nil if there is none.
  ///
  /// With `followingLinks` a symbolic link represents the file that it leads to.
  package init?(path: String, followingLinks: Bool = false) {
    var status = stat()
    guard (followingLinks ? stat(path, &status) : lstat(path, &status)) == 0 else { return nil }
    self.init(status)
  }

  /// The value of `JOURNAL_STREAM` for this file (systemd.exec(5)).
  package var journalStream: String { "\(device):\(inode)" }
}
