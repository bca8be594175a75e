import PlatformLibc

/// Text that is never freed: a literal, or a copy that lives as long as the process.
///
/// It is what one thread may show another without any agreement on lifetimes. Copying it costs nothing; making a
/// `String` of it allocates.
struct ImmortalText: Sendable, CustomStringConvertible {
  // Points to a NUL-terminated string that nobody frees or changes, hence safe to send anywhere.
  nonisolated(unsafe) let start: UnsafePointer<UInt8>

  init(start: UnsafePointer<UInt8>) {
    self.start = start
  }

  /// Text from a bit pattern that ``PublishedState`` stored, nil for 0.
  init?(bitPattern: UInt) {
    guard let start = UnsafePointer<UInt8>(bitPattern: bitPattern) else { return nil }
    self.start = start
  }

  /// A copy that is never freed: for names that come from a bounded set.
  init(copying text: String) {
    var text = text
    start = text.withUTF8 { bytes in
      let copy = UnsafeMutablePointer<UInt8>.allocate(capacity: bytes.count + 1)
      copy.update(from: bytes.baseAddress ?? UnsafePointer(copy), count: bytes.count)
      copy[bytes.count] = 0
      return UnsafePointer(copy)
    }
  }

  /// The bytes, without the terminating zero; valid for ever.
  var utf8: UnsafeBufferPointer<UInt8> {
    UnsafeBufferPointer(start: start, count: strlen(UnsafeRawPointer(start).assumingMemoryBound(to: CChar.self)))
  }

  /// The text as a string.
  var description: String { String(decoding: utf8, as: UTF8.self) }
}
