import CLinux

/// Finds the thread pointer of another thread of this process, by its structure in the C library.
///
/// The thread pointer is the structure's beginning or its end; which it is, the calling thread's own tells.
enum ThreadPointer {
  /// How far above a thread's outermost frame its structure is searched: thread-local variables lie between.
  private static let reach: UInt64 = 64 << 10

  /// The thread pointer of the thread, or nil if it is not found.
  ///
  /// The main thread's is known. That of another one lies above its stack; the thread's id in it proves that it is its own.
  static func of(thread id: Int32, outermostStackPointer: UInt64) -> UInt64? {
    guard let offset = LockLayouts.current.threadID else { return nil }
    let process = OwnProcess()
    func isStructure(_ address: UInt64) -> Bool {
      LockLayouts.isThreadStructure(address, in: process)
        && process.load(address &+ offset, as: UInt32.self) == UInt32(bitPattern: id)
    }
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
}
