import CLinux
import PlatformLibc

/// A descriptor that is used only while its number still leads to the file that was opened.
///
/// A service that closes all descriptors closes the library's too, and a number may soon be another file's. The library's threads have a
/// descriptor table of their own where the kernel allows it; elsewhere each use is checked. A copy guards the same number.
package struct GuardedDescriptor: Sendable {
  package let number: Int32
  package let file: FileIdentity
  /// In which descriptor table it was opened: 0 is the process's.
  private let table: UInt32

  /// Guards an open descriptor of the calling thread's table; nil, with errno, if it is not open or could not be opened.
  package init?(_ number: Int32) {
    // errno says why a number that is none could not be had.
    guard number >= 0, let file = FileIdentity(number) else { return nil }
    self.number = number
    self.file = file
    table = clinux_descriptor_table()
  }

  /// Whether the calling thread may use the number.
  ///
  /// Costs one system call in the process's own table, and none in another one: nobody else closes what lies there.
  package var isIntact: Bool {
    table == clinux_descriptor_table() && (table != 0 || FileIdentity(number) == file)
  }

  /// Whether another descriptor leads to the same file, in the table of this one.
  package func isSameFile(as other: Int32) -> Bool {
    table == clinux_descriptor_table() && FileIdentity(other) == file
  }

  /// Closes the number, unless it leads to another file by now.
  package func close() {
    if isSameFile(as: number) { _ = PlatformLibc.close(number) }
  }
}
