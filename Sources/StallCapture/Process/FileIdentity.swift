import CLinux
import Glibc

/// Which file a descriptor leads to, and in which descriptor table.
///
/// A number is only used while it still is what was opened. The library's threads have a table of their own where the kernel allows it; elsewhere a
/// service that closes all descriptors closes ours too, and a number may be another file's by now.
package struct FileIdentity: Equatable {
  /// A file, by device and inode.
  package struct Place: Equatable {
    private var device: UInt
    private var inode: UInt

    package init(_ status: stat) { (device, inode) = (status.st_dev, status.st_ino) }
  }

  package let place: Place
  private let table: UInt32

  /// Nil if the descriptor is not open in the calling thread's table.
  package init?(_ descriptor: Int32) {
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { return nil }
    (place, table) = (Place(status), clinux_descriptor_table())
  }

  /// Whether the descriptor may be used: it still leads here.
  ///
  /// Costs a system call only in the process's own table: nobody else closes what lies in another one.
  package func isHeld(by descriptor: Int32) -> Bool {
    table == 0 ? FileIdentity(descriptor) == self : table == clinux_descriptor_table()
  }

  /// Closes the descriptor if it still leads here.
  package func close(_ descriptor: Int32) {
    if FileIdentity(descriptor) == self { _ = Glibc.close(descriptor) }
  }
}
