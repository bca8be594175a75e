import CZlib

/// A gzip file in memory (RFC 1952).
enum Gzip {
  /// Compresses bytes; nil if zlib has no memory for it.
  static func compress(_ bytes: [UInt8]) -> [UInt8]? {
    var stream = z_stream()
    // 15 bits of window, and 16 for gzip's header and trailer.
    let size = Int32(MemoryLayout<z_stream>.size)
    guard
      deflateInit2_(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION, size)
        == Z_OK
    else {
      return nil
    }
    defer { deflateEnd(&stream) }
    var result: [UInt8] = []
    var input = bytes
    var chunk = [UInt8](repeating: 0, count: 1 << 16)
    return input.withUnsafeMutableBufferPointer { input -> [UInt8]? in
      var position = 0
      while true {
        // zlib counts in 32 bits.
        let part = min(input.count - position, 1 << 30)
        stream.next_in = input.baseAddress.map { $0 + position }
        stream.avail_in = UInt32(part)
        position += part
        let isLast = position == input.count
        var status = Z_OK
        repeat {
          let room = chunk.count
          let left = chunk.withUnsafeMutableBufferPointer { output in
            stream.next_out = output.baseAddress
            stream.avail_out = UInt32(room)
            status = deflate(&stream, isLast ? Z_FINISH : Z_NO_FLUSH)
            return Int(stream.avail_out)
          }
          guard status >= Z_OK || status == Z_BUF_ERROR else { return nil }
          result += chunk[..<(room - left)]
        } while stream.avail_out == 0
        if status == Z_STREAM_END { return result }
        if isLast { return nil }
      }
    }
  }
}
