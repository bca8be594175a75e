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
    var line = JSONWriter()
    writeHead(into: &line)
    let layout = StackLayout(
      stack.map(\.json), keeping: Culprit.responsibleIndex(of: stack),
      threads.map { .init(head: $0.head, isWaitedFor: $0.role == .lockHolder, frames: $0.stack.map(\.json)) },
      space: limit - line.terminated().count - StackLayout.overhead)
    layout.write(into: &line, threadsOmittedBefore: threadsOmitted)
    if let tree { line.object("call_tree") { $0.append(members: tree) } }
    return line.terminated()
  }
}
