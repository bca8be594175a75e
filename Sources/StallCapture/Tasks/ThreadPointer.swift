import CLinux

/// Finds the thread pointer of another thread of this process: the address of its structure in the C library.
///
/// The thread pointer is the structure's beginning, which points to itself (layout of x86_64); elsewhere it is not found.
enum ThreadPointer {
  /// How far above a thread's outermost frame its structure is searched: thread-local variables lie between.
  private static let reach: UInt64 = 64 << 10
  /// The C library aligns the structure so.
  private static let alignment: UInt64 = 64

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
    let main = UInt64(clinux_main_thread_pointer())
    if main != 0, isStructure(main) { return main }
    var address = (outermostStackPointer &+ alignment - 1) & ~(alignment - 1)
    for _ in 0..<reach / alignment {
      guard let first = process.load(address, as: UInt64.self) else { return nil }
      if first == address, isStructure(address) { return address }
      address += alignment
    }
    return nil
  }
}
