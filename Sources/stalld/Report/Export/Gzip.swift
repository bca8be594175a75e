/// A gzip file in memory.
enum Gzip {
  /// Compresses bytes; nil if zlib has no memory for it.
  static func compress(_ bytes: [UInt8]) -> [UInt8]? {
    guard let stream = GzipStream() else { return nil }
    var input = bytes
    var result: [UInt8] = []
    input.withUnsafeMutableBufferPointer { input in
      var rest = input[...]
      repeat {
        let piece = rest.prefix(1 << 30)
        rest = rest.dropFirst(piece.count)
        stream.compress(UnsafeMutableBufferPointer(rebasing: piece), isLast: rest.isEmpty) { result += $0 }
      } while !rest.isEmpty
    }
    return result
  }
}
