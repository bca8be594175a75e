import CLinux
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
    // In C: a generic type that Swift first makes here takes a lock of the runtime's, which a thread of the parent may have held.
    if clinux_descriptor_is(descriptor, rawValue) != 0 { _ = PlatformLibc.close(descriptor) }
  }
}
