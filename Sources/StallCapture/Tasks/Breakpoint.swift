import CLinux
import CUnwind
import DescriptorIO

/// A hardware breakpoint of one thread that the first hit ends.
///
/// The hit takes some 10 µs of the thread's time, and the thread notices nothing else. About 50 µs to
/// make; the first one that a thread makes may take 16 ms. Used by one thread, with a descriptor table
/// of the monitor's own.
package final class Breakpoint {
  private let descriptor: GuardedDescriptor

  /// Nil where perf events or such breakpoints are refused.
  private init?(of thread: Int32, at address: UInt64, _ kind: cunwind_breakpoint) {
    cunwind_perf_keep_ready()
    guard let descriptor = GuardedDescriptor(cunwind_breakpoint_begin(thread, address, kind)) else { return nil }
    self.descriptor = descriptor
  }

  deinit { descriptor.close() }

  /// Whether there was a hit; true also where the kernel does not say.
  package var isHit: Bool { cunwind_breakpoint_is_hit(descriptor.number) }

  /// Is hit when the thread changes its current task.
  ///
  /// The runtime writes the thread's current task when a task begins, continues or is suspended, also
  /// if it is the same task again. So a thread that has not written it has run one task without a
  /// suspension.
  package static func change(
    ofTaskOn thread: Int32, threadPointer: UInt64, layout: TaskLayout
  ) -> Breakpoint? {
    Breakpoint(of: thread, at: layout.currentTaskWord.address(threadPointer: threadPointer), CUNWIND_BREAKPOINT_WRITE)
  }

  /// Whether the address of `Task.yield()` is known.
  package static var canMarkYields: Bool { clinux_task_yield() != 0 }

  /// Is hit when the thread's task calls `Task.yield()`, which need not suspend it.
  package static func yield(on thread: Int32) -> Breakpoint? {
    let function = clinux_task_yield()
    return function == 0 ? nil : Breakpoint(of: thread, at: function, CUNWIND_BREAKPOINT_RUN)
  }
}
