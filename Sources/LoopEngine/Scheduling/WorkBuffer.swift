import PlatformLibc

/// Memory for blocks: from the heap as long as they are few, in pages of their own once they are many, which the system gets back at once.
///
/// The heap keeps what it is given back if it is less than some ten megabytes, and lies between other things.
enum WorkBuffer {
  /// More than this is not kept for the next burst.
  static var keptCapacity: Int { 4096 }

  static func allocate(capacity: Int) -> UnsafeMutablePointer<WorkItem> {
    if capacity <= keptCapacity { return .allocate(capacity: capacity) }
    let memory = mmap(nil, size(capacity), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    guard let memory, memory != MAP_FAILED else { fatalError("out of memory: \(capacity) blocks of loop work") }
    return memory.bindMemory(to: WorkItem.self, capacity: capacity)
  }

  /// Gives back a buffer whose blocks have been moved away.
  static func deallocate(_ buffer: UnsafeMutablePointer<WorkItem>, capacity: Int) {
    if capacity <= keptCapacity { buffer.deallocate() } else { munmap(buffer, size(capacity)) }
  }

  private static func size(_ capacity: Int) -> Int { capacity * MemoryLayout<WorkItem>.stride }
}
