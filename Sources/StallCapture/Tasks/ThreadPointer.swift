import CLinux

/// Finds the thread pointer of another thread of this process, by its structure in the C library.
///
/// The thread pointer is the structure's beginning or its end; the calling thread's own pointer
/// shows which.
package enum ThreadPointer {
  /// How far above a thread's outermost frame its structure is searched: thread-local variables lie between.
  private static let reach: UInt64 = 64 << 10

  /// The thread pointer of the thread, or nil if it is not found.
  ///
  /// The main thread's is known. That of another one lies above its stack; the thread's id in it proves that it is its own.
  static func of(thread id: Int32, outermostStackPointer: UInt64) -> UInt64? {
    guard let offset = LockLayouts.current.threadID else { return nil }
    let process = OwnProcess()
    func isStructure(_ address: UInt64) -> Bool { Self.isStructure(address, of: id, idAt: offset) }
    let distance = LockLayouts.current.pointerDistance
    let main = UInt64(clinux_main_thread_pointer())
    if main != 0, isStructure(main &- distance) { return main }
    let alignment = LockLayouts.alignment
    var address = (outermostStackPointer &+ alignment - 1) & ~(alignment - 1)
    for _ in 0..<reach / alignment {
      guard let word = process.load(address &+ offset, as: UInt32.self) else { return nil }
      if word == UInt32(bitPattern: id), isStructure(address) { return address &+ distance }
      address += alignment
    }
    return nil
  }

  /// The thread pointer of a thread that may be anywhere, or nil if it is not found.
  ///
  /// The kernel knows where the thread's list of robust mutexes begins, which has the same place in the structure of each thread. Makes a
  /// system call that strict filters may not know.
  package static func of(thread id: Int32) -> UInt64? {
    let (list, own) = (UInt64(clinux_robust_list(id)), UInt64(clinux_robust_list(0)))
    guard let offset = LockLayouts.current.threadID, list != 0, own != 0 else { return nil }
    let pointer = list &- own &+ UInt64(clinux_thread_pointer())
    return isStructure(pointer &- LockLayouts.current.pointerDistance, of: id, idAt: offset) ? pointer : nil
  }

  private static func isStructure(_ address: UInt64, of id: Int32, idAt offset: UInt64) -> Bool {
    LockLayouts.isThreadStructure(address, in: OwnProcess())
      && OwnProcess().load(address &+ offset, as: UInt32.self) == UInt32(bitPattern: id)
  }
}
