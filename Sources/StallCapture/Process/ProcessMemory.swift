import CUnwind

/// This process's memory, which another thread may change or unmap at any moment.
enum ProcessMemory {
  /// Reads a value, or returns nil if it cannot be read.
  static func load<T: BitwiseCopyable>(_ address: UInt64, as type: T.Type) -> T? {
    withUnsafeTemporaryAllocation(byteCount: MemoryLayout<T>.size, alignment: MemoryLayout<T>.alignment) { buffer in
      guard cunwind_read(address, buffer.baseAddress, buffer.count) == buffer.count else { return nil }
      return buffer.load(as: T.self)
    }
  }

  /// Reads the terminated string at `address`, of `limit` bytes at most, or returns nil if it cannot be read.
  ///
  /// What is no UTF-8 or no printable character is replaced.
  static func string(at address: UInt64, limit: Int) -> String? {
    guard address != 0 else { return nil }
    return withUnsafeTemporaryAllocation(byteCount: limit, alignment: 1) { buffer in
      let count = cunwind_read(address, buffer.baseAddress, limit)
      guard count > 0 else { return nil }
      let text = UnsafeRawBufferPointer(rebasing: buffer[..<count]).prefix { $0 != 0 }
      return printable(text) + (text.count == limit ? "…" : "")
    }
  }

  /// Returns the bytes as text on one line.
  static func printable(_ bytes: some Sequence<UInt8>) -> String {
    String(decoding: bytes.map { $0 < 0x20 || $0 == 0x7f ? UInt8(ascii: "?") : $0 }, as: UTF8.self)
  }
}
