/// The words of the calling thread's thread-local variables.
///
enum ThreadLocalWords {
  /// How far from the thread pointer words are searched.
  private static let reach = 64 << 10
  private static let pageSize = 4096

  /// Whether the variables of modules that were loaded when the process started lie above the thread pointer, or below it; nil if it is not
  /// known.
  #if arch(arm64)
  private static let areAbove: Bool? = true
  #elseif arch(x86_64)
  private static let areAbove: Bool? = false
  #else
  private static let areAbove: Bool? = nil
  #endif

  /// The distances from the thread pointer at which a word lies, up to the first page that cannot be read.
  static func offsets(of word: UInt64, near base: UInt64, in process: ProcessHandle) -> [Int64] {
    guard let areAbove else { return [] }
    var found: [Int64] = []
    withUnsafeTemporaryAllocation(byteCount: pageSize, alignment: 8) { page in
      var edge = base
      var length = 0
      while length < reach {
        let mask = UInt64(pageSize - 1)
        let (start, end) = areAbove ? (edge, (edge | mask) + 1) : ((edge - 1) & ~mask, edge)
        edge = areAbove ? end : start
        let part = UnsafeMutableRawBufferPointer(rebasing: page[..<Int(end - start)])
        guard process.read(start, into: part) == part.count else { return }
        for (index, value) in part.bindMemory(to: UInt64.self).enumerated() where value == word {
          found.append(Int64(bitPattern: start &+ 8 * UInt64(index) &- base))
        }
        length += part.count
      }
    }
    return found
  }
}
