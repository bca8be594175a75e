import CZlib
import Glibc

/// A gzip stream (RFC 1952), made piece by piece.
///
/// Used by one thread at a time.
final class GzipStream {
  // On the heap: zlib compares the address with the one that it was initialized with.
  private let stream: UnsafeMutablePointer<z_stream>
  // zlib reads it with the first piece.
  private let header: UnsafeMutablePointer<gz_header>
  private let output = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: 1 << 16)

  /// Nil if there is no memory for it.
  ///
  /// - Parameter name: For the header, where gzip(1) writes the original file's name.
  init?(name: String? = nil) {
    header = .allocate(capacity: 1)
    header.initialize(to: gz_header())
    // Unix.
    header.pointee.os = 3
    header.pointee.name = name.map { UnsafeMutableRawPointer(strdup($0)).assumingMemoryBound(to: UInt8.self) }
    stream = .allocate(capacity: 1)
    stream.initialize(to: z_stream())
    // 15 bits of window, and 16 for gzip's header and trailer.
    let status = deflateInit2_(
      stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
      Int32(MemoryLayout<z_stream>.size))
    guard status == Z_OK, deflateSetHeader(stream, header) == Z_OK else { return nil }
  }

  deinit {
    deflateEnd(stream)
    stream.deallocate()
    free(header.pointee.name)
    header.deallocate()
    output.deallocate()
  }

  /// Compresses a piece of less than 4 GiB.
  ///
  /// - Parameters:
  ///   - input: zlib reads it, and does not change it.
  ///   - isLast: No piece follows.
  ///   - write: Takes what has been compressed, 64 KiB at most at a time.
  /// - Throws: What `write` throws.
  func compress<Failure>(
    _ input: UnsafeMutableBufferPointer<UInt8>, isLast: Bool,
    write: (UnsafeRawBufferPointer) throws(Failure) -> Void
  ) throws(Failure) {
    stream.pointee.next_in = input.baseAddress
    stream.pointee.avail_in = UInt32(input.count)
    repeat {
      stream.pointee.next_out = output.baseAddress
      stream.pointee.avail_out = UInt32(output.count)
      _ = deflate(stream, isLast ? Z_FINISH : Z_NO_FLUSH)
      try write(
        UnsafeRawBufferPointer(
          rebasing: UnsafeRawBufferPointer(output)[..<(output.count - Int(stream.pointee.avail_out))]))
    } while stream.pointee.avail_out == 0
  }
}
