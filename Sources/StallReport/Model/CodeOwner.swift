/// Whose code a frame is.
package enum CodeOwner: Hashable, Sendable {
  /// The watched program's own, its private libraries and the packages that it links: the code that can be responsible for a stall.
  case host
  /// The Swift or C++ runtime, the Swift standard library, libdispatch, Foundation.
  case runtime
  /// libc, the loader, the vDSO, and libraries that the distribution installs.
  case system
  /// This monitor and its run loop.
  case monitor
}
