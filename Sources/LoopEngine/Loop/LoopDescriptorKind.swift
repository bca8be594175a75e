import PlatformLibc

/// A kind of descriptor that a loop opens for itself, by the name that the kernel gives it in `/proc/self/fd`.
enum LoopDescriptorKind: String {
  case event = "anon_inode:[eventfd]"
  case timer = "anon_inode:[timerfd]"
  case epoll = "anon_inode:[eventpoll]"

  /// Closes a descriptor that the child of a fork has inherited.
  ///
  /// It stays open if the number is another file's by now, or if that cannot be found out.
  func closeInherited(_ descriptor: Int32) {
    guard descriptor >= 0 else { return }
    let name = withUnsafeTemporaryAllocation(of: CChar.self, capacity: 64) { buffer -> String in
      let length = readlink("/proc/self/fd/\(descriptor)", buffer.baseAddress!, 63)
      return String(decoding: buffer.prefix(max(0, length)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
    if name == rawValue { _ = PlatformLibc.close(descriptor) }
  }
}
