import Glibc

/// A kind of descriptor that a loop has of its own.
enum OwnDescriptor: String {
  case event = "anon_inode:[eventfd]"
  case timer = "anon_inode:[timerfd]"
  case epoll = "anon_inode:[eventpoll]"

  /// Closes what the child of a fork has inherited, unless the program has closed it before and the number is another file's.
  ///
  /// Left open where that cannot be told.
  func close(_ descriptor: Int32) {
    guard descriptor >= 0 else { return }
    let name = withUnsafeTemporaryAllocation(of: CChar.self, capacity: 64) { buffer -> String in
      let length = readlink("/proc/self/fd/\(descriptor)", buffer.baseAddress!, 63)
      return String(decoding: buffer.prefix(max(0, length)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
    if name == rawValue { _ = Glibc.close(descriptor) }
  }
}
