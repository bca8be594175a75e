import CUnwind
import DescriptorIO

/// A hardware breakpoint that shows whether a thread has changed its current task since it was set.
///
/// The runtime writes the thread's current task when a task begins, continues or is suspended, also
/// if it is the same task again. So a thread that has not written it has run one task without a
/// suspension. The first write ends the breakpoint: that write takes some 10 µs
/// longer, and the thread notices nothing else. About 50 µs to make; the first one that a thread
/// makes may take 16 ms. Used by one thread, with a descriptor table of the monitor's own.
package final class TaskChanges {
  private let descriptor: GuardedDescriptor

  /// Nil where perf events or such breakpoints are refused.
  package init?(of thread: Int32, threadPointer: UInt64, layout: TaskLayout) {
    cunwind_perf_keep_ready()
    let word = layout.currentTask.address(threadPointer: threadPointer)
    guard let descriptor = GuardedDescriptor(cunwind_word_watch_begin(thread, word)) else { return nil }
    self.descriptor = descriptor
  }

  deinit { descriptor.close() }

  /// Whether there was a change; true also where the kernel does not say.
  package var hasChanged: Bool { cunwind_word_watch_has_ended(descriptor.number) }
}
