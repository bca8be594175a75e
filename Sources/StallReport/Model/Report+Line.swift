/// The report as a line, and what it omits if it would be too long.
extension Report {
  /// The line with its newline, at most `limit` bytes: frames go from the middle of the stack first, and
  /// `frames_omitted` says how many.
  package func line(limit: Int = longestLine) -> [UInt8] {
    guard let places else { return line(limit: limit, tree: nil) }
    if limit > Self.longestLine {
      let tree = places.json(room: limit / 3)
      return line(limit: limit - (tree.map { $0.bytes.count + UnnamedCallTree.memberOverhead } ?? 0), tree: tree)
    }
    // The call tree is omitted first.
    let plain = line(limit: limit, tree: nil)
    guard let tree = places.json(room: limit - plain.count) else { return plain }
    return line(limit: limit, tree: tree)
  }

  private func line(limit: Int, tree: JSONWriter?) -> [UInt8] {
    var frames = stack.map(\.json)
    // The loop's own stack has half of the space in any case, and what the other threads leave.
    var others = threads.map { thread in (thread, thread.stack.map(\.json)) }
    var omitted = 0
    let room = limit - line(frames: [], others: [], omitted: 1, threadsOmitted: 1).count - 20
    let ownRoom = max(room / 2, room - others.reduce(0) { $0 + $1.0.headSize + Self.size($1.1) })
    omitted += Self.trim(&frames, to: ownRoom, keeping: Culprit.responsibleIndex(of: stack))
    var left = room - Self.size(frames)
    let kept = Self.fitting(others, in: left)
    let threadsOmitted = threadsOmitted + others.count - kept
    others.removeSubrange(kept...)
    left -= others.reduce(0) { $0 + $1.0.headSize }
    // A thread that is waited for has the share of four others.
    var shares = others.reduce(0) { $0 + $1.0.role.share }
    for index in others.indices {
      let share = others[index].0.role.share
      omitted += Self.trim(&others[index].1, to: left * share / shares)
      left -= Self.size(others[index].1)
      shares -= share
    }
    return line(frames: frames, others: others, omitted: omitted, threadsOmitted: threadsOmitted, tree: tree)
  }

  /// How many of the threads fit with their innermost frames; the rest is counted.
  private static func fitting(_ threads: [(OtherThread, [JSONWriter])], in room: Int) -> Int {
    var left = room
    for (index, (thread, frames)) in threads.enumerated() {
      // Lock holders come first, also at the cost of the others; another thread is included with at
      // least three frames.
      left -= thread.headSize + (thread.role == .lockHolder ? 0 : size(Array(frames.prefix(3))))
      if left < 0 { return index }
    }
    return threads.count
  }

  private func line(
    frames: [JSONWriter], others: [(OtherThread, [JSONWriter])], omitted: Int, threadsOmitted: Int,
    tree: JSONWriter? = nil
  ) -> [UInt8] {
    var line = JSONWriter()
    writeHead(into: &line)
    line.array("stack", frames)
    if !others.isEmpty { line.array("threads", others.map { $0.json(frames: $1) }) }
    if threadsOmitted > 0 { line.member("threads_omitted", threadsOmitted) }
    if omitted > 0 { line.member("frames_omitted", omitted) }
    if let tree { line.object("call_tree") { $0.append(members: tree) } }
    return line.terminated()
  }

  private static func size(_ frames: [JSONWriter]) -> Int { StackTrim.size(of: frames.map(\.bytes.count)) }

  private static func trim(_ frames: inout [JSONWriter], to room: Int, keeping kept: Int? = nil) -> Int {
    let count = frames.count
    frames.removeSubranges(StackTrim.omitted(of: frames.map(\.bytes.count), room: room, keeping: kept))
    return count - frames.count
  }
}
