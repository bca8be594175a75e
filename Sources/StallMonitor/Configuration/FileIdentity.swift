import Glibc

/// Which file a descriptor leads to.
///
/// A host that closes all descriptors has closed ours too, and a number may be another file's by now.
struct FileIdentity: Equatable {
  private var device: UInt
  private var inode: UInt

  /// Nil if the descriptor is not open.
  init?(_ descriptor: Int32) {
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { return nil }
    (device, inode) = (status.st_dev, status.st_ino)
  }

  /// Closes the descriptor if it still leads here.
  func close(_ descriptor: Int32) {
    if FileIdentity(descriptor) == self { _ = Glibc.close(descriptor) }
  }
}
