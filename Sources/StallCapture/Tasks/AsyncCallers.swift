import CLinux
import CUnwind

/// The functions that wait for what a thread runs in a task, whose addresses are in a buffer.
struct AsyncCallers {
  /// The most callers that are read.
  static let limit = 64

  /// How many addresses the buffer has, innermost first: each is where a function continues.
  var count = 0
  /// There are more than ``limit``.
  var isTruncated = false
  /// The task is a child: who waits for it belongs to its parent task.
  var isChildTask = false
}

/// Reads the suspended callers of what a thread runs, through the chain of contexts of its current task.
///
/// All memory is foreign: each word is read through the kernel and checked. It allocates nothing on the heap.
struct AsyncCallerSearch {
  let layout: TaskLayout
  let thread: Int32
  /// The thread's stack, innermost first.
  let frames: UnsafeBufferPointer<cunwind_frame>
  let snapshot: cunwind_snapshot
  /// The thread has run since its stack was copied.
  let isRunning: Bool

  private var process: ProcessHandle { layout.process }

  init(
    layout: TaskLayout, thread: Int32, frames: UnsafeBufferPointer<cunwind_frame>, snapshot: cunwind_snapshot,
    isRunning: Bool
  ) {
    (self.layout, self.thread, self.frames, self.snapshot, self.isRunning) = (
      layout, thread, frames, snapshot, isRunning
    )
  }

  /// How many allocations of a task are searched for a context, from the last one.
  private static let allocationLimit = 64
  /// How many frames are searched, from the outermost: a task's function is called by the runtime.
  private static let frameLimit = 64
  /// How many bytes of code a resumed function may need to replace the context that it was given.
  ///
  /// Until then, it has the context of the function that it waited for, so no callers are read.
  private static let resumePrologue: UInt64 = 64

  /// Fills `buffer`, which has space for ``AsyncCallers/limit`` addresses.
  ///
  /// Nil if the thread runs no task, or if it is not certain which function of the task it runs.
  func callers(into buffer: UnsafeMutableBufferPointer<UInt64>) -> AsyncCallers? {
    guard let outermost = frames.last,
      let pointer = ThreadPointer.of(
        thread: thread, outermostStackPointer: outermost.stack_pointer, in: process),
      let task = layout.currentTask(threadPointer: pointer), isTask(task),
      !hasJustResumed, !hasNestedJobs
    else { return nil }
    return withUnsafeTemporaryAllocation(of: UInt64.self, capacity: Self.allocationLimit) { allocations in
      let count = readAllocations(of: task, into: allocations)
      let live = UnsafeBufferPointer(rebasing: allocations[..<count])
      guard var found = callers(of: task, live: live, into: buffer) else { return nil }
      guard let flags = process.load(task &+ TaskLayout.flags, as: UInt32.self) else { return nil }
      found.isChildTask = flags & TaskLayout.childFlag != 0
      // The same for all of the time in which it was read.
      guard layout.currentTask(threadPointer: pointer) == task, isTask(task),
        process.load(task &+ layout.lastAllocation, as: UInt64.self) == live.first.map({ $0 - TaskLayout.headerSize })
          ?? 0
      else { return nil }
      return found
    }
  }

  private func isTask(_ address: UInt64) -> Bool { layout.isTask(address) }

  /// Whether the innermost function has only begun, and may not have taken its own context from the one that it was given.
  private var hasJustResumed: Bool {
    guard let innermost = frames.first, !innermost.is_return_address,
      cunwind_context_distance(process.cunwind, innermost.address) > 0
    else { return false }
    return innermost.address &- cunwind_function_start(process.cunwind, innermost.address) < Self.resumePrologue
  }

  /// Whether a job runs within another one: a run loop that an asynchronous function runs, or a task that it has begun at once.
  ///
  /// The current task is the inner one, and the stack ends with the outer one's function: who waits for that is not known.
  private var hasNestedJobs: Bool {
    var count = 0
    for frame in frames {
      let entry = clinux_job_entry_before(frame.lookupAddress)
      if entry != 0, cunwind_function_start(process.cunwind, frame.lookupAddress) == entry { count += 1 }
    }
    return count > 1
  }

  /// The memory that the task has allocated and not freed, the last first.
  private func readAllocations(of task: UInt64, into buffer: UnsafeMutableBufferPointer<UInt64>) -> Int {
    var count = 0
    var header = process.load(task &+ layout.lastAllocation, as: UInt64.self) ?? 0
    while header != 0, header % 16 == 0, count < buffer.count {
      buffer[count] = header &+ TaskLayout.headerSize
      count += 1
      header = process.load(header, as: UInt64.self) ?? 0
    }
    return count
  }

