import PlatformLibc

/// Writes to files, which take all bytes or fail.
package enum FileBytes {
  /// Writes all bytes, and waits for the disk or the reader; returns 0, or an errno value if that failed.
  package static func write(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32) -> Int32 {
    var sent = 0
    while sent < bytes.count {
      let count = PlatformLibc.write(descriptor, bytes.baseAddress! + sent, bytes.count - sent)
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return count < 0 ? errno : ENOSPC }
      sent += count
    }
    return 0
  }
}
