import CLinux
import Glibc
import Synchronization
import Testing

@testable import StallCapture
@testable import StallMonitor

struct DescriptorTableTests {
  /// What a thread can use of the process's descriptors.
  private struct Found: Sendable {
    var hasOwnTable = false
    var written = 0
    var seesTheOther = true
  }

  /// A sink's descriptor may have any number.
  @Test func threadWithATableOfItsOwnKeepsOneDescriptor() throws {
    var ends: [Int32] = [-1, -1]
    try #require(pipe(&ends) == 0)
    defer { ends.forEach { close($0) } }
    let (other, kept) = (ends[0], ends[1])
    #expect(kept > 2)
    let found = Mutex(Found())
    let thread = try OwnThreads.startApart(name: "table-test", keeping: kept) {
      var byte: UInt8 = 1
      let result = Found(
        hasOwnTable: clinux_descriptor_table() != 0, written: write(kept, &byte, 1),
        seesTheOther: fcntl(other, F_GETFD) >= 0)
      found.withLock { $0 = result }
    }
    pthread_join(thread, nil)
    let result = found.withLock { $0 }
    #expect(result.written == 1)
    #expect(result.seesTheOther != result.hasOwnTable)
  }
}