  // MARK: The context of the function that runs

  /// Walks from the context of the function that runs; the likeliest first.
  private func callers(
    of task: UInt64, live: UnsafeBufferPointer<UInt64>, into buffer: UnsafeMutableBufferPointer<UInt64>
  ) -> AsyncCallers? {
    let tail = frames.indices.suffix(Self.frameLimit)
    // Functions that keep their context where debuggers find it.
    for index in tail.reversed() {
      guard let context = keptContext(of: index) else { continue }
      if let found = walk(from: context, live: live, into: buffer) { return found }
      // That function has ended since its stack was copied. Other values that are found belong to
      // another moment.
      if isRunning { return nil }
    }
    // Others have it in the register, unless they use that for something else.
    for index in tail.reversed() where frames[index].knows_context {
      if let found = walk(from: frames[index].context, live: live, into: buffer) { return found }
    }
    // The function that the task was last resumed in.
    if let resume = process.load(task &+ TaskLayout.resumeFunction, as: (UInt64, UInt64).self),
      isHeld(resume.1),
      tail.contains(where: { cunwind_function_start(process.cunwind, frames[$0].lookupAddress) == resume.0 }),
      let found = walk(from: resume.1, live: live, into: buffer)
    {
      return found
    }
    // A task that has allocated nothing runs its outermost function. Otherwise the last that a function allocates before it calls
    // another one is the other one's context.
    guard let last = live.first else { return isRunning ? nil : AsyncCallers() }
    return isHeld(last) ? walk(from: last, live: live, into: buffer) : nil
  }

  /// The context that a frame keeps on the stack, as it was copied.
  private func keptContext(of index: Int) -> UInt64? {
    guard index + 1 < frames.count else { return nil }
    let distance = cunwind_context_distance(process.cunwind, frames[index].lookupAddress)
    guard distance > 0 else { return nil }
    let address = frames[index + 1].stack_pointer &- distance
    guard address >= frames[index].stack_pointer else { return nil }
    return copiedWord(at: address)
  }

  private func copiedWord(at address: UInt64) -> UInt64? {
    guard address >= snapshot.stack_address, snapshot.stack_length >= 8,
      address - snapshot.stack_address <= snapshot.stack_length - 8
    else { return nil }
    return UnsafeRawPointer(snapshot.stack)?.loadUnaligned(
      fromByteOffset: Int(address - snapshot.stack_address), as: UInt64.self)
  }

  /// Whether the thread had the word in a register or on its stack, if it has run since.
  private func isHeld(_ word: UInt64) -> Bool {
    guard isRunning else { return true }
    let isInRegister = withUnsafeBytes(of: snapshot.registers) { bytes in
      bytes.bindMemory(to: UInt64.self).indices.contains { number in
        snapshot.known >> UInt64(number) & 1 == 1 && bytes.load(fromByteOffset: 8 * number, as: UInt64.self) == word
      }
    }
    if isInRegister { return true }
    guard var address = frames.first?.stack_pointer, let end = frames.last?.stack_pointer else { return false }
    while address < end, let copied = copiedWord(at: address) {
      if copied == word { return true }
      address += 8
    }
    return false
  }

  // MARK: The chain of contexts

  /// Reads the callers from a context to the task's outermost one, or to the limit.
  ///
  /// Nil if it, or anything on the way, is no context. A context is two words: its caller's
  /// context, and where that continues.
  private func walk(
    from first: UInt64, live: UnsafeBufferPointer<UInt64>, into buffer: UnsafeMutableBufferPointer<UInt64>
  ) -> AsyncCallers? {
    var found = AsyncCallers()
    var context = first
    while let (parent, resume) = words(of: context) {
      if parent == 0 {
        return layout.runtime.contains(resume) && cunwind_is_continuation(process.cunwind, resume) ? found : nil
      }
      // The outermost one was allocated with the task.
      if found.count == 0, !live.contains(first) { return nil }
      if found.count == buffer.count {
        found.isTruncated = true
        return found
      }
      guard cunwind_is_continuation(process.cunwind, resume) else { return nil }
      buffer[found.count] = resume
      found.count += 1
      context = parent
      // A ring has no outermost context.
      if context == first { return nil }
    }
    return nil
  }

  private func words(of context: UInt64) -> (UInt64, UInt64)? {
    guard context != 0, context % 16 == 0 else { return nil }
    return process.load(context, as: (UInt64, UInt64).self)
  }
}

extension cunwind_frame {
  /// An address in the function that the frame is of.
  var lookupAddress: UInt64 { is_return_address ? address &- 1 : address }
}
