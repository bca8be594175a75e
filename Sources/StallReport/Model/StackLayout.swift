/// The stacks of a line, as far as there is space for them.
///
/// Frames go from the middles of stacks first, and `frames_omitted` says how many.
package struct StackLayout {
  /// A thread: the members of its object without its stack, and its frames.
  package struct Thread {
    package var head: JSONWriter
    package var isWaitedFor: Bool
    package var frames: [JSONWriter]

    package init(head: JSONWriter, isWaitedFor: Bool, frames: [JSONWriter]) {
      (self.head, self.isWaitedFor, self.frames) = (head, isWaitedFor, frames)
    }

    /// Its weight when space is shared: a thread that is waited for has the share of four others.
    fileprivate var share: Int { isWaitedFor ? 4 : 1 }
    /// What it takes without frames.
    fileprivate var headSize: Int { head.bytes.count + #"{,"stack":[]},"#.utf8.count }

    fileprivate var object: JSONWriter {
      var object = head
      object.array("stack", frames)
      return object
    }
  }

  private var frames: [JSONWriter]
  private var threads: [Thread]
  private var framesOmitted = 0
  private var threadsOmitted = 0

  /// What the members take beside frames and threads.
  package static let overhead =
    #","stack":[],"threads":[],"threads_omitted":1000000000,"frames_omitted":1000000000"#.utf8.count

  /// - Parameters:
  ///   - frames: The loop's own stack, which has half of the space in any case, and what the other threads leave.
  ///   - kept: The frame of it that stays in any case.
  ///   - threads: The other threads, those that are waited for first.
  ///   - space: How many bytes they may take.
  package init(_ frames: [JSONWriter], keeping kept: Int?, _ threads: [Thread], space: Int) {
    (self.frames, self.threads) = (frames, threads)
    let wanted = threads.reduce(0) { $0 + $1.headSize + Self.size($1.frames) }
    framesOmitted += Self.trim(&self.frames, to: max(space / 2, space - wanted), keeping: kept)
    var left = space - Self.size(self.frames)
    let count = Self.fitting(threads, in: left)
    threadsOmitted = threads.count - count
    self.threads.removeSubrange(count...)
    left -= self.threads.reduce(0) { $0 + $1.headSize }
    var shares = self.threads.reduce(0) { $0 + $1.share }
    for index in self.threads.indices {
      let share = self.threads[index].share
      framesOmitted += Self.trim(&self.threads[index].frames, to: left * share / shares)
      left -= Self.size(self.threads[index].frames)
      shares -= share
    }
  }

  /// Writes the members, with what had been omitted before.
  package func write(into line: inout JSONWriter, threadsOmittedBefore: Int, framesOmittedBefore: Int = 0) {
    line.array("stack", frames)
    if !threads.isEmpty { line.array("threads", threads.map(\.object)) }
    let threadsOmitted = threadsOmitted + threadsOmittedBefore
    if threadsOmitted > 0 { line.member("threads_omitted", threadsOmitted) }
    let framesOmitted = framesOmitted + framesOmittedBefore
    if framesOmitted > 0 { line.member("frames_omitted", framesOmitted) }
  }

  /// How many of the threads fit with their innermost frames; the rest is counted.
  private static func fitting(_ threads: [Thread], in room: Int) -> Int {
    var left = room
    return threads.firstIndex { thread in
      // Lock holders come first, also at the cost of the others; another thread is included with at
      // least three frames.
      left -= thread.headSize + (thread.isWaitedFor ? 0 : size(Array(thread.frames.prefix(3))))
      return left < 0
    } ?? threads.count
  }

  private static func size(_ frames: [JSONWriter]) -> Int { StackTrim.size(of: frames.map(\.bytes.count)) }

  private static func trim(_ frames: inout [JSONWriter], to room: Int, keeping kept: Int? = nil) -> Int {
    let count = frames.count
    frames.removeSubranges(StackTrim.omitted(of: frames.map(\.bytes.count), room: room, keeping: kept))
    return count - frames.count
  }
}
