/// The words of the calling thread's thread-local variables.
///
/// The variables of modules that were loaded when the process started lie above the thread pointer on aarch64, and below it elsewhere.
enum ThreadLocalWords {
  /// How far from the thread pointer words are searched.
  private static let reach = 64 << 10
  private static let pageSize = 4096

  /// The distances from the thread pointer at which a word lies, up to the first page that cannot be read.
  static func offsets(of word: UInt64, near base: UInt64) -> [Int64] {
    var found: [Int64] = []
    withUnsafeTemporaryAllocation(byteCount: pageSize, alignment: 8) { page in
      var edge = base
      var length = 0
      while length < reach {
        #if arch(arm64)
        let start = edge
        let end = (start | UInt64(pageSize - 1)) + 1
        edge = end
        #else
        let end = edge
        let start = (end - 1) & ~UInt64(pageSize - 1)
        edge = start
        #endif
        let part = UnsafeMutableRawBufferPointer(rebasing: page[..<Int(end - start)])
        guard OwnProcess().read(start, into: part) == part.count else { return }
        for (index, value) in part.bindMemory(to: UInt64.self).enumerated() where value == word {
          found.append(Int64(bitPattern: start &+ 8 * UInt64(index) &- base))
        }
        length += part.count
      }
    }
    return found
  }
}
