import CZlib
import Glibc

/// The bytes of an open file, which it closes; what gzip made is unpacked, with all its members (RFC 1952).
final class UnpackedFile {
  private let input: InputFiles.Input
  private let packed = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 16)
  /// libz wants it to stay where it is.
  private let stream = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
  /// Nil before the first byte, which says that: no text of JSON begins as gzip files do.
  private var isGzip: Bool?
  private var members = 0
  private var isInMember = false
  private var problem: InputFiles.Input.Fault?

  init(_ input: InputFiles.Input) {
    self.input = input
    stream.initialize(to: z_stream())
    // A window of 32 KiB, with gzip's header and check.
    inflateInit2_(stream, 15 + 16, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size))
  }

  deinit {
    inflateEnd(stream)
    stream.deallocate()
    packed.deallocate()
    close(input.descriptor)
  }

  /// Reads the next bytes; 0 at the end.
  ///
  /// What was unpacked before a fault is given before the fault is thrown.
  func read(into bytes: UnsafeMutableBufferPointer<UInt8>) throws(InputFiles.Input.Fault) -> Int {
    if isGzip == nil {
      guard try fill() else { return 0 }
      isGzip = packed[0] == 0x1f
    }
    if isGzip == true { return try unpack(into: bytes) }
    let count = min(Int(stream.pointee.avail_in), bytes.count)
    guard count > 0, let first = stream.pointee.next_in, let target = bytes.baseAddress else {
      return try input.read(into: UnsafeMutableRawBufferPointer(bytes))
    }
    memcpy(target, first, count)
    stream.pointee.next_in = first + count
    stream.pointee.avail_in -= UInt32(count)
    return count
  }

  /// False at the end of the file.
  private func fill() throws(InputFiles.Input.Fault) -> Bool {
    let count = try input.read(into: packed)
    stream.pointee.next_in = packed.baseAddress?.assumingMemoryBound(to: UInt8.self)
    stream.pointee.avail_in = UInt32(count)
    return count > 0
  }

  private func unpack(into bytes: UnsafeMutableBufferPointer<UInt8>) throws(InputFiles.Input.Fault) -> Int {
    stream.pointee.next_out = bytes.baseAddress
    stream.pointee.avail_out = UInt32(bytes.count)
    while stream.pointee.avail_out == bytes.count {
      if let problem { throw problem }
      if stream.pointee.avail_in == 0, try !fill() {
        guard isInMember else { return 0 }
        throw InputFiles.Input.Fault(description: "unexpected end of file")
      }
      if !isInMember { inflateReset(stream) }
      isInMember = true
      let code = inflate(stream, Z_NO_FLUSH)
      if code == Z_STREAM_END {
        isInMember = false
        members += 1
      } else if code != Z_OK, code != Z_BUF_ERROR {
        let words = stream.pointee.msg.map { String(cString: $0) } ?? "damaged"
        let isOther = members > 0 && words == "incorrect header check"
        problem = InputFiles.Input.Fault(description: isOther ? "what follows the gzip data is none" : words)
      }
    }
    return bytes.count - Int(stream.pointee.avail_out)
  }
}
