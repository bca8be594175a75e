import CLinux
import PlatformLibc

/// Finds the thread pointer of another thread, by its structure in the C library.
///
/// The thread pointer is the structure's beginning or its end; the calling thread's own pointer
/// shows which.
package enum ThreadPointer {
  /// How far above a thread's outermost frame its structure is searched: thread-local variables lie between.
  private static let reach: UInt64 = 64 << 10
  /// How many bytes one read of the search takes: as many as a temporary buffer has on the stack.
  private static let blockSize = 1 << 10

  /// The thread pointer of the thread, or nil if it is not found.
  ///
  /// The main thread's is known. That of another one lies above its stack; the thread's id in it proves that it is its own.
  static func of(thread id: Int32, outermostStackPointer: UInt64, in process: ProcessHandle) -> UInt64? {
    guard let layouts = process.lockLayouts, let offset = layouts.threadID else { return nil }
    let distance = layouts.pointerDistance
    let main = UInt64(clinux_main_thread_pointer())
    if id == getpid(), main != 0, isStructure(main &- distance, of: id, idAt: offset, in: process) { return main }
    let alignment = LockLayouts.alignment
    let lowest = (outermostStackPointer &+ alignment - 1) & ~(alignment - 1)
    // In blocks, since the structure may lie kilobytes above, and each read is a system call.
    return withUnsafeTemporaryAllocation(byteCount: blockSize, alignment: MemoryLayout<UInt32>.alignment) { block in
      for address in stride(from: lowest, to: lowest &+ reach, by: blockSize) {
        let count = process.read(address &+ offset, into: block)
        for place in stride(from: 0, to: count - MemoryLayout<UInt32>.size + 1, by: Int(alignment))
        where block.load(fromByteOffset: place, as: UInt32.self) == UInt32(bitPattern: id) {
          let structure = address &+ UInt64(place)
          if LockLayouts.isThreadStructure(structure, in: process) { return structure &+ distance }
        }
        if count < blockSize { return nil }
      }
      return nil
    }
  }

  /// The thread pointer of a thread that may be anywhere, or nil if it is not found.
  ///
  /// The kernel knows where the thread's list of robust mutexes begins, which has the same place in the structure of each thread. Makes a
  /// system call that strict filters may not know.
  package static func of(thread id: Int32, in process: ProcessHandle) -> UInt64? {
    let (list, own) = (UInt64(clinux_robust_list(id)), UInt64(clinux_robust_list(0)))
    guard let layouts = process.lockLayouts, let offset = layouts.threadID, list != 0, own != 0 else { return nil }
    let pointer = list &- own &+ UInt64(clinux_thread_pointer())
    return isStructure(pointer &- layouts.pointerDistance, of: id, idAt: offset, in: process) ? pointer : nil
  }

  private static func isStructure(
    _ address: UInt64, of id: Int32, idAt offset: UInt64, in process: ProcessHandle
  ) -> Bool {
    LockLayouts.isThreadStructure(address, in: process)
      && process.load(address &+ offset, as: UInt32.self) == UInt32(bitPattern: id)
  }
}
